"""Reading and writing where others may have laid traps."""

import os
from pathlib import Path

import pytest

from factorax import _files
from factorax._files import append_text, check_not_linked, parse_json, read_bytes, read_json, write_json, write_whole


def test_files_above_the_limit_are_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"1234")
    assert read_bytes(tmp_path / "a", 4) == b"1234"
    with pytest.raises(ValueError, match="a: has more than 3 bytes, which is the limit for such a file"):
        read_bytes(tmp_path / "a", 3)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "b", 3)


def test_pipes_devices_and_folders_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "zero", "loop", "."):
        with pytest.raises(ValueError, match=r"is not a regular file|cannot be read as a file"):
            read_bytes(tmp_path / name, 10)
    with pytest.raises(ValueError, match="cannot be read as a file"):
        read_bytes(Path("a" * 5000), 10)


@pytest.mark.parametrize(("text", "message"), [("[" * 100_000, "too deep"), ("{", "Expecting"), ("9" * 5000, "digits")])
def test_broken_json_raises_value_error(text, message, tmp_path):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_json(tmp_path / "a.json")


def test_json_with_too_many_values_is_refused(monkeypatch):
    monkeypatch.setattr(_files, "MAX_JSON_VALUES", 10)
    assert parse_json("[1, 2, 3]") == [1, 2, 3]
    with pytest.raises(ValueError, match="60 bytes with about 40 values, more than"):
        parse_json("[]," * 20)


@pytest.fixture
def thesis(tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it\n")
    yield tmp_path / "thesis.tex"
    assert (tmp_path / "thesis.tex").read_text() == "all of it\n"


def test_appending_through_a_link_is_refused(thesis, tmp_path):
    (tmp_path / "soft").symlink_to(thesis)
    (tmp_path / "nowhere").symlink_to(tmp_path / "new")
    os.link(thesis, tmp_path / "hard")
    for name, kind in (("soft", "symbolic"), ("nowhere", "symbolic"), ("hard", "hard")):
        with pytest.raises(FileExistsError, match=f"{name}' is a {kind} link, want"):
            append_text(tmp_path / name, "more")
        with pytest.raises(FileExistsError, match=f"{name}' is a {kind} link, want"):
            check_not_linked(tmp_path / name)
    assert not (tmp_path / "new").exists()
    append_text(tmp_path / "plain", "a\n")
    append_text(tmp_path / "plain", "é\n")
    assert (tmp_path / "plain").read_bytes() == "a\né\n".encode()


def test_writing_replaces_a_link_instead_of_its_target(thesis, tmp_path):
    for name in ("soft", "hard"):
        (os.symlink if name == "soft" else os.link)(thesis, tmp_path / name)
        write_json(tmp_path / name, [1])
        assert read_json(tmp_path / name) == [1]
        assert not (tmp_path / name).is_symlink()


def test_failed_write_leaves_no_file(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_whole(tmp_path / "a", lambda file: 1 / 0)
    assert not list(tmp_path.iterdir())
