"""The best quotes of a step against brute force, against continuous time, and against simulated episodes."""

from itertools import product

import numpy as np
import pytest
from factorax_paper.market import MarketModel, continuous_quotes, continuous_values, market, optimum, play
from factorax_paper.market.dynamic_programming import value_of_quotes

TIED = {"risk_aversion": 1.5, "correlation": 0.8, "running_penalty": 0.05, "terminal_penalty": 0.3}


def brute_force(model, after, inventory, grid):
    """The best value of a state over all quotes of a grid, by enumerating every combination of fills."""
    n, largest = model.n, model.largest_inventory
    quotes = np.array(list(product(grid, repeat=2 * n))).reshape(-1, n, 2)
    p = 1 - np.exp(-model.intensity[:, None] * model.step * np.exp(-model.decay[:, None] * quotes))
    p[:, :, 0] *= inventory < largest
    p[:, :, 1] *= inventory > -largest
    value = np.zeros(len(quotes))
    for fills in product((0, 1), repeat=2 * n):
        fills = np.array(fills).reshape(n, 2)
        probability = np.prod(np.where(fills, p, 1 - p), axis=(1, 2))
        q = inventory + fills[:, 0] - fills[:, 1]
        if np.abs(q).max() <= largest:
            left = after[tuple(q + largest)] - model.step * q @ model.penalty @ q
            value += probability * ((fills * quotes).sum(axis=(1, 2)) + left)
    return value.max()


@pytest.mark.parametrize(
    ("n", "settings", "grid"),
    [
        (1, {"largest_inventory": 2, "horizon": 2}, np.linspace(-1, 4, 251)),
        (1, {"largest_inventory": 2, "horizon": 2, "highest_quote": 0.9}, np.linspace(-1, 0.9, 200)),
        (2, TIED | {"largest_inventory": 1, "horizon": 2}, np.linspace(-0.6, 2.4, 13)),
    ],
    ids=["one asset", "bounds that bind", "two assets tied together"],
)
def test_values_are_those_of_brute_force(n, settings, grid):
    """A grid of width w misses the maximum by at most 2n · ½ Λ Δ k (w/2)² or so, and never exceeds it."""
    model = MarketModel(n, **settings)
    table = optimum(model).tables[0]
    miss = 2 * n * ((grid[1] - grid[0]) / 2) ** 2
    for t in range(model.horizon):
        for inventory in product(model.inventories, repeat=n):
            best = brute_force(model, table.values[t + 1], np.array(inventory), grid)
            value = table.values[t][tuple(np.array(inventory) + model.largest_inventory)]
            assert best - 1e-9 <= value <= best + miss


def test_tied_assets_are_solved_as_their_own_where_nothing_ties_them():
    """A table of two assets without a common penalty is the sum of two tables of one."""
    apart = MarketModel(2, intensity=[2.0, 1.0], horizon=6, largest_inventory=2)
    # A correlation that is too small to matter makes `optimum` solve both together.
    together = MarketModel(2, intensity=[2.0, 1.0], horizon=6, largest_inventory=2, risk_aversion=1e-9, correlation=0.1)
    one, two = optimum(apart), optimum(together)
    assert (len(one.tables), len(two.tables)) == (2, 1)
    np.testing.assert_allclose(two.value, one.value, atol=1e-6)
    quotes = [one.tables[0].quotes[0, 3, 0], one.tables[1].quotes[0, 1, 0]]
    np.testing.assert_allclose(two.tables[0].quotes[0, 3, 1], quotes, atol=1e-5)


def test_short_steps_lead_to_continuous_time():
    """The error of a step is of first order: it falls with the step, to 0.2 % at a hundredth."""
    errors = []
    for horizon in (50, 200, 800):
        model = MarketModel(step=2 / horizon, horizon=horizon, lowest_quote=-20, highest_quote=20, largest_inventory=3)
        exact = continuous_values(model)[3]
        best = optimum(model)
        errors.append(exact - best.value)
    assert errors[0] > errors[1] > errors[2] > 0
    np.testing.assert_allclose(errors[1] / errors[2], 4, rtol=0.1)
    assert errors[2] < 2e-3 * exact
    quotes = best.tables[0].quotes[0, :, 0]
    np.testing.assert_allclose(quotes[1:-1], continuous_quotes(model)[1:-1], atol=0.005)


def test_simulated_returns_of_the_best_quotes_are_their_value():
    """Within four standard errors, a confidence of 99.99 %, and no other quotes do better by more than that."""
    problem = market(2, intensity=[2.0, 1.5], horizon=20, volatility=0.1)
    best = optimum(problem.model)
    returns = play(problem, best.rule, episodes=10_000).sum(axis=1)
    error = returns.std() / len(returns) ** 0.5
    assert error < 0.01 * best.value
    assert abs(returns.mean() - best.value) < 4 * error


def test_simulated_returns_of_tied_assets_are_their_value():
    problem = market(2, largest_inventory=2, horizon=8, volatility=0.5, **TIED)
    best = optimum(problem.model)
    returns = play(problem, best.rule, episodes=10_000).sum(axis=1)
    assert abs(returns.mean() - best.value) < 4 * returns.std() / len(returns) ** 0.5


def test_values_of_other_quotes_are_lower():
    model = MarketModel(horizon=10, largest_inventory=3)
    best = optimum(model)
    quotes = best.tables[0].quotes[..., 0, :]
    np.testing.assert_allclose(value_of_quotes(model, quotes), best.value)
    rng = np.random.default_rng(0)
    for size in (0.01, 0.3):
        assert value_of_quotes(model, quotes + size * rng.normal(size=quotes.shape)) < best.value
