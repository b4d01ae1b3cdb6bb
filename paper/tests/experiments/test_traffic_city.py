"""Grids of all sizes: which runs there are, and what is said of them."""

from itertools import pairwise

import numpy as np
import pytest
from factorax_paper.experiments import find
from factorax_paper.experiments.traffic_city import ALL, NEAR, plan

from factorax.ppo import find_network
from factorax.ppo.config import Config
from factorax.problems import find_problem

CITY = find("traffic-city")


@pytest.mark.parametrize("budget", ["quick", "paper"])
def test_every_grid_has_as_many_steps_and_gradient_steps(budget):
    settings = CITY.budgets[budget]
    runs = plan(settings, 0)
    assert len({run.steps for run in runs}) == 1
    for run in runs:
        given = dict(pairwise(run.arguments))
        sizes = [int(given[f"--{key}"]) for key in ("n-envs", "n-steps", "batch-size")]
        Config(**dict(zip(("n_envs", "n_steps", "batch_size"), sizes, strict=True)))
        assert sizes[0] * sizes[1] == 10 * sizes[2]
        if "100x100" not in run.method:
            find_network(find_problem(run.arguments[1]), given["--network"])


def outcome(near, everything):
    """Runs whose returns rise from −10 a light to these, a tenth more or less by the seed."""
    settings = CITY.budgets["paper"]
    results = []
    for size, *ends in zip(settings.sizes, near, everything, strict=True):
        for end in (end + by for end in ends for by in (0.1, 0.0, -0.1)):
            curve = size**2 * np.linspace(-10, end, 41)[None]
            results.append({"returns": curve, "final": curve[:, -1], "rate": np.array([1e6]), "peak": np.array([2.0])})
    table = CITY.tabulate(settings, 0, results)
    return settings, table, CITY.summarise(settings, table)


def test_returns_and_times_are_those_of_a_light():
    _, _, summary = outcome([-4, -3, -2, -1], [-5, -5, -6, -7])
    assert summary[NEAR]["lights"] == [9, 100, 900, 10_000]
    assert summary[NEAR]["final"] == pytest.approx([-4, -3, -2, -1])
    assert summary[ALL]["before"] == pytest.approx([-10] * 4)
    assert summary[NEAR]["nanoseconds"] == pytest.approx([1000 / 9, 10, 10 / 9, 0.1])


@pytest.mark.parametrize(
    ("near", "verdict"),
    [
        ([-4, -3, -2, -1], "holds"),
        ([-6, -5, -4, -3], "holds in part"),
        ([-4.9, -3, -2, -1], "holds in part"),
        ([-6, -7, -8, -9], "does not hold"),
    ],
)
def test_the_gain_must_grow(near, verdict):
    settings, table, summary = outcome(near, [-5, -5, -6, -7])
    assert CITY.claims(settings, summary)[0].verdict == verdict
    assert len(CITY.draw(settings, table, summary).axes) == 3
