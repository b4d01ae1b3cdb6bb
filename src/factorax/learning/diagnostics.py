"""Signal and noise of every factor's gradient, measured on the batch that is learnt from.

The gradient of factor i in one sample is zᵢ cᵢ, its score times its credit. With respect to the last layer of the
policy, whose input is h, the score is ∂log πᵢ/∂φᵢ ⊗ (h, 1): so the mean and the variance of that part of the gradient
cost one product of matrices, and no gradient of single samples. Where factors share the last layer, each is treated as
if it had a copy of its own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Scores(NamedTuple):
    """Of N samples and c components."""

    outer: jax.Array
    """∂log π/∂φ, ``(N, c, width)``, nought where a factor was idle."""
    inner: jax.Array
    """h, ``(N, c or 1, hidden)``."""

    @property
    def squared(self) -> jax.Array:
        """|z|² of every component, ``(N, c)``."""
        return (self.outer**2).sum(axis=-1) * ((self.inner**2).sum(axis=-1) + 1)

    def mean_squared(self, credit: jax.Array) -> jax.Array:
        """|E[z c]|² of every component, ``(c,)``, for credits ``(N, c)``."""
        weighted = self.outer * credit[..., None] / len(credit)
        if self.inner.shape[1] == 1:
            inner = jnp.einsum("nh,ncw->chw", self.inner[:, 0], weighted)
        else:
            inner = jnp.einsum("nch,ncw->chw", self.inner, weighted)
        return (inner**2).sum(axis=(1, 2)) + (weighted.sum(axis=0) ** 2).sum(axis=-1)


def signal_to_noise(second: jax.Array, mean_squared: jax.Array, samples: int) -> jax.Array:
    """|E g|² / V[g] of one sample's gradient g, both without bias, from E|g|² and the square of the batch's mean.

    Its inverse is the number of samples at which signal and noise of the mean are equal. Where there is no signal it
    scatters around nought, to either side.
    """
    variance = (second - mean_squared) * samples / max(samples - 1, 1)
    return (mean_squared - variance / samples) / (variance + 1e-30)


def variance_terms(
    squared: jax.Array, kept: jax.Array, dropped: jax.Array, factored: jax.Array, vanilla: jax.Array
) -> dict[str, jax.Array]:
    """The decomposition of Prop. 2 of every factor, ``(n,)``, on a batch: what the network saves, and why.

        ΔVᵢ = αᵢ E[bᵢ²] + 2 E[|zᵢ|² kᵢ] E[bᵢ] + 2 Cov(|zᵢ|² kᵢ, bᵢ) + residual

    with kᵢ what factor i is credited with and bᵢ what it is spared. In the residual is the signal in what was dropped,
    if the network is not true, and that |zᵢ|² and bᵢ both depend on the state, which Prop. 2 holds fixed.

    - `squared`, `kept`, `dropped`: |zᵢ|², kᵢ and bᵢ, ``(N, n)``.
    - `factored`, `vanilla`: |E[zᵢ kᵢ]|² and |E[zᵢ (kᵢ + bᵢ)]|², ``(n,)``.
    """
    weighted = squared * kept
    covariance = (weighted * dropped).mean(axis=0) - weighted.mean(axis=0) * dropped.mean(axis=0)
    alpha = squared.mean(axis=0)
    terms = {
        "alpha": alpha,
        "quadratic": alpha * (dropped**2).mean(axis=0),
        "linear": 2 * weighted.mean(axis=0) * dropped.mean(axis=0),
        "covariance": 2 * covariance,
        "vanilla": (squared * (kept + dropped) ** 2).mean(axis=0) - vanilla,
        "factored": (weighted * kept).mean(axis=0) - factored,
    }
    return terms | {"delta": terms["vanilla"] - terms["factored"]}
