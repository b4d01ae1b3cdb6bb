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
