"""Experiments and discoveries in reports: charts from their data, and verdicts."""

from pathlib import Path

import numpy as np
import pytest

from factorax.discovery.result import Discovery
from factorax.runs.report.experiments import data_chart, discovery_verdict, experiment_section, experiment_verdict
from factorax.runs.report.sources import DiscoverySource, ExperimentSource

COLUMNS = ("method", "step_size", "seed", "step", "gap")
ROWS = tuple(
    (method, size, str(seed), str(step), str(step / 10 + seed))
    for method in ("VPG", "FPG")
    for size in ("0.1", "1")
    for seed in range(3)
    for step in (0, 10, 20)
)


def test_curves_are_means_over_repetitions_by_the_other_columns():
    chart = data_chart(COLUMNS, ROWS)
    assert chart is not None
    assert [each["name"] for each in chart["series"]] == [
        "VPG, step_size 0.1", "VPG, step_size 1", "FPG, step_size 0.1", "FPG, step_size 1"
    ]  # fmt: skip
    assert chart["series"][0]["x"]["x"] == [0, 10, 20]
    assert chart["series"][0]["y"] == pytest.approx([1, 2, 3])
    assert chart["series"][0]["low"][0] < 1 < chart["series"][0]["high"][0]
    assert (chart["axes"]["x"], chart["y"]) == ("step", "gap")
    assert not chart["log_x"]


def test_sizes_that_grow_by_factors_are_on_a_logarithmic_axis():
    chart = data_chart(("n", "gap"), [(str(10**k), str(k)) for k in range(5)])
    assert chart is not None
    assert chart["log_x"]
    assert chart["series"][0]["low"] is None


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ((), ()),
        (("a", "b"), (("x", "y"), ("x", "z"))),
        (("step", "name"), (("1", "x"), ("2", "y"))),
        (("step", "gap"), (("1", "2"),)),
        (("step", "gap"), (("1", "2"), ("1", "3"))),
        (("step", "gap"), (("1", "nan"), ("inf", "3"))),
    ],
)
def test_data_without_a_curve_has_no_chart(columns, rows):
    assert data_chart(columns, rows) is None


def source(**options):
    config = {
        "experiment": "search-rate",
        "budget": "paper",
        "seed": 3,
        "settings": {"n": 5},
        "made_with": {"jax": "1"},
    }
    claim = {"verdict": "holds", "claim": "a", "command": "factorax reproduce search-rate --budget paper --seed 3"}
    fields = {"claims": (claim, claim, claim | {"verdict": "does not hold"}), "columns": COLUMNS, "rows": ROWS}
    return ExperimentSource(Path("out/search-rate"), config, **fields | {"figure": ""} | options)


def test_an_experiment_says_how_many_claims_hold():
    said = " ".join(experiment_verdict(source()).sentences)
    assert "search-rate ran with the budget paper and seed 3, and has 36 rows of data" in said
    assert "Of 3 claims that it decides, 2 hold, 1 does not hold." in said
    assert "none is decided yet" in experiment_verdict(source(claims=())).sentences[1]


def test_the_section_has_the_command_settings_and_versions():
    section = experiment_section(source())
    assert section["command"] == "factorax reproduce search-rate --budget paper --seed 3"
    assert experiment_section(source(claims=()))["command"] == section["command"]
    assert section["settings"] == [{"name": "n", "value": "5"}]
    assert section["versions"] == [{"jax": "1"}]
    assert section["n_rows"] == 36


def test_a_discovery_says_what_it_found_and_what_it_promises():
    p_value = np.array([[1e-4, 0.5], [0.9, 2e-4]])
    found = Discovery("score", "return", effect=np.eye(2), p_value=p_value, samples=np.full((2, 2), 100), notes=("n",))
    verdict = discovery_verdict(DiscoverySource(Path("found.safetensors"), found))
    assert verdict.sentences[0].startswith(
        "Discovery, score, network of returns, closed loop: 2 actions → 2 targets: 2 of"
    )
    assert verdict.sentences[1].startswith("What it says: ")
    assert verdict.more == ("n",)
