"""Which network to learn with: which runs there are, and what is said of them."""

import numpy as np
import pytest
from factorax_paper.experiments import find
from factorax_paper.experiments.learning_networks import (
    ADAPTIVE,
    CASES,
    COMPLETE,
    DISCOVERED,
    FROM_NEAR,
    LAGGED,
    METHODS,
    plan,
)
from factorax_paper.harness import plots

from factorax.ppo import find_network
from factorax.ppo.config import Config
from factorax.problems import find_problem

EXPERIMENT = find("learning-networks")


@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_every_run_has_settings_and_a_network_that_there_are(budget):
    settings = EXPERIMENT.budgets[budget]
    for run in plan(settings, 1):
        arguments = dict(zip(run.arguments, run.arguments[1:], strict=False))
        sizes = {key: int(arguments[f"--{key.replace('_', '-')}"]) for key in ("n_envs", "n_steps", "batch_size")}
        Config(**sizes)
        assert run.steps % (sizes["n_envs"] * sizes["n_steps"]) == 0
        if arguments["--network"] != DISCOVERED and not run.arguments[1].startswith("rddl:"):
            problem = find_problem(run.arguments[1])
            net = find_network(problem, arguments["--network"])
            assert net in (None, "adaptive") or net.static.shape == problem.network.shape


def outcome(ends):
    """Runs of all methods of the quick budget whose returns rise from 0 to these, a hundredth more or less by seed."""
    settings = EXPERIMENT.budgets["quick"]
    results = []
    for run in plan(settings, 0):
        method = run.method.split(", ", 1)[1]
        curve = np.linspace(0, ends.get(method, 1.0), 50) + 0.01 * np.arange(run.seeds)[:, None]
        scores = {name: np.zeros(run.seeds) for name in ("final", "sampled", "sumo", "variance_ratio")}
        results.append({"steps": np.tile(np.arange(50), (run.seeds, 1)), "returns": curve} | scores)
    table = EXPERIMENT.tabulate(settings, 0, results)
    return settings, table, EXPERIMENT.summarise(settings, table)


@pytest.mark.parametrize(
    ("ends", "verdicts"),
    [
        ({COMPLETE: 0.5, LAGGED: 1.5}, ["holds"] * 4),
        ({COMPLETE: 1.5, DISCOVERED: 0.5}, ["does not hold", "does not hold", "does not hold", "holds in part"]),
        ({FROM_NEAR: 0.5, ADAPTIVE: 1.5, LAGGED: 0.2}, ["holds in part", "holds", "holds", "does not hold"]),
    ],
)
def test_verdicts_are_those_of_the_intervals(ends, verdicts):
    settings, table, summary = outcome(ends)
    assert [claim.verdict for claim in EXPERIMENT.claims(settings, summary)] == verdicts
    assert len(EXPERIMENT.draw(settings, table, summary).axes) == 2


def test_methods_have_a_colour_each_and_a_complete_network_is_in_every_case():
    assert len(set(plots.PALETTE[: len(METHODS)])) == len(METHODS)
    assert {method for case in CASES.values() for method in case.networks} == set(METHODS)
    assert all({COMPLETE, ADAPTIVE, DISCOVERED} <= set(case.networks) <= set(METHODS) for case in CASES.values())
