"""Compiled programs on disk: where they are kept, and when they are not."""

import os
import stat
import subprocess
import sys

import pytest

from factorax import cli
from factorax.cli import JAX_FOLDER, MAX_SIZE, SETTING, use_compilation_cache

JAX_SIZE = "JAX_COMPILATION_CACHE_MAX_SIZE"


@pytest.fixture
def unset(monkeypatch, tmp_path):
    """As in a process that has not imported JAX."""
    for name in (JAX_FOLDER, SETTING, JAX_SIZE, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(cli, "version", lambda package: "0.10.0")


def test_programs_are_kept_in_the_cache_of_the_user(unset, tmp_path):
    use_compilation_cache()
    folder = os.environ[JAX_FOLDER]
    assert folder.startswith(str(tmp_path / "factorax" / "compiled"))
    assert os.path.isdir(folder)
    assert os.environ[JAX_SIZE] == str(MAX_SIZE)


def test_a_jaxlib_that_logs_false_errors_keeps_programs_only_where_it_is_told_to(unset, monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "version", lambda package: "0.9.2")
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


def test_the_cache_is_set_before_a_command_is_imported(unset, monkeypatch):
    """Modules of commands import JAX, which reads where its cache is when it is imported."""
    is_set = []

    def command() -> None:
        """Do nothing."""

    def function(name):
        is_set.append(JAX_FOLDER in os.environ)
        return command

    monkeypatch.setattr(cli, "command_of", function)
    monkeypatch.setattr(sys, "argv", ["factorax", "compare"])
    assert cli.main() == 0
    assert is_set == [True]


def test_jax_deletes_the_programs_that_were_not_used_for_longest(tmp_path):
    program = """if True:
        import jax, jax.numpy as jnp
        for size in range(2, 8):
            jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones(size))"""
    limits = {JAX_FOLDER: str(tmp_path), JAX_SIZE: "30000", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    subprocess.run([sys.executable, "-c", program], env=os.environ | limits, check=True)
    assert 0 < sum(file.stat().st_size for file in tmp_path.glob("*-cache")) <= 30000
