"""Squashed Gaussian: a Gaussian through a tanh, for actions within bounds."""

import math

import numpy as np

from .base import register
from .functions import Array, namespace, softplus
from .gaussian import Gaussian


@register
class SquashedGaussian(Gaussian):
    """Raw actions a = μ + σ ε; environments receive low + (tanh a + 1)(high − low)/2.

    The raw action is stored, because a cannot be recovered if tanh a rounds to 1. The density is that of
    u = tanh a ∈ (−1, 1), independent of the bounds of the space; their width would add a constant, which cancels in
    ratios and gradients. The entropy is that of the Gaussian before the tanh; the KL divergence is the same before and
    after the tanh.

    >>> squashed = SquashedGaussian(low=np.array([0.0]), high=np.array([10.0]), choices=np.array([0]))
    >>> squashed.rescale(np.array([0.0]))
    array([5.])
    """

    name = "squashed"
    title = "Gaussian through a tanh"
    bounded = "tanh"
    rescales = True

    def log_prob_of_residual(self, residual: Array, action: Array, log_std: Array) -> Array:
        """Return log N(a; μ, σ²) − log(1 − tanh² a)."""
        xp = namespace(action)
        # log(1 − tanh² a) in a form without cancellation for large |a|
        slope = 2 * (math.log(2) - action - softplus(-2 * action, xp))
        return super().log_prob_of_residual(residual, action, log_std) - slope

    def rescale(self, action: Array) -> Array:
        """Return low + (tanh a + 1)(high − low)/2."""
        return self.low + (namespace(action).tanh(action) + 1) * (self.high - self.low) / 2

    def neutral(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean 0 and σ = 1, before the tanh."""
        return np.zeros((len(self), 1), np.float32), np.ones(len(self))
