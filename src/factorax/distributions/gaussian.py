"""Gaussian distribution: the mean is an output of the policy network, the standard deviation a parameter."""

import math
from typing import Any

import numpy as np

from .base import Distribution, register
from .functions import Array, namespace, special

_LOG_2PI = math.log(2 * math.pi)


@register
class Gaussian(Distribution):
    """Raw actions μ + σ ε with ε ~ N(0, 1); environments receive them clipped to the bounds of the space.

    The density is that of the raw action, before clipping.

    With a full covariance within factors (`covariance.py`), ε depends on several components. `Product` therefore
    computes ε for all components at once and calls `log_prob_of_residual`, `kl_of_residual` and `deviation`.

    >>> gaussian = Gaussian(low=np.array([-1.0]), high=np.array([1.0]), choices=np.array([0]))
    >>> gaussian.log_prob(np.zeros((1, 1)), np.zeros(1), np.zeros(1)).round(4)
    array([-0.9189])
    """

    name = "gaussian"
    title = "Gaussian"
    has_spread = True
    additive = True
    bounded = "clip"

    def log_prob(self, parameters: Array, action: Array, log_std: Array) -> Array:
        """Return −½ ((a − μ)/σ)² − log σ − ½ log 2π."""
        residual = (action - parameters[..., 0]) * namespace(log_std).exp(-log_std)
        return self.log_prob_of_residual(residual, action, log_std)

    def log_prob_of_residual(self, residual: Array, action: Array, log_std: Array) -> Array:
        """Return `log_prob` of raw actions given their ε, ``(..., k)``."""
        return -0.5 * residual**2 - log_std - 0.5 * _LOG_2PI

    def entropy(self, parameters: Array, log_std: Array) -> Array:
        """Return log σ + ½ log 2πe."""
        shape = parameters.shape[:-1]
        return namespace(parameters, log_std).broadcast_to(log_std + 0.5 * (1 + _LOG_2PI), shape)

    def kl(self, old: tuple[Array, Array], new: tuple[Array, Array]) -> Array:
        """Return log(σ'/σ) + ½ (σ²/σ'² + (μ − μ')²/σ'² − 1)."""
        xp = namespace(old[1], new[1])
        residual = (old[0][..., 0] - new[0][..., 0]) * xp.exp(-new[1])
        return self.kl_of_residual(residual**2, xp.exp(2 * (old[1] - new[1])), new[1] - old[1])

    def kl_of_residual(self, distance: Array, ratio: Array, wider: Array) -> Array:
        """Return `kl` given `distance`, `ratio` and `wider`.

        - `distance`: ε² of the old mean under the new distribution, ``(..., k)``.
        - `ratio`: the variance of the new ε under the old distribution, ``(k,)``.
        - `wider`: the difference of log σ, ``(k,)``.
        """
        return wider + 0.5 * (ratio + distance - 1)

    def mode(self, parameters: Array) -> Array:
        """Return the mean."""
        return parameters[..., 0]

    def sample(self, key: Any, parameters: Array, log_std: Array) -> Array:
        """Draw μ + σ ε."""
        mean = parameters[..., 0]
        return self.deviation(key, mean.shape, log_std) + mean

    def deviation(self, key: Any, shape: tuple[int, ...], log_std: Array) -> Array:
        """Draw σ ε of shape ``(..., k)`` with a JAX key."""
        import jax

        from .._arrays import drawn

        return jax.numpy.exp(log_std) * drawn(jax.random.normal, key, shape)

    def noise(self, rng: np.random.Generator, n_steps: int, log_std: np.ndarray) -> np.ndarray:
        """Draw σ ε with NumPy."""
        return (np.exp(log_std) * rng.standard_normal((n_steps, len(self)), np.float32))[..., None]

    def pick(self, perturbed: np.ndarray) -> np.ndarray:
        """Return the perturbed mean."""
        return perturbed[..., 0]

    def standardised(
        self, parameters: np.ndarray, action: np.ndarray, between: np.ndarray, log_std: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (a − μ)/σ and its normal distribution function."""
        scores = (action - parameters[..., 0].astype(float)) / np.exp(np.asarray(log_std, float))
        return scores, special(np).ndtr(scores)

    def neutral(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the middle of the bounds and a quarter of their width; 0 and 1 if a bound is missing."""
        finite = np.isfinite(self.low) & np.isfinite(self.high)
        low, high = np.where(finite, self.low, 0), np.where(finite, self.high, 0)
        mean = np.where(finite, (low + high) / 2, 0.0).astype(np.float32)
        return mean[:, None], np.where(finite, high - low, 4.0) / 4
