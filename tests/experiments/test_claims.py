"""Claims: from hand-made tables to summaries and verdicts, the table that ships with the library, one's own."""

import dataclasses
import json
import shlex
import typing
from pathlib import Path

import numpy as np
import pytest
import tyro

from factorax import experiments
from factorax.experiments import grids, search_baselines, search_discrepancy, search_rate, search_stability
from factorax.experiments.claims import Claim, Verdict, above, collected, published, verdict
from factorax.experiments.statistics import Interval, gamma_mean
from factorax.experiments.table import from_rows

ROOT = Path(__file__).parents[2]
VERDICTS = typing.get_args(Verdict)
ROW = Claim("FPG is stable.", "Sec. 5.1", "curves only", "0.1 [0.05, 0.2]", "holds", command="factorax claims")


def is_complete(claim):
    return all(getattr(claim, name).strip() for name in ("claim", "where", "paper", "ours", "command"))


def write(folder, content):
    folder.mkdir()
    (folder / "summary.json").write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return folder


@pytest.mark.parametrize(
    ("tests", "want"),
    [
        ([True], "holds"),
        ([True, True, True], "holds"),
        ([False, True], "holds in part"),
        ([True, False, False], "holds in part"),
        ([False], "does not hold"),
        ([False, False], "does not hold"),
    ],
)
def test_the_verdict(tests, want):
    assert verdict(*tests) == want
    assert want in VERDICTS


def test_the_verdict_on_an_interval():
    assert above(Interval(1.0, 0.91, 1.1), 0.9) == "holds"
    assert above(Interval(1.0, 0.89, 1.1), 0.9) == "holds in part"
    assert above(Interval(0.8, 0.7, 0.91), 0.9) == "holds in part"
    assert above(Interval(0.8, 0.7, 0.89), 0.9) == "does not hold"


INF = np.inf
CLOSE, FAR = (0.1, 0.11, 0.12, 0.13), (1.0, 1.1, 1.2, 1.3)


def runs(method, n, step_size, gaps, **more):
    """The rows of one cell of a grid."""
    for seed, gap in enumerate(gaps):
        row = {"method": method, "n": n, "step_size": step_size, "seed": seed, "gap": gap}
        yield row | {"diverged": int(gap == INF)} | {key: values[seed] for key, values in more.items()}


def test_cells_count_the_diverged_and_average_the_rest():
    table = from_rows(
        [*runs("FPG", 2, 0.1, CLOSE), *runs("VPG", 2, 0.1, (INF, 1.0, 3.0)), *runs("VPG", 2, 1.0, (INF,))]
    )
    keys = [{"method": "FPG", "n": 2}, {"method": "VPG", "step_size": 0.1}, {"method": "VPG", "step_size": 1.0}]
    sound, mixed, lost = grids.cells(table, keys, lambda rows: rows["gap"], confidence=0.9)
    assert sound == keys[0] | {"runs": 4, "diverged": 0, "usable": 4, "mean": vars(gamma_mean(CLOSE, 0.9))}
    assert mixed == keys[1] | {"runs": 3, "diverged": 1, "usable": 2, "mean": vars(gamma_mean([1.0, 3.0], 0.9))}
    assert lost == keys[2] | {"runs": 1, "diverged": 1, "usable": 0, "mean": None}
    assert grids.whole(sound) == gamma_mean(CLOSE, 0.9)
    assert grids.whole(mixed) is None
    assert grids.whole(lost) is None


@pytest.mark.parametrize(
    ("curve", "want"),
    [
        ([4.0, 3.0, 1.0, 0.5], 150.0),  # halfway between 3 and 1
        ([4.0, 2.0, 1.0, 0.5], 100.0),
        ([4.0, 2.2, 1.2, 3.0], 120.0),  # the first time counts
        ([4.0, 0.0, 0.0, 0.0], 50.0),
    ],
)
def test_the_step_at_which_a_curve_is_halved(curve, want):
    assert search_baselines._halved(np.array([0, 100, 200, 300]), np.array(curve)) == pytest.approx(want)


def curves(method, step_size, *gaps):
    for seed, curve in enumerate(gaps):
        for t, gap in enumerate(curve):
            yield {"method": method, "step_size": step_size, "seed": seed, "step": 10 * t, "gap": gap}


