"""The traffic study: which runs it makes, and what it says of their curves."""

import dataclasses

import numpy as np
import pytest

from factorax.experiments import experiment, find, traffic
from factorax.learning.config import Config
from factorax.learning.naming import find_network, find_problem


def results(settings, seed, ends, sumo=True):
    """Curves that rise from −300 to these returns, a little apart for every seed."""
    found = []
    for end in ends:
        finals = end + np.linspace(-1, 1, settings.seeds)
        curves = -300 + (finals[:, None] + 300) * np.linspace(0, 1, settings.iterations)
        steps = np.tile(20_000 * np.arange(1, settings.iterations + 1), (settings.seeds, 1))
        scores = {"final": finals, "sampled": finals, "sumo": finals if sumo else np.full(settings.seeds, np.nan)}
        found.append({"steps": steps, "returns": curves, "variance_ratio": np.full(settings.seeds, np.nan)} | scores)
    return [*found, {"returns": np.array([[-153.0, -154.0], [-233.0, -233.0], [-370.0, -360.0]])}]


def made(name, ends, **options):
    one = find(name)
    settings = dataclasses.replace(one.budgets["paper"], iterations=30)
    table = one.tabulate(settings, 0, results(settings, 0, ends, **options))
    return one, settings, table, one.summarise(settings, table)


def test_three_by_three_says_faster_and_better():
    ends = [-180.0, -230.0, -240.0, -182.0, -181.0, -228.0, -179.0]
    one, settings, table, summary = made("traffic-3x3", ends)
    faster, better = one.claims(settings, summary)
    assert (faster.verdict, better.verdict) == ("holds", "holds")
    assert summary["controllers"]["gap-out"] == -153.5
    assert summary["methods"][traffic.LOCAL]["sumo"]["mean"] == pytest.approx(-180, abs=0.5)
    figure = one.draw(settings, table, summary)
    assert len(figure.axes[0].lines) == len(settings.methods) + 3
    assert "in SUMO" in figure.axes[1].get_title()
    _, settings, _, summary = made("traffic-3x3", [-230.0, -180.0, -240.0, *ends[3:]])
    assert [claim.verdict for claim in one.claims(settings, summary)] == ["holds in part"] * 2


def test_two_by_six_must_fall_with_every_level():
    for ends, verdict in (
        ([-150.0, -160.0, -170.0, -180.0, -190.0, -200.0, -250.0], "holds"),
        ([-150.0, -160.0, -155.0, -180.0, -190.0, -200.0, -250.0], "holds in part"),
        ([-250.0, -240.0, -230.0, -220.0, -210.0, -200.0, -190.0], "does not hold"),
    ):
        one, settings, _, summary = made("traffic-2x6", ends)
        (claim,) = one.claims(settings, summary)
        assert claim.verdict == verdict


def test_without_sumo_policies_are_shown_in_lanes():
    one, settings, table, summary = made("traffic-3x3", [-180.0] * 7, sumo=False)
    assert summary["methods"][traffic.LOCAL]["sumo"] is None
    assert "in lanes" in one.draw(settings, table, summary).axes[1].get_title()


@pytest.mark.parametrize("name", ["traffic-3x3", "traffic-2x6"])
@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_every_run_has_settings_that_fit(name, budget):
    """What would be said on the command line: the batch divides the rollout, and the network is one of the grid's."""
    settings = find(name).budgets[budget]
    rows, columns = (int(n) for n in name.removeprefix("traffic-").split("x"))
    runs = traffic.plan(rows, columns)(settings, 1)
    assert [run.method for run in runs] == list(settings.methods)
    for run in runs:
        given = dict(zip(run.arguments[2::2], run.arguments[3::2], strict=False))
        sizes = {key: int(given[f"--{key.replace('_', '-')}"]) for key in ("n_envs", "n_steps", "batch_size")}
        Config(**sizes)
        assert run.steps == settings.iterations * sizes["n_envs"] * sizes["n_steps"]
        assert (run.seed, run.seeds) == (settings.seeds, settings.seeds)
        find_network(find_problem(run.arguments[1]), given.get("--network", "own"))


def test_in_sumo_every_seed_is_a_run_with_processes():
    settings = dataclasses.replace(find("traffic-3x3").budgets["quick"], sim="sumo")
    runs = traffic.plan(3, 3)(settings, 0)
    assert len(runs) == len(settings.methods) * settings.seeds
    assert all(run.arguments[1].startswith("sumo:3x3") for run in runs)


def test_other_experiments_have_no_simulator(tmp_path):
    with pytest.raises(ValueError, match="sim: the experiment search-rate has no such setting; leave it out"):
        experiment.reproduce(find("search-rate"), out=tmp_path / "out", change={"sim": "sumo"})
    assert not (tmp_path / "out").exists()
