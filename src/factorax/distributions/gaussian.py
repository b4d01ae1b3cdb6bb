"""Gaussian distributions, plain, scaled and squashed: the mean is an output of the policy network, σ a parameter."""

import math
from functools import cached_property
from typing import Any

import numpy as np

from .base import Distribution, register
from .functions import Array, namespace, softplus, special

_LOG_2PI = math.log(2 * math.pi)


@register
class Gaussian(Distribution):
    """Raw actions μ + σ ε with ε ~ N(0, 1); environments receive them clipped to the bounds of the space.

    The density is that of the raw action, before clipping.

    >>> gaussian = Gaussian(low=np.array([-1.0]), high=np.array([1.0]), choices=np.array([0]))
    >>> gaussian.log_prob(np.zeros((1, 1)), np.zeros(1), np.zeros(1)).round(4)
    array([-0.9189])
    """

    name = "gaussian"
    title = "Gaussian"
    has_spread = True
    bounded = "clip"

    def log_prob(self, parameters: Array, action: Array, log_std: Array) -> Array:
        """Return −½ ((a − μ)/σ)² − log σ − ½ log 2π."""
        residual = (action - parameters[..., 0]) * namespace(log_std).exp(-log_std)
        return -0.5 * residual**2 - log_std - 0.5 * _LOG_2PI

    def entropy(self, parameters: Array, log_std: Array) -> Array:
        """Return log σ + ½ log 2πe."""
        shape = parameters.shape[:-1]
        return namespace(parameters, log_std).broadcast_to(log_std + 0.5 * (1 + _LOG_2PI), shape)

    def kl(self, old: tuple[Array, Array], new: tuple[Array, Array]) -> Array:
        """Return log(σ'/σ) + ½ (σ²/σ'² + (μ − μ')²/σ'² − 1)."""
        xp = namespace(old[1], new[1])
        residual = (old[0][..., 0] - new[0][..., 0]) * xp.exp(-new[1])
        return new[1] - old[1] + 0.5 * (xp.exp(2 * (old[1] - new[1])) + residual**2 - 1)

    def mode(self, parameters: Array) -> Array:
        """Return the mean."""
        return parameters[..., 0]

    def sample(self, key: Any, parameters: Array, log_std: Array) -> Array:
        """Draw μ + σ ε."""
        import jax

        from .._arrays import drawn

        mean = parameters[..., 0]
        return jax.numpy.exp(log_std) * drawn(jax.random.normal, key, mean.shape) + mean

    def noise(self, rng: np.random.Generator, n_steps: int, log_std: np.ndarray) -> np.ndarray:
        """Draw σ ε with NumPy."""
        return (np.exp(log_std) * rng.standard_normal((n_steps, len(self)), np.float32))[..., None]

    def choose(self, parameters: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return the mean plus the noise."""
        return parameters[..., 0] + noise[..., 0]

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


@register
class ScaledGaussian(Gaussian):
    """Raw actions u = μ + σ ε; environments receive low + (u + 1)(high − low)/2, clipped to the bounds.

    σ = 1 is therefore half the width of the bounds, whatever their units. An untrained policy has mean 0 and σ = ½: the
    bounds are two standard deviations away, so it covers the range and few actions are clipped. On a Box from −1 to 1
    it is bit-identical to the clipped `Gaussian` with the same σ. The density is that of u before clipping; the width
    of the bounds would add a constant, which cancels in ratios and gradients.

    >>> scaled = ScaledGaussian(low=np.array([0.0]), high=np.array([365.0]), choices=np.array([0]))
    >>> [float(scaled.rescale(np.array([u]))[0]) for u in (-1.0, 0.0, 0.5)]
    [0.0, 182.5, 273.75]
    """

    name = "scaled"
    title = "Gaussian"
    bounded = "scale"
    # Stable-Baselines3 begins with σ = 1: on a Box from −1 to 1, 32 % of actions with mean 0 are clipped; with ½, 5 %.
    initial_log_std = math.log(0.5)
    rescales = True

    @cached_property
    def _middle_and_half_width(self) -> tuple[np.ndarray, np.ndarray]:
        """The middle and half the width of the bounds, rounded up so that u = ±1 reaches both bounds after clipping."""
        middle = ((self.low.astype(float) + self.high) / 2).astype(np.float32)
        half = np.maximum(self.high - middle.astype(float), middle.astype(float) - self.low).astype(np.float32)
        # Rounded down, a clipped action would miss a bound by its last bit.
        short = (middle + half < self.high) | (middle - half > self.low)
        return middle, np.where(short, np.nextafter(half, np.float32(np.inf)), half)

    def rescale(self, action: Array) -> Array:
        """Return low + (u + 1)(high − low)/2, summed in an order that leaves u unchanged for bounds of −1 and 1."""
        middle, half = self._middle_and_half_width
        return middle + half * action

    def neutral(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the middle of the bounds and a quarter of their width, as for the Gaussian in raw units."""
        return np.zeros((len(self), 1), np.float32), np.full(len(self), 0.5)


@register
class SquashedGaussian(Gaussian):
    """Raw actions a = μ + σ ε; environments receive low + (tanh a + 1)(high − low)/2.

    The raw action is stored. The density is that of u = tanh a ∈ (−1, 1), independent of the bounds of the space; their
    width would add a constant, which cancels in ratios and gradients. The entropy is that of the Gaussian before the
    tanh; the KL divergence is the same before and after the tanh.

    >>> squashed = SquashedGaussian(low=np.array([0.0]), high=np.array([10.0]), choices=np.array([0]))
    >>> squashed.rescale(np.array([0.0]))
    array([5.])
    """

    name = "squashed"
    title = "Gaussian through a tanh"
    bounded = "tanh"
    rescales = True

    def log_prob(self, parameters: Array, action: Array, log_std: Array) -> Array:
        """Return log N(a; μ, σ²) − log(1 − tanh² a)."""
        xp = namespace(action)
        # log(1 − tanh² a) in a form without cancellation for large |a|
        slope = 2 * (math.log(2) - action - softplus(-2 * action, xp))
        return super().log_prob(parameters, action, log_std) - slope

    def rescale(self, action: Array) -> Array:
        """Return low + (tanh a + 1)(high − low)/2."""
        # Not before actions are stored: a cannot be recovered if tanh a rounds to 1.
        return self.low + (namespace(action).tanh(action) + 1) * (self.high - self.low) / 2

    def neutral(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean 0 and σ = 1, before the tanh."""
        return np.zeros((len(self), 1), np.float32), np.ones(len(self))