def test_curves_are_summarised_without_those_that_diverge():
    settings = search_baselines.Settings(n=2, seeds=2, steps=20, every=10)
    fast, slow = ([4.0, 1.0, 0.5], [2.0, 0.5, 0.5]), ([4.0, 3.5, 3.0], [2.0, 1.9, 1.8])
    rows = [
        *curves("VPG", 0.001, *slow),
        *curves("VPG", 0.5, [4.0, INF, INF], [2.0, 3.0, INF]),
        *curves("VPG b(s)", 0.5, *slow),
        *curves("VPG b(s,a)", 0.5, [4.0, 2.0, 1.0], [2.0, 3.0, INF]),
        *curves("FPG", 0.5, *fast),
        *curves("FPG b(s)", 0.5, *fast),
    ]
    summary = search_baselines.summarise(settings, from_rows(rows))
    assert summary["VPG η=0.5"] == {"diverged": 2, "runs": 2, "divergence seen at step": 10}
    mixed = summary["VPG b(s,a) η=0.5"]
    assert (mixed["diverged"], mixed["divergence seen at step"]) == (1, 20)
    assert mixed["final gap"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert mixed["spread over seeds"] == 0.0
    assert mixed["steps to halve the gap"]["mean"] == 10.0
    assert "steps to halve the gap" not in summary["VPG b(s) η=0.5"]
    fpg = summary["FPG η=0.5"]
    assert fpg["final gap"]["mean"] == 0.5
    assert fpg["gap over the second half"] == pytest.approx(vars(gamma_mean([0.75, 0.5])))
    assert fpg["steps to halve the gap"]["mean"] == pytest.approx(20 / 3)
    verdicts = [claim.verdict for claim in search_baselines.claims(settings, summary)]
    assert verdicts[0] == "holds"
    assert len(verdicts) == 5


def discrepancy(fpg, vpg, n=4):
    """The summary and the verdicts if all cells are alike but the first, which has these gaps."""
    settings = search_discrepancy.Settings((n,), (0.1, 1.0), seeds=4)
    rows = []
    for coupling in search_discrepancy.COUPLINGS:
        for step_size, cell in [(0.1, {"FPG": fpg, "VPG": vpg}), (1.0, {"FPG": CLOSE, "VPG": FAR})]:
            for method, gaps in cell.items():
                rows += [{"coupling": coupling} | row for row in runs(method, n, step_size, gaps)]
    summary = search_discrepancy.summarise(settings, from_rows(rows))
    first, second, *_ = summary["cells"]
    interval = gamma_mean(CLOSE, 1 - 0.05 / 4) / gamma_mean(FAR, 1 - 0.05 / 4)  # four cells at once
    assert second["ratio"] == pytest.approx(vars(interval))
    return first, {claim.verdict for claim in search_discrepancy.claims(settings, summary)}


@pytest.mark.parametrize(
    ("fpg", "vpg", "ratio", "want"),
    [
        (CLOSE, (1.0, INF, 1.2, 1.3), "VPG diverges", "holds"),
        ((INF, 0.1, 0.1, 0.1), FAR, "FPG diverges", "does not hold"),
        ((INF,) * 4, (INF,) * 4, "both diverge", "holds"),
        ((INF, 0.1, 0.1, 0.1), (INF,) * 4, "both diverge", "holds"),
    ],
)
def test_a_ratio_says_who_diverges(fpg, vpg, ratio, want):
    first, verdicts = discrepancy(fpg, vpg)
    assert first["ratio"] == ratio
    assert first["FPG"]["diverged"] == sum(gap == INF for gap in fpg)
    assert first["VPG"]["diverged"] == sum(gap == INF for gap in vpg)
    assert verdicts == {want}


@pytest.mark.parametrize(
    ("fpg", "vpg", "want"),
    [
        (CLOSE, FAR, "holds"),
        (FAR, CLOSE, "does not hold"),  # beyond doubt
        (tuple(1.01 * x for x in CLOSE), CLOSE, "holds in part"),  # above 1 by what may be noise
    ],
)
def test_a_ratio_above_one_counts_if_it_is_beyond_doubt(fpg, vpg, want):
    first, verdicts = discrepancy(fpg, vpg)
    assert first["ratio"]["mean"] == pytest.approx(np.mean(fpg) / np.mean(vpg))
    assert verdicts == {want}


def rate(*cells):
    """The summary and the verdict for cells of (method, step size, steps needed); −1 if the limit came first."""
    settings = search_rate.Settings((4,), (0.1, 1.0), seeds=3)
    rows = [row for m, step_size, reached in cells for row in runs(m, 4, step_size, (0.1,) * 3, reached=reached)]
    summary = search_rate.summarise(settings, from_rows(rows))
    (claim,) = search_rate.claims(settings, summary)
    return summary["cells"], claim


def test_unfinished_runs_have_no_number_of_steps():
    few, many, some, none = (90, 100, 110), (900, 1000, 1100), (500, -1, 700), (-1, -1, -1)
    cells, claim = rate(("FPG", 0.1, few), ("FPG", 1.0, few), ("VPG", 0.1, many), ("VPG", 1.0, some))
    assert [cell["usable"] for cell in cells] == [3, 3, 3, 2]
    assert cells[0]["mean"] == vars(gamma_mean(few))
    assert cells[3]["mean"]["mean"] == 600
    assert all(cell["diverged"] == 0 for cell in cells)
    assert claim.verdict == "holds"
    assert "with FPG alone in 1, with VPG alone in 0, with both in 1" in claim.ours
    cells, claim = rate(("FPG", 0.1, none), ("FPG", 1.0, many), ("VPG", 0.1, few), ("VPG", 1.0, few))
    assert cells[0]["mean"] is None
    assert claim.verdict == "does not hold"
    assert "with FPG alone in 0, with VPG alone in 1, with both in 1" in claim.ours
    _, claim = rate(("FPG", 0.1, few), ("FPG", 1.0, few), ("VPG", 0.1, few), ("VPG", 1.0, some))
    assert claim.verdict == "holds in part"  # no fewer steps where both arrive


def test_stability_is_counted_in_cells():
    settings = search_stability.Settings((2, 4), (0.1, 1.0), seeds=4)
    rows = [row for n in (2, 4) for step_size in (0.1, 1.0) for row in runs("FPG", n, step_size, np.divide(CLOSE, 10))]
    rows += [row for n in (2, 4) for row in runs("VPG", n, 0.1, FAR)]
    rows += [*runs("VPG", 2, 1.0, FAR), *runs("VPG", 4, 1.0, (1.0, INF, 1.0, 1.0))]
    summary = search_stability.summarise(settings, from_rows(rows))
    converges, sensitive = search_stability.claims(settings, summary)
    assert (converges.verdict, sensitive.verdict) == ("holds", "holds")
    assert converges.ours.startswith("4 of 4 cells without a diverged run; mean gap below 0.1 in 4 (VPG: 3 and 0)")
    assert "VPG diverges in 1 of 4 cells (FPG in 0)" in sensitive.ours
    assert "at n = 4 it ends below its first gap for 1 of 2 step sizes (FPG's for 2)" in sensitive.ours


def test_every_published_claim_is_complete():
    rows = published()
    assert rows
    for row in rows:
        assert is_complete(row), row
        assert row.verdict in VERDICTS
        assert "nan" not in row.ours.split()
    assert len({(row.claim, row.command) for row in rows}) == len(rows)


def parsed(command):
    """The name and the options of a published command, read by the very parser of `factorax`."""
    program, reproduce, *rest = shlex.split(command)
    assert (program, reproduce) == ("factorax", "reproduce")
    found = {}

    def keep(name: tyro.conf.Positional[str], /, *, budget: typing.Literal["quick", "paper"] = "quick", seed: int = 0):
        found.update(name=name, budget=budget, seed=seed)

    tyro.cli(keep, args=rest)
    return found


def of_experiments():
    """Those that an experiment makes; the others have an example for a command."""
    return [row for row in published() if row.command.startswith("factorax ")]


def test_every_published_command_runs_an_experiment_or_an_example():
    for row in published():
        if row not in of_experiments():
            assert (ROOT / shlex.split(row.command)[1]).is_file()
    for row in of_experiments():
        got = parsed(row.command)
        assert got["name"] in experiments.NAMES
        assert got["budget"] in experiments.find(got["name"]).budgets


def test_what_is_published_has_the_paper_s_sizes():
    assert {parsed(row.command)["budget"] for row in of_experiments()} == {"paper"}


def test_every_experiment_has_published_a_claim():
    assert {parsed(row.command)["name"] for row in of_experiments()} >= set(experiments.BANDITS)


def test_claims_of_folders_are_collected_in_order(tmp_path):
    other = dataclasses.replace(ROW, claim="VPG is not.", verdict="holds in part", note="η ≤ 0.1")
    first = write(tmp_path / "a", {"claims": [ROW.as_dict(), other.as_dict()]})
    second = write(tmp_path / "b", {"claims": [other.as_dict()]})
    assert collected([first, second]) == [ROW, other, other]
    assert collected([str(second)]) == [other]
    assert collected([]) == []


def test_a_folder_without_a_summary_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/summary\.json: no summary"):
        collected([tmp_path / "nowhere"])
    (tmp_path / "a file").write_text("")
    with pytest.raises(OSError, match=r"a file/summary\.json"):
        collected([tmp_path / "a file"])


INCOMPLETE = {key: value for key, value in ROW.as_dict().items() if key != "ours"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"claims": [',
        b"\xff\xfe",
        [],
        {},
        {"claims": None},
        {"claims": "none"},
        {"claims": [INCOMPLETE]},
        {"claims": [ROW.as_dict() | {"colour": "green"}]},
        {"claims": [ROW.as_dict() | {"verdict": "perhaps"}]},
    ],
    ids=str,
)
def test_a_damaged_summary_is_named(content, tmp_path):
    good = write(tmp_path / "good", {"claims": [ROW.as_dict()]})
    with pytest.raises(ValueError, match=r"bad/summary\.json: not a summary"):
        collected([good, write(tmp_path / "bad", content)])
