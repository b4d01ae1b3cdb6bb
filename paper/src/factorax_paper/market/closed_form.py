"""Closed-form approximations of the optimal quotes for assets with coupled risks.

Bergault, Evangelista, Guéant and Vieira (2021) expand the Hamiltonian H(p) = (A/(e k)) exp(−k p) to second order around
p = 0. The value is then quadratic in the inventories, −qᵀ𝒜q − 𝒞, and 𝒜 satisfies a matrix Riccati equation. With R the
running penalty (`MarketModel.penalty`), τ the remaining time and D = diag(Aᵢ kᵢ / e),

    d𝒜/dτ = R − 4 𝒜 D 𝒜,    𝒜(0) = diag(α).

For X = 2 D^½ 𝒜 D^½, Γ² = D^½ R D^½ and M = X(0) − Γ its solution is

    X(τ) = Γ + E M (I + F M)⁻¹ E,    E = exp(−2Γτ),  F = Γ⁻¹ (I − E²)/2.

The paper's terminal penalty is zero, for which this is Γ tanh(2Γτ); R is ½ γ Σ there. Inventories are unbounded.
"""

from typing import Any

import numpy as np

from factorax._checks import NotNegative, check_type, checked, real_array
from factorax._text import shown

from .model import MarketModel


def closed_form_curvature(model: MarketModel, time_left: float | None = None) -> np.ndarray:
    """Return 𝒜(τ), ``(n, n)``: the approximate value of inventories is −qᵀ𝒜q, up to a constant.

    - `time_left`: τ in units of time; by default that of a full episode.

    >>> closed_form_curvature(MarketModel(2, terminal_penalty=0.3), 0.0).round(6).tolist()
    [[0.3, 0.0], [0.0, 0.3]]
    """
    check_type("model", model, MarketModel, "a MarketModel, as `market(3).model`")
    tau = model.duration if time_left is None else checked("time_left", time_left, NotNegative)
    root = np.sqrt(model.intensity * model.decay / np.e)  # of D
    values, vectors = np.linalg.eigh(root[:, None] * model.penalty * root)
    gamma = np.sqrt(np.maximum(values, 0.0))
    decayed = np.exp(-2 * gamma * tau)
    # (1 − e^{−4gτ})/(2g), which is 2τ where g = 0
    spent = np.where(gamma > 0, -np.expm1(-4 * gamma * tau) / np.where(gamma > 0, 2 * gamma, 1.0), 2 * tau)
    initial = vectors.T @ np.diag(2 * root**2 * model.terminal_penalty) @ vectors - np.diag(gamma)
    middle = initial @ np.linalg.inv(np.eye(model.n) + spent[:, None] * initial)
    x = vectors @ (np.diag(gamma) + decayed[:, None] * middle * decayed) @ vectors.T
    return x / (2 * root[:, None] * root)


def closed_form_quotes(model: MarketModel, inventory: Any, time_left: float | None = None) -> np.ndarray:
    """Return approximately optimal distances of bid and ask for inventories ``(..., n)``, as ``(..., n, 2)``:

        δᵢ = 1/kᵢ + 𝒜ᵢᵢ ± 2 (𝒜q)ᵢ,    with + for bids,

    which is 1/k plus the loss of the approximate value by the fill.

    >>> model = MarketModel(2, risk_aversion=0.5, correlation=0.8)
    >>> closed_form_quotes(model, [3, 0]).round(2).tolist()  # long in the first: sell either
    [[2.62, -0.16], [1.45, 1.01]]
    """
    curvature = closed_form_curvature(model, time_left)
    array = real_array("inventory", inventory)
    if array.shape[-1:] != (model.n,):
        raise ValueError(f"inventory: got {shown(inventory)}, want shape (..., {model.n}), one per asset")
    tilt = 2 * array @ curvature
    middle = 1 / model.decay + np.diag(curvature)
    return np.stack([middle + tilt, middle - tilt], axis=-1)


class ClosedForm:
    """The quotes of `closed_form_quotes` as a rule for `play`, clipped to the bounds of quotes."""

    def __init__(self, model: MarketModel):
        check_type("model", model, MarketModel, "a MarketModel, as `market(3).model`")
        self.model = model
        lefts = model.duration - model.step * np.arange(model.horizon)
        self.curvatures = np.stack([closed_form_curvature(model, left) for left in lefts])

    def rule(self, time: Any, inventory: Any) -> Any:
        """Map a step and inventories ``(n,)``, as JAX arrays, to quotes ``(n, 2)``."""
        import jax.numpy as jnp

        curvature = jnp.asarray(self.curvatures, jnp.float32)[time]
        tilt = 2 * curvature @ inventory
        middle = 1 / self.model.decay + jnp.diag(curvature)
        quotes = jnp.stack([middle + tilt, middle - tilt], axis=-1)
        return jnp.clip(quotes, self.model.lowest_quote, self.model.highest_quote)
