"""Parameters of a market: what is derived from them, and which are refused."""

import numpy as np
import pytest
from factorax_paper.market import MarketModel


def test_numbers_stand_for_all_assets_and_arrays_for_each():
    model = MarketModel(2, intensity=3.0, decay=[1.0, 2.0], volatility=[0.1, 0.2], correlation=-1.0)
    assert model.intensity.tolist() == [3.0, 3.0]
    assert model.decay.tolist() == [1.0, 2.0]
    np.testing.assert_allclose(model.covariance, [[0.01, -0.02], [-0.02, 0.04]])
    assert (model.duration, model.inventories.tolist()) == (10.0, list(range(-5, 6)))


def test_a_covariance_replaces_volatility_and_correlation():
    covariance = np.array([[0.04, 0.01], [0.01, 0.09]])
    model = MarketModel(2, covariance=covariance, risk_aversion=2.0, running_penalty=0.5)
    np.testing.assert_allclose(model.volatility, [0.2, 0.3])
    np.testing.assert_allclose(model.penalty, np.eye(2) * 0.5 + covariance)


@pytest.mark.parametrize(
    ("settings", "independent"),
    [
        ({}, True),
        ({"correlation": 0.5}, True),  # prices whose risk nobody minds
        ({"risk_aversion": 1.0}, True),
        ({"risk_aversion": 1.0, "correlation": 0.5}, False),
    ],
)
def test_assets_are_tied_together_by_a_portfolio_term_over_correlated_prices(settings, independent):
    assert MarketModel(3, **settings).is_independent == independent


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "n: got 0, want a whole number from 1"),
        ({"intensity": -1.0}, "intensity: got -1.0, want numbers above 0"),
        ({"intensity": [1.0, 2.0]}, "intensity: got .*, want a number, or 3, one per asset"),
        ({"decay": 0}, "decay: got 0, want numbers above 0"),
        ({"covariance": np.eye(2)}, r"covariance: got .*\(2, 2\), want \(3, 3\)"),
        ({"covariance": np.eye(3) - 1}, "smallest eigenvalue -2; want a positive semi-definite"),
        ({"covariance": np.eye(3), "volatility": 0.1}, "want either covariance or these two"),
        ({"correlation": -0.6}, "correlation: got -0.6, want a number from -0.5 to 1"),
        ({"lowest_quote": 4.0}, "lowest_quote, highest_quote: got 4.0 and 4.0"),
    ],
)
def test_what_no_market_has_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MarketModel(**{"n": 3} | settings)
