"""Quotes as factors: which runs there are, how they are scored, and what is said of them."""

import dataclasses

import numpy as np
import pytest
from factorax_paper.experiments import find
from factorax_paper.experiments.market import METHODS, Case, Settings, cases, plan, yardstick
from factorax_paper.market import optimum

from factorax.ppo import find_network
from factorax.problems import find_problem

EXPERIMENT = find("market")
SMALL = Settings((1, 10), (2,), seeds=3, updates=4)


def test_names_of_markets_stay_texts_in_a_table():
    names = [case.name for case in cases(SMALL)]
    assert names == ["1 asset", "10 assets", "2 tied assets"]


@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_the_runs_of_a_market_differ_in_their_methods_alone(budget):
    settings = EXPERIMENT.budgets[budget]
    runs = iter(plan(settings, 1))
    for case in cases(settings):
        own = [next(runs) for _ in METHODS]
        assert len({name for name, _ in own}) == len(METHODS)
        problem = find_problem(case.problem)
        for (_, of_method), (network, options) in zip(own, METHODS.values(), strict=True):
            sizes = {k: v for k, v in of_method.settings.items() if k not in options}
            same = dataclasses.replace(of_method, network="singletons", settings=sizes)
            assert same == own[0][1]  # learning rates are tried alike, too
            assert of_method.settings == sizes | options
            assert find_network(problem, network).static.targets == problem.network.targets
            assert of_method.model.config.total_timesteps == settings.updates * case.n_envs * problem.model.horizon
        assert own[0][1].first == settings.tuning + settings.seeds
    assert next(runs, None) is None


def test_the_paper_has_the_sizes_of_the_study():
    paper = EXPERIMENT.budgets["paper"]
    assert paper.assets == (1, 10, 100, 1000)
    assert paper.seeds == 10


def test_the_yardstick_is_the_optimum_or_the_closed_form():
    assert yardstick(Case(10, False)) == pytest.approx(10 * optimum(find_problem("market:1").model).value)
    exact = optimum(find_problem(Case(2, True).problem).model).value
    assert yardstick(Case(2, True)) == pytest.approx(exact, rel=0.02)


def outcome(finals):
    """Runs whose training rises to a method's final percentage, a hundredth more or less by seed."""
    results = []
    for (name, _), method in zip(plan(SMALL, 0), list(METHODS) * 3, strict=True):
        case = next(case for case in cases(SMALL) if name == f"{case.name} {method}")
        end = finals[method] / 100 * yardstick(case)
        value = end * (1 + 0.001 * np.arange(3))
        curve = np.linspace(0, 1, 50) * value[:, None]
        steps = np.tile(np.arange(50), (3, 1))
        results.append({"steps": steps, "returns": curve, "value": value, "rate": np.array(1e-3)})
    table = EXPERIMENT.tabulate(SMALL, 0, results)
    return table, EXPERIMENT.summarise(SMALL, table)


@pytest.mark.parametrize(
    ("finals", "verdicts"),
    [
        ((97, 97, 99, 80), ["holds", "holds", "holds"]),
        ((97, 94, 94, 94), ["does not hold", "does not hold", "does not hold"]),
    ],
)
def test_verdicts_are_those_of_the_leads(finals, verdicts):
    table, summary = outcome(dict(zip(METHODS, finals, strict=True)))
    assert summary["10 assets"]["joint"]["final"]["mean"] == pytest.approx(finals[3], rel=0.01)
    rows = EXPERIMENT.claims(SMALL, summary)
    assert [claim.verdict for claim in rows] == verdicts
    assert all(claim.chosen_by and claim.source == "ours" for claim in rows)
    assert len(EXPERIMENT.draw(SMALL, table, summary).axes) == 3
