"""Values in continuous time solve the equation that they are derived from."""

import numpy as np
import pytest
from factorax_paper.market import MarketModel, continuous_quotes, continuous_values

MODEL = MarketModel(2, intensity=[2.0, 1.2], decay=[1.0, 1.7], running_penalty=[0.1, 0.3], risk_aversion=0.5)


@pytest.mark.parametrize("asset", [0, 1])
@pytest.mark.parametrize("tau", [0.3, 5.0])
def test_values_solve_the_hamilton_jacobi_bellman_equation(asset, tau):
    """∂h/∂τ = −R q² + Σ_sides max_δ A e^{−kδ}(δ + change of h), with the time derivative by central differences."""
    eps, model = 1e-4, MODEL
    values = [continuous_values(model, tau + d, asset=asset) for d in (-eps, 0.0, eps)]
    slope = (values[2] - values[0]) / (2 * eps)
    q, h, (a, k) = model.inventories, values[1], (model.intensity[asset], model.decay[asset])
    distance = np.linspace(-3, 8, 40_001)
    right = -model.penalty[asset, asset] * q.astype(float) ** 2
    for i in range(len(q)):
        for j in (i - 1, i + 1):
            if 0 <= j < len(q):
                right[i] += (a * np.exp(-k * distance) * (distance + h[j] - h[i])).max()
    np.testing.assert_allclose(slope, right, atol=1e-6)


def test_long_times_do_not_overflow():
    slow, fast = (continuous_values(MODEL, tau)[5] for tau in (1e4, 2e4))
    assert np.isfinite([slow, fast]).all()
    np.testing.assert_allclose(fast / slow, 2, rtol=1e-3)


def test_quotes_are_mirrored_and_missing_at_the_bounds():
    quotes = continuous_quotes(MODEL, 2.0)
    np.testing.assert_allclose(quotes[:, 0], quotes[::-1, 1])
    assert np.isinf(quotes[-1, 0])
    assert (np.diff(quotes[:-1, 0]) > 0).all()  # the longer, the further the bid


def test_assets_that_are_tied_together_have_no_value_of_their_own():
    with pytest.raises(ValueError, match="portfolio term couples the assets"):
        continuous_values(MarketModel(2, risk_aversion=1.0, correlation=0.5))
