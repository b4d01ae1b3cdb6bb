"""The traffic study: which runs it makes, and what it says of their curves."""

import dataclasses

import pytest
from factorax_paper.experiments import find, traffic_2x6, traffic_3x3
from factorax_paper.experiments.traffic_3x3 import LOCAL
from factorax_paper.harness import traffic_study
from traffic_outcomes import traffic_outcome

from factorax.ppo import Learner, find_network
from factorax.ppo.config import Config
from factorax.ppo.presets import settings_with
from factorax.problems import find_problem

METHODS = {"traffic-3x3": traffic_3x3.METHODS, "traffic-2x6": traffic_2x6.METHODS}


def test_without_sumo_policies_are_shown_in_lanes():
    one, settings, table, summary = traffic_outcome("traffic-3x3", [-180.0] * 4, sumo=False)
    assert summary["methods"][LOCAL]["sumo"] is None
    assert "in lanes" in one.draw(settings, table, summary).axes[1].get_title()


@pytest.mark.parametrize("name", ["traffic-3x3", "traffic-2x6"])
@pytest.mark.parametrize("preset", [traffic_study.LITERAL, "traffic-paper-large-minibatches"])
def test_every_run_has_settings_that_fit(name, preset):
    """What would be said on the command line: the problem, its networks and the settings go together."""
    settings = dataclasses.replace(find(name).budgets["paper"], preset=preset)
    rows, columns = (int(n) for n in name.removeprefix("traffic-").split("x"))
    runs = traffic_study.plan(rows, columns, METHODS[name])(settings, 1)
    assert {method for run in runs for method, _ in run.labels} == set(settings.methods)
    for run in runs:
        assert {seed for _, seed in run.labels} == set(range(10, 20))
        options, networks = run.arguments, [network for _, network in run.networks]
        given = dict(zip(options[2::2], options[3::2], strict=False))
        names = {"--n-envs": int, "--policy": str, "--method": str, "--reward-scale": float}
        changes = {key[2:].replace("-", "_"): kind(given[key]) for key, kind in names.items() if key in given}
        config = Config(**settings_with(preset, changes))
        assert run.steps == settings.iterations * config.n_envs * config.n_steps
        problem = find_problem(options[1])
        for network in networks or [given["--network"]]:
            find_network(problem, network)
        Learner.of(problem, None, config)  # raises if the settings do not fit the problem


def test_methods_that_differ_in_their_networks_are_one_program():
    runs = traffic_study.plan(2, 6, METHODS["traffic-2x6"])(find("traffic-2x6").budgets["paper"], 0)
    assert [len(run.labels) for run in runs] == [120, 70]


def test_in_sumo_every_seed_is_a_run_with_processes():
    settings = dataclasses.replace(find("traffic-3x3").budgets["quick"], sim="sumo")
    runs = traffic_study.plan(3, 3, METHODS["traffic-3x3"])(settings, 0)
    assert len(runs) == len(settings.methods) * settings.seeds
    assert all(run.arguments[1].startswith("sumo:3x3") for run in runs)
