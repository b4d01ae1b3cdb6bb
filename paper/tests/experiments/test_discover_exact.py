"""Networks recovered by intervention, at a tiny size; and the claims of hand-made summaries."""

import io
import json

import pytest
from factorax_paper.experiments import discover_exact
from factorax_paper.experiments.discover_exact import EXPERIMENT, Settings
from factorax_paper.harness.experiment import reproduce
from rich.console import Console

from factorax.structure import gallery

QUIET = Console(file=io.StringIO())


@pytest.mark.slow
def test_networks_recovered_by_intervention(tmp_path):
    summary = reproduce(EXPERIMENT, settings=Settings(trials=4, grids=()), out=tmp_path / "out", console=QUIET)
    assert summary.keys() == {*gallery.PAPER, "chain 8, delay 3", "chain 64, delay 5"}
    for row in summary.values():
        assert (row["found"], row["spurious"]) == (row["edges"], 0)
    claims = json.loads((tmp_path / "out" / "summary.json").read_text())["claims"]
    assert [claim["verdict"] for claim in claims] == ["holds", "holds"]


def test_claims_of_hand_made_summaries():
    row = {"edges": 3, "found": 3, "spurious": 0, "one_step": 0, "steps": 10, "one_at_a_time": 40}
    names = [*discover_exact._cases(Settings(grids=("3x3",)))]
    summary = {name: dict(row) for name in names}
    settings = Settings(grids=("3x3",))
    assert [c.verdict for c in discover_exact.claims(settings, summary)] == ["holds"] * 3
    summary["traffic 3x3"]["found"] = 2
    summary["chain 8, delay 3"]["one_step"] = 1
    assert [c.verdict for c in discover_exact.claims(settings, summary)] == ["holds", "holds in part", "does not hold"]
