"""A curriculum of networks against each of them alone: which runs there are, and what is said of them."""

import numpy as np
import pytest
from factorax_paper.experiments import find
from factorax_paper.experiments.curriculum import CASES, CURRICULUM, Settings, plan

from factorax.ppo import find_network
from factorax.problems import find_problem

EXPERIMENT = find("curriculum")


@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_the_runs_of_a_problem_differ_in_the_network_alone(budget):
    settings = EXPERIMENT.budgets[budget]
    runs = plan(settings, 1)
    assert settings.seeds >= 5
    for name in settings.cases:
        own = [run for run in runs if run.method.startswith(name)]
        assert len({run.arguments[:-1] for run in own}) == 1
        assert [run.arguments[-1] for run in own] == list(CASES[name].methods.values())
        problem, steps = find_problem(own[0].arguments[1]), own[0].steps
        stages = find_network(problem, own[0].arguments[-1], steps=steps).networks
        fixed = [find_network(problem, run.arguments[-1]) or problem.network for run in own[1:]]
        assert [net.n_edges for net in stages] == [net.static.n_edges for net in fixed]
        assert [net.n_edges for net in stages] == sorted(net.n_edges for net in stages)
        sizes = {own[0].arguments[own[0].arguments.index(f"--{key}") + 1] for key in ("n-envs", "n-steps")}
        assert steps % np.prod(list(map(int, sizes))) == 0


def outcome(ends):
    """Runs of the quick budget whose returns rise from 0 to these, a hundredth more or less by seed."""
    settings = EXPERIMENT.budgets["quick"]
    results = []
    for run in plan(settings, 0):
        curve = np.linspace(0, ends[run.method.split(", ", 1)[1]], 50) + 0.01 * np.arange(run.seeds)[:, None]
        scores = {name: np.zeros(run.seeds) for name in ("final", "sampled", "sumo", "variance_ratio")}
        results.append({"steps": np.tile(np.arange(50), (run.seeds, 1)), "returns": curve} | scores)
    table = EXPERIMENT.tabulate(settings, 0, results)
    return settings, table, EXPERIMENT.summarise(settings, table)


@pytest.mark.parametrize(
    ("ends", "verdicts"),
    [
        ((3.0, 1.0, 2.0), ["holds", "holds"]),
        ((3.0, 4.0, 2.0), ["holds in part", "holds"]),
        ((2.0, 1.0, 2.0), ["holds in part", "does not hold"]),  # no lead over the last network
        ((1.0, 2.0, 3.0), ["does not hold", "does not hold"]),
    ],
)
def test_verdicts_are_those_of_the_leads(ends, verdicts):
    settings, table, summary = outcome(dict(zip((CURRICULUM, "near", "own"), ends, strict=True)))
    rows = EXPERIMENT.claims(settings, summary)
    assert [claim.verdict for claim in rows] == verdicts
    for claim in rows:
        assert bool(claim.would_settle) == (claim.verdict == "holds in part")
        assert claim.source == "paper"
        assert claim.chosen_by
    assert len(EXPERIMENT.draw(settings, table, summary).axes) == 1


def test_settings_name_their_cases():
    assert set(Settings().cases) == set(CASES)
