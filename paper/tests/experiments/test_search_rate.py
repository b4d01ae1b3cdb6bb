"""Steps to the optimum: from hand-made tables to summaries and verdicts."""

from factorax_paper.experiments import search_rate
from factorax_paper.harness.statistics import gamma_mean
from factorax_paper.harness.table import from_rows
from grid_runs import runs


def rate(*cells):
    """The summary and the verdict for cells of (method, step size, steps needed); −1 if the limit came first."""
    settings = search_rate.Settings((4,), (0.1, 1.0), seeds=3)
    rows = [row for m, step_size, reached in cells for row in runs(m, 4, step_size, (0.1,) * 3, reached=reached)]
    summary = search_rate.summarise(settings, from_rows(rows))
    claims = search_rate.claims(settings, summary)
    assert all(claim.chosen_by for claim in claims)
    assert all(bool(claim.would_settle) == (claim.verdict == "holds in part") for claim in claims)
    return summary["cells"], claims[0]


def test_unfinished_runs_have_no_number_of_steps():
    few, many, some, none = (90, 100, 110), (900, 1000, 1100), (500, -1, 700), (-1, -1, -1)
    cells, claim = rate(("FPG", 0.1, few), ("FPG", 1.0, few), ("VPG", 0.1, many), ("VPG", 1.0, some))
    assert [cell["usable"] for cell in cells] == [3, 3, 3, 2]
    assert cells[0]["mean"] == vars(gamma_mean(few))
    assert cells[3]["mean"]["mean"] == 600
    assert all(cell["diverged"] == 0 for cell in cells)
    assert claim.verdict == "holds"
    assert "with only FPG in 1, with only VPG in 0, with both in 1" in claim.ours
    cells, claim = rate(("FPG", 0.1, none), ("FPG", 1.0, many), ("VPG", 0.1, few), ("VPG", 1.0, few))
    assert cells[0]["mean"] is None
    assert claim.verdict == "does not hold"
    assert "with only FPG in 0, with only VPG in 1, with both in 1" in claim.ours
    _, claim = rate(("FPG", 0.1, few), ("FPG", 1.0, few), ("VPG", 0.1, few), ("VPG", 1.0, some))
    assert claim.verdict == "holds in part"  # no fewer steps where both arrive


def test_each_at_its_best_step_size():
    """FPG is best at 1.0, VPG at 0.1: no cell has both, and the ratio is 100 / 1000."""
    settings = search_rate.Settings((1, 4, 8), (0.1, 1.0), seeds=3)
    few, many, most, none = (90, 100, 110), (900, 1000, 1100), (9000, 10_000, 11_000), (-1, -1, -1)
    steps = {
        ("FPG", 1): (few, few),
        ("VPG", 1): (few, few),
        ("FPG", 4): (most, few),
        ("VPG", 4): (many, none),
        ("FPG", 8): (none, few),
        ("VPG", 8): (none, none),
    }
    rows = [
        row
        for (method, n), cells in steps.items()
        for step_size, reached in zip((0.1, 1.0), cells, strict=True)
        for row in runs(method, n, step_size, (0.1,) * 3, reached=reached)
    ]
    summary = search_rate.summarise(settings, from_rows(rows))
    four, eight = summary["best step sizes"]
    assert (four["FPG"]["step_size"], four["VPG"]["step_size"]) == (1.0, 0.1)
    assert four["FPG / VPG"] == vars(gamma_mean(few) / gamma_mean(many))
    assert eight == {"n": 8, "FPG": {"step_size": 1.0, "steps": vars(gamma_mean(few))}, "VPG": None}
    _, best = search_rate.claims(settings, summary)
    assert best.verdict == "holds"
    assert best.ours.startswith("FPG / VPG: n = 4: 0.1 [")
    assert best.ours.endswith("with n = 8 VPG arrives with none of the step sizes")
