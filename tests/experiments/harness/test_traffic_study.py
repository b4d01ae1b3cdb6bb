"""The traffic study: which runs it makes, and what it says of their curves."""

import dataclasses

import pytest
from traffic_outcomes import traffic_outcome

from factorax.experiments import find, traffic_2x6, traffic_3x3
from factorax.experiments.harness import traffic_study
from factorax.experiments.traffic_3x3 import LOCAL
from factorax.learning import find_network
from factorax.learning.config import Config
from factorax.problems import find_problem

OPTIONS = {"traffic-3x3": traffic_3x3.OPTIONS, "traffic-2x6": traffic_2x6.OPTIONS}


def test_without_sumo_policies_are_shown_in_lanes():
    one, settings, table, summary = traffic_outcome("traffic-3x3", [-180.0] * 7, sumo=False)
    assert summary["methods"][LOCAL]["sumo"] is None
    assert "in lanes" in one.draw(settings, table, summary).axes[1].get_title()


@pytest.mark.parametrize("name", ["traffic-3x3", "traffic-2x6"])
@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_every_run_has_settings_that_fit(name, budget):
    """What would be said on the command line: the batch divides the rollout, and the network is one of the grid's."""
    settings = find(name).budgets[budget]
    rows, columns = (int(n) for n in name.removeprefix("traffic-").split("x"))
    runs = traffic_study.plan(rows, columns, OPTIONS[name])(settings, 1)
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
    runs = traffic_study.plan(3, 3, OPTIONS["traffic-3x3"])(settings, 0)
    assert len(runs) == len(settings.methods) * settings.seeds
    assert all(run.arguments[1].startswith("sumo:3x3") for run in runs)
