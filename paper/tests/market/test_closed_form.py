"""The closed form solves its Riccati equation, and its quotes are close to the best ones."""

import numpy as np
import pytest
from factorax_paper.market import (
    ClosedForm,
    MarketModel,
    closed_form_curvature,
    closed_form_quotes,
    continuous_quotes,
    market,
    optimum,
    play,
)
from scipy.integrate import solve_ivp

TIED = {"risk_aversion": 0.5, "correlation": 0.5, "running_penalty": 0.02}


@pytest.mark.parametrize(
    "settings",
    [
        {"terminal_penalty": 0.0},
        {"terminal_penalty": [0.1, 0.9, 0.0]},
        {"running_penalty": 0.0, "correlation": 1.0},  # a singular penalty
    ],
)
def test_the_curvature_solves_its_riccati_equation(settings):
    model = MarketModel(3, intensity=[1.0, 2.0, 3.0], decay=[0.5, 1.0, 2.0], **TIED | settings)
    d = np.diag(model.intensity * model.decay / np.e)

    def slope(_, flat):
        a = flat.reshape(3, 3)
        return (model.penalty - 4 * a @ d @ a).ravel()

    start = np.diag(model.terminal_penalty).ravel()
    for tau in (0.5, 10.0):
        numerical = solve_ivp(slope, (0, tau), start, rtol=1e-10, atol=1e-12).y[:, -1].reshape(3, 3)
        np.testing.assert_allclose(closed_form_curvature(model, tau), numerical, atol=1e-7)


def test_without_terminal_penalty_it_is_the_hyperbolic_tangent_of_the_paper():
    model = MarketModel(terminal_penalty=0.0)
    gamma = np.sqrt(2.0 / np.e * 0.1)
    expected = gamma * np.tanh(2 * gamma * 3.0) / (2 * 2.0 / np.e)
    np.testing.assert_allclose(closed_form_curvature(model, 3.0), [[expected]])


def test_quotes_of_one_asset_are_those_in_continuous_time_if_penalties_are_small():
    """The expansion is around no penalty: where penalties are small, errors fall faster than they do."""
    errors = []
    for scale in (1.0, 0.1, 0.03, 0.01):
        model = MarketModel(largest_inventory=20, running_penalty=0.1 * scale, terminal_penalty=0.2 * scale)
        exact = continuous_quotes(model)[18:23]
        errors.append(np.abs(closed_form_quotes(model, np.arange(-2, 3)[:, None])[:, 0] - exact).max())
    assert errors[0] < 0.04
    assert errors[2] < 0.3 * errors[1]
    assert errors[3] < errors[2] / 3


def test_quotes_of_tied_assets_earn_nearly_the_best_value():
    """At most 2 % less than the exact optimum of both assets, with four standard errors of 0.3 % to spare."""
    problem = market(2, largest_inventory=4, horizon=20, **TIED)
    rule, best = ClosedForm(problem.model), optimum(problem.model)
    returns = play(problem, rule.rule, episodes=20_000).sum(axis=1)
    error = returns.std() / len(returns) ** 0.5
    assert error < 0.003 * best.value
    assert 0.98 * best.value - 4 * error < returns.mean() < best.value + 4 * error
    at_start = np.asarray(rule.rule(0, np.array([2, -1])))
    np.testing.assert_allclose(at_start, closed_form_quotes(problem.model, [2, -1]), rtol=1e-5)
