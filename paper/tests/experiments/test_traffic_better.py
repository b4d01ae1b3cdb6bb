"""The preset against the best controller: which runs there are, and what is said of them."""

import json

import numpy as np
import pytest
from factorax_paper.experiments import find
from factorax_paper.experiments.traffic_better import (
    ABLATIONS,
    CONTROLLERS,
    CRITIC,
    GLOBAL,
    LONG_SIGHT,
    METHODS,
    NEAR,
    NO_BONUS,
    QUARTER,
    SHORT_SIGHT,
    VANILLA,
    plan,
)

from factorax.ppo import find_network
from factorax.ppo.config import Config
from factorax.ppo.presets import settings_with
from factorax.problems import find_problem

BETTER = find("traffic-better")
PAPER = BETTER.budgets["paper"]
GAP_OUT, ALWAYS, ACTUATED = -150.0, -230.0, -370.0
PRESET_WORKS = {NEAR: -110.0, GLOBAL: -130.0, VANILLA: -220.0}
CHANGES_MATTER = {NO_BONUS: -175.0, "entropy bonus 0.02": -115.0, QUARTER: -125.0}


def options(training):
    """The options of a training, from name to value, beyond those of every training and networks side by side."""
    given = training.arguments[training.arguments.index("--seeds") + 2 :]
    given = given[: given.index("--networks")] if "--networks" in given else given
    return {name.removeprefix("--"): value for name, value in zip(given[::2], given[1::2], strict=True)}


@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_every_run_has_settings_that_fit(budget):
    settings = BETTER.budgets[budget]
    for run in plan(settings, 1):
        assert (run.seed, run.seeds) == (settings.seeds, settings.seeds)
        assert run.arguments[2:4] == ("--preset", "traffic-full")
        given = options(run)
        for network in [given.pop("network", "incident"), *(network for _, network in run.networks)]:
            find_network(find_problem(run.arguments[1]), network)
        changed = {name.replace("-", "_"): value for name, value in given.items()}
        numbers = {name: float(value) for name, value in changed.items() if name in ("ent_coef", "gamma")}
        Config(**settings_with("traffic-full", changed | numbers))


def test_methods_differ_in_networks_or_the_method():
    runs = plan(PAPER, 0)
    methods = [method for run in runs[:4] for method, seed in run.labels if seed == 0]
    assert methods == [f"{grid}, {name}" for grid in ("3x3", "2x6") for name in METHODS]
    for run in runs[:4]:
        assert options(run) == ({} if run.networks else {"method": "ppo", "policy": "shared"})
        assert run.steps == 9_600_000
    for run, name in zip(runs[4:], ABLATIONS, strict=True):
        assert run.method == f"3x3, {name}"
        assert options(run)["network"] == "incident"
        assert len(options(run)) + (run.steps != 9_600_000) == 2  # the network, and one change
    assert {run.steps for run in runs} == {9_600_000, 4_800_000, 2_400_000}


def outcome(ends=(), *, sumo=True, settings=PAPER, lanes_offset=5.0):
    """Runs that rise from −300 to these returns, −112 unless named, a little apart for every seed."""
    ends = PRESET_WORKS | CHANGES_MATTER | dict(ends)
    results = []
    for run in plan(settings, 0):
        middles = np.array([ends.get(method.split(", ", 1)[1], -112.0) for method, _ in run.labels])
        finals = middles + np.tile(np.linspace(-1, 1, settings.seeds), len(middles) // settings.seeds)
        curves = -300 + (finals[:, None] + 300) * np.linspace(0, 1, 20)
        steps = np.tile(np.linspace(0, run.steps, 20).astype(int), (len(finals), 1))
        nothing = np.full(len(finals), np.nan)
        scores = {"final": finals - lanes_offset, "sampled": finals, "sumo": nothing, "variance_ratio": nothing}
        results.append({"steps": steps, "returns": curves} | scores)
    controllers = np.array([GAP_OUT, ALWAYS, ACTUATED])[None, :, None] + np.zeros((len(settings.grids), 3, 2))
    table = BETTER.tabulate(settings, 0, [*results, {"returns": controllers}])
    if sumo:
        trained = np.array([name[5:] not in CONTROLLERS for name in table["method"]])
        table["sumo"] = table["final"] + np.where(trained, lanes_offset, 0.0)
    return settings, table, BETTER.summarise(settings, table)


def test_what_is_said_if_all_is_as_hoped():
    settings, table, summary = outcome()
    assert summary["simulator"] == "SUMO"
    assert summary["grids"]["3x3"]["methods"][NEAR]["score"]["mean"] == pytest.approx(-110, abs=0.1)
    assert summary["grids"]["3x3"]["methods"][NEAR]["lanes"]["mean"] == pytest.approx(-115, abs=0.1)
    gain = summary["grids"]["2x6"]["gain"]
    assert gain["whole"]["mean"] == pytest.approx(gain["ratios"]["mean"] + gain["k"]["mean"])
    assert gain["k"]["mean"] == pytest.approx(20)
    claims = BETTER.claims(settings, summary)
    assert [claim.verdict for claim in claims] == ["holds"] * 5
    assert all(claim.source == "ours" and claim.chosen_by and not claim.would_settle for claim in claims)
    assert "gap-out −150.0; 10 of 10 seeds" in claims[0].ours
    assert len(BETTER.draw(settings, table, summary).axes) == 4
    json.dumps(summary, allow_nan=False)


@pytest.mark.parametrize(
    ("ends", "verdict_of"),
    [
        ({NEAR: -149.5}, {0: "does not hold", 1: "does not hold"}),  # its worst seed is below gap-out
        ({GLOBAL: -110.2}, {1: "holds in part", 2: "holds"}),
        ({VANILLA: -105.0}, {1: "holds", 2: "does not hold"}),
        ({NO_BONUS: -110.0}, {3: "holds in part"}),
        ({QUARTER: -100.0, NO_BONUS: -100.0}, {3: "does not hold"}),
        ({LONG_SIGHT: -140.0}, {4: "holds in part"}),
        ({LONG_SIGHT: -140.0, SHORT_SIGHT: -140.0, CRITIC: -140.0}, {4: "does not hold"}),
        ({CRITIC: -120.0}, {4: "holds in part"}),  # its interval crosses the margin
    ],
)
def test_what_is_said_if_it_is_not(ends, verdict_of):
    settings, _, summary = outcome(ends)
    claims = BETTER.claims(settings, summary)
    assert {i: claims[i].verdict for i in verdict_of} == verdict_of
    assert all(bool(claim.would_settle) == (claim.verdict == "holds in part") for claim in claims)
