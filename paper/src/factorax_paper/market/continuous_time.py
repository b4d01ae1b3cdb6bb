"""Optimal quotes in continuous time for assets that are not coupled by a penalty, by a matrix exponential.

The value of asset i with inventory q and remaining time τ, beyond its wealth, is h(τ, q). With ω = exp(k h) the
Hamilton–Jacobi–Bellman equation becomes linear (Guéant, Lehalle and Fernandez-Tapia 2013; Cartea, Jaimungal and
Penalva 2015, Sec. 10.3):

    ∂ω(q)/∂τ = −k φ q² ω(q) + (A/e) (ω(q − 1) + ω(q + 1)),    ω(0, q) = exp(−k α q²),

without the terms that lead out of [−Q, Q], so that ω(τ) = exp(τ M) ω(0). The optimal distances are

    δ_bid(q) = 1/k − h(q + 1) + h(q),    δ_ask(q) = 1/k − h(q − 1) + h(q).
"""

import numpy as np
from scipy.linalg import expm

from factorax._checks import NotNegative, Whole, check_type, checked

from .model import MarketModel


def continuous_values(model: MarketModel, time_left: float | None = None, *, asset: int = 0) -> np.ndarray:
    """Return h(τ, q) of an asset for q = −Q, …, Q, ``(2Q + 1,)``: its optimal future earnings minus penalties.

    - `time_left`: τ in units of time; by default that of a full episode.

    Quotes are unbounded here.

    >>> model = MarketModel(step=0.2, horizon=50)
    >>> round(float(continuous_values(model)[model.largest_inventory]), 3)  # without inventory
    12.062
    """
    tau = _checked_time(model, time_left, asset)
    k, squares = model.decay[asset], model.inventories.astype(float) ** 2
    flow = np.eye(len(squares), k=1) + np.eye(len(squares), k=-1)
    matrix = model.intensity[asset] / np.e * flow - np.diag(k * model.penalty[asset, asset] * squares)
    # The largest eigenvalue is factored out, so that no entry of the exponential overflows for a long time.
    growth = np.linalg.eigvalsh(matrix)[-1]
    omega = expm(tau * (matrix - growth * np.eye(len(squares)))) @ np.exp(-k * model.terminal_penalty[asset] * squares)
    return (np.log(omega) + tau * growth) / k


def continuous_quotes(model: MarketModel, time_left: float | None = None, *, asset: int = 0) -> np.ndarray:
    """Return the optimal distances of bid and ask for q = −Q, …, Q, ``(2Q + 1, 2)``; infinite if there is no quote.

    >>> model = MarketModel(largest_inventory=1)
    >>> continuous_quotes(model, time_left=0.0).round(6).tolist()
    [[0.8, inf], [1.2, 1.2], [inf, 0.8]]
    """
    values = continuous_values(model, time_left, asset=asset)
    gain = np.diff(values)
    distance = np.full((len(values), 2), np.inf)
    distance[:-1, 0] = 1 / model.decay[asset] - gain
    distance[1:, 1] = 1 / model.decay[asset] + gain
    return distance


def _checked_time(model: MarketModel, time_left: float | None, asset: int) -> float:
    check_type("model", model, MarketModel, "a MarketModel, as `market(3).model`")
    if checked("asset", asset, Whole) >= model.n:
        raise ValueError(f"asset: got {asset}, want a number from 0 to {model.n - 1}")
    if not model.is_independent:
        raise ValueError(
            "model: its portfolio term couples the assets, so no asset has a separate value; want "
            "risk_aversion 0, or uncorrelated prices. `closed_form_quotes` approximates coupled assets"
        )
    return model.duration if time_left is None else checked("time_left", time_left, NotNegative)
