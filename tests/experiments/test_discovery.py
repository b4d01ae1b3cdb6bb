"""The experiments on finding networks, at tiny sizes; and what their claims say of hand-made summaries."""

import io
import json

import pytest
from rich.console import Console

from factorax.experiments import discovery, discovery_samples, find
from factorax.experiments.experiment import reproduce

pytestmark = pytest.mark.usefixtures("compiled_in_haste")


def go(name, out, settings):
    return reproduce(find(name), settings=settings, out=out, console=Console(file=io.StringIO()))


def test_networks_recovered_by_intervention(tmp_path):
    summary = go("discover-exact", tmp_path / "out", discovery.ExactSettings(trials=4, grids=()))
    assert len(summary) == 6 + 2
    for row in summary.values():
        assert (row["found"], row["spurious"]) == (row["edges"], 0)
    claims = json.loads((tmp_path / "out" / "summary.json").read_text())["claims"]
    assert [claim["verdict"] for claim in claims] == ["holds", "holds"]


def test_precision_and_recall_of_tests_on_data(tmp_path):
    settings = discovery_samples.DataSettings((10,), (300, 2000), repeats=2, nulls=20, null_samples=100)
    summary = go("discover-samples", tmp_path / "out", settings)
    cells = {(c["k"], c["samples"], c["method"]): c for c in summary["cells"]}
    assert len(cells) == 3 * 2 * 5
    for coupling, k in (("n", 10), ("n/2", 5), ("n−1", 9)):
        assert cells[coupling, 2000, "dependence"]["recall"] == 1
        assert cells[coupling, 2000, "gated"]["precision"] > 0.9
        assert cells[coupling, 2000, "score"]["recall"] == pytest.approx(10 / (10 + k), abs=0.06)  # not the penalty
    assert summary["null"]["score"]["mean"] <= 0.25


def test_claims_of_hand_made_summaries():
    row = {"edges": 3, "found": 3, "spurious": 0, "one_step": 0, "steps": 10, "one_at_a_time": 40}
    names = [*discovery._exact_cases(discovery.ExactSettings(grids=("3x3",)))]
    summary = {name: dict(row) for name in names}
    settings = discovery.ExactSettings(grids=("3x3",))
    assert [c.verdict for c in discovery.exact_claims(settings, summary)] == ["holds"] * 3
    summary["traffic 3x3"]["found"] = 2
    summary["chain 8, delay 3"]["one_step"] = 1
    assert [c.verdict for c in discovery.exact_claims(settings, summary)] == ["holds", "holds in part", "does not hold"]
