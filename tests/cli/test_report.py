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


@pytest.mark.parametrize(("seeds", "words"), [((0,), "return (last tenth of training)"), ((0, 1), "return, IQM (")])
def test_compare_names_what_it_shows(seeds, words, factorax, tmp_path):
    """One seed has neither an interquartile mean nor an interval."""
    runs = [
        write_run(tmp_path / f"{method}-{seed}", seed=seed, method=method)
        for method in ("factored", "ppo")
        for seed in seeds
    ]
    code, out, err = factorax("compare", *runs)
    assert (code, err) == (0, "")
    assert words in out
    assert out.count("95 % interval") == (2 if len(seeds) > 1 else 0)
    assert "difference" in out
    assert ("IQM" in out) == (len(seeds) > 1)
