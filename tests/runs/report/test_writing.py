"""`fx.report`: a whole file or none."""

import webbrowser

import pytest
from runs.report.run_folders import write_run

import factorax as fx


def test_one_folder_or_a_list_of_them_becomes_a_file(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    told, opened = [], []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    out = fx.report(run, tmp_path / "a.html", play=False, tell=told.append, open_browser=True)
    assert out == tmp_path / "a.html"
    assert out.read_text().startswith("<!doctype html>")
    assert opened == [out.resolve().as_uri()]
    assert told
    assert fx.report([str(run)], str(tmp_path / "b.html"), play=False).exists()


def test_bad_arguments_are_named_and_nothing_is_written(tmp_path):
    run = write_run(tmp_path / "run")
    with pytest.raises(ValueError, match=r"out: got 'a.txt', want a name that ends in .html"):
        fx.report(run, tmp_path / "a.txt")
    with pytest.raises(FileNotFoundError, match="out: no folder"):
        fx.report(run, tmp_path / "none" / "a.html")
    with pytest.raises(FileNotFoundError, match="what: no "):
        fx.report(tmp_path / "missing", tmp_path / "a.html")
    with pytest.raises((TypeError, ValueError), match="play: got 'no'"):
        fx.report(run, tmp_path / "a.html", play="no")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="tell: got 3"):
        fx.report(run, tmp_path / "a.html", tell=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="what: got 3"):
        fx.report(3, tmp_path / "a.html")  # pyright: ignore[reportArgumentType]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_earlier_report_stays_if_a_new_one_fails(tmp_path):
    run = write_run(tmp_path / "run")
    out = fx.report(run, tmp_path / "a.html", play=False)
    before = out.read_bytes()
    (run / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"damaged|delimiter|Expecting"):
        fx.report(run, out, play=False)
    assert out.read_bytes() == before
