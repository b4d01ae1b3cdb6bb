"""Quotes as factors: which runs there are, how they are scored, and what is said of them."""

import numpy as np
import pytest

from factorax import FactoredPPO
from factorax.experiments import find
from factorax.experiments.market import (
    FASTER,
    METHODS,
    Case,
    Settings,
    cases,
    learned_quotes,
    plan,
    value_of,
    yardstick,
)
from factorax.learning import find_network
from factorax.problems import find_problem
from factorax.problems.market import optimum, value_of_quotes

EXPERIMENT = find("market")
SMALL = Settings((1, 10), (2,), seeds=3, updates=4)


def test_names_of_markets_stay_texts_in_a_table():
    names = [case.name for case in cases(SMALL)]
    assert names == ["1 asset", "10 assets", "2 tied assets"]


@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_the_runs_of_a_market_differ_in_the_options_of_their_methods_alone(budget):
    settings = EXPERIMENT.budgets[budget]
    runs = iter(plan(settings, 1))
    for case in cases(settings):
        own = [next(runs) for _ in METHODS]
        for run, options in zip(own, METHODS.values(), strict=True):
            head = own[0].arguments[: -len(METHODS["singletons"])]
            rate = FASTER if run is own[-1] and case.assets >= 10 else ()
            assert run.arguments == (*head, *options, *rate)
        assert len({run.name for run in own}) == len(METHODS)
        problem = find_problem(case.problem)
        for options in METHODS.values():
            assert find_network(problem, options[1]).static.targets == problem.network.targets
        n_envs = case.n_envs
        assert own[0].steps == settings.updates * n_envs * problem.model.horizon
    assert next(runs, None) is None


def test_the_paper_has_the_sizes_of_the_study():
    paper = EXPERIMENT.budgets["paper"]
    assert paper.assets == (1, 10, 100, 1000)
    assert paper.seeds == 10


def test_the_yardstick_is_the_optimum_or_the_closed_form():
    assert yardstick(Case(10, False)) == pytest.approx(10 * optimum(find_problem("market:1").model).value)
    exact = optimum(find_problem(Case(2, True).problem).model).value
    assert yardstick(Case(2, True)) == pytest.approx(exact, rel=0.02)


@pytest.mark.slow
def test_scores_are_values_of_the_most_probable_quotes():
    """The exact value of an untrained policy against simulated episodes, within four standard errors."""
    problem = find_problem("market:2,volatility=0")
    settings = {"n_envs": 4, "n_steps": 6, "batch_size": 12, "hidden": (8,), "policy": "shared", "identity": 0}
    model = FactoredPPO(problem, problem.influence("minimum"), **settings)
    returns = model.evaluate(4000)
    assert abs(value_of(model) - returns["return"]) < 4 * returns["error"]
    quotes = learned_quotes(model)
    np.testing.assert_array_equal(quotes[:, :, 0], quotes[:, :, 1])  # one function for all assets
    assert value_of(model) == pytest.approx(2 * value_of_quotes(problem.model, quotes[:, :, 0]))


def outcome(finals):
    """Runs whose training rises to a method's final percentage, a hundredth more or less by seed."""
    results = []
    for run, method in zip(plan(SMALL, 0), list(METHODS) * 3, strict=True):
        case = next(case for case in cases(SMALL) if run.method == f"{case.name} {method}")
        end = finals[method] / 100 * yardstick(case)
        value = end * (1 + 0.001 * np.arange(3))
        curve = np.linspace(0, 1, 50) * value[:, None]
        results.append({"steps": np.tile(np.arange(50), (3, 1)), "returns": curve, "value": value})
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
