"""Compiled programs on disk: where they are kept, and when they are not."""

import os
import stat
import sys

import pytest

from factorax import cli
from factorax.cli import _COMMANDS, arguments, commands, compilation_cache
from factorax.cli.compilation_cache import JAX_FOLDER, SETTING, _delete_old, use_compilation_cache


@pytest.fixture
def unset(monkeypatch, tmp_path):
    """As in a process that has not imported JAX."""
    for name in (JAX_FOLDER, SETTING, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compilation_cache, "version", lambda package: "0.10.0")


def test_programs_are_kept_in_the_cache_of_the_user(unset, tmp_path):
    use_compilation_cache()
    folder = os.environ[JAX_FOLDER]
    assert folder.startswith(str(tmp_path / "factorax" / "programs"))
    assert os.path.isdir(folder)


def test_a_jaxlib_that_logs_false_errors_keeps_programs_only_where_it_is_told_to(unset, monkeypatch, tmp_path):
    monkeypatch.setattr(compilation_cache, "version", lambda package: "0.9.2")
    use_compilation_cache()
    assert JAX_FOLDER not in os.environ
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv(SETTING, str(tmp_path / "mine"))
    use_compilation_cache()
    assert os.environ[JAX_FOLDER] == str(tmp_path / "mine")


@pytest.mark.parametrize("word", ["off", "OFF", "0"])
def test_the_cache_can_be_turned_off(unset, monkeypatch, word, tmp_path):
    monkeypatch.setenv(SETTING, word)
    use_compilation_cache()
    assert JAX_FOLDER not in os.environ
    assert not list(tmp_path.iterdir())


def test_another_folder_can_be_chosen_and_a_choice_for_jax_stays(unset, monkeypatch, tmp_path):
    monkeypatch.setenv(SETTING, str(tmp_path / "mine"))
    use_compilation_cache()
    assert os.environ[JAX_FOLDER] == str(tmp_path / "mine")
    monkeypatch.setenv(JAX_FOLDER, "elsewhere")
    use_compilation_cache()
    assert os.environ[JAX_FOLDER] == "elsewhere"


def test_a_folder_that_cannot_be_made_or_written_to_is_left_out(unset, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(SETTING, str(tmp_path / "file" / "below"))
    use_compilation_cache()
    assert JAX_FOLDER not in os.environ
    if os.getuid():  # root may write everywhere
        (tmp_path / "closed").mkdir()
        (tmp_path / "closed").chmod(stat.S_IRUSR | stat.S_IXUSR)
        monkeypatch.setenv(SETTING, str(tmp_path / "closed"))
        use_compilation_cache()
        assert JAX_FOLDER not in os.environ


def test_the_oldest_programs_are_deleted_when_there_are_too_many(tmp_path):
    for i in range(4):
        (tmp_path / str(i)).write_bytes(bytes(10))
        os.utime(tmp_path / str(i), (i, i))
    _delete_old(tmp_path, 40)
    assert len(list(tmp_path.iterdir())) == 4
    _delete_old(tmp_path, 39)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["3"]


def test_the_list_of_commands_says_what_their_docstrings_say():
    for name, function in commands().items():
        first = " ".join((function.__doc__ or "").split("\n\n")[0].split())
        assert first == _COMMANDS[name][1]


def test_the_cache_is_set_before_a_command_is_imported(unset, monkeypatch):
    """Modules of commands import JAX, which reads where its cache is when it is imported."""
    is_set = []

    def command() -> None:
        """Do nothing."""

    def function(name, line):
        is_set.append(JAX_FOLDER in os.environ)
        return command

    assert arguments  # imported before JAX is hidden
    monkeypatch.setattr(cli, "command_of", function)
    monkeypatch.setattr(sys, "argv", ["factorax", "claims"])
    assert cli.main() == 0
    assert is_set == [True]
