"""`factorax report`: the command."""

import pytest
from runs.report.run_folders import write_run

pytestmark = pytest.mark.usefixtures("surroundings")


def test_a_report_is_written_where_it_says(factorax, tmp_path):
    run = write_run(tmp_path / "run")
    code, out, err = factorax("report", run, "--no-play")
    assert (code, err) == (0, "")
    assert out.startswith("the report is in report.html (")
    assert (tmp_path / "report.html").stat().st_size > 50_000
    code, out, _ = factorax("report", tmp_path, "--no-play", "--out", "other.html")
    assert code == 0
    assert (tmp_path / "other.html").exists()


def test_bad_input_is_one_line_and_leaves_no_file(factorax, tmp_path):
    write_run(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    for arguments, message in {
        ("report",): "what: got an empty list",
        ("report", "missing"): "what: no 'missing'",
        ("report", "empty"): "what: 'empty' is not a run",
        ("report", "run", "--out", "a.txt"): "out: got 'a.txt', want a file whose name ends in .html",
        ("report", "run", "run"): "what: got 'run' twice",
    }.items():
        code, out, err = factorax(*arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1
    assert not list(tmp_path.glob("*.html"))
