"""Beta distribution: actions within bounds, with a unimodal density that is zero at the bounds."""

from typing import Any

import numpy as np

from .base import Distribution, register
from .functions import Array, namespace, softplus, special

EDGE = float(np.finfo(np.float32).eps)
"""Minimum distance of raw actions from 0 and 1, so that their log-density is finite in float32."""
_TINY = 1e-30  # α − 1 and β − 1 may both underflow to 0, where the mode would be 0/0


@register
class Beta(Distribution):
    """Raw actions u ∈ (0, 1) with density ∝ u^(α−1) (1 − u)^(β−1); environments receive low + u (high − low).

    The two parameters x of a component give α = 1 + log(1 + e^x₀) and β = 1 + log(1 + e^x₁). Both are above 1, so the
    density is unimodal and zero at the bounds. Zero parameters give a standard deviation of about a quarter of the
    range. Unlike for a Gaussian, the spread is an output of the network and depends on the state; `log_std` is
    ignored.

    The density is that of u, independent of the bounds of the space, as for the squashed Gaussian (where u ∈ (−1, 1)).
    The width of the bounds would add a constant, which cancels in ratios and gradients.

    Proposed for policy gradients by Chou, Maturana and Scherer, "Improving Stochastic Policy Gradients in Continuous
    Control with Deep Reinforcement Learning using the Beta Distribution", ICML 2017.

    >>> beta = Beta(low=np.array([-1.0]), high=np.array([1.0]), choices=np.array([0]))
    >>> mode = beta.mode(np.zeros((1, 2)))
    >>> mode, beta.rescale(mode)
    (array([0.5]), array([0.]))
    """

    name = "beta"
    title = "Beta"
    bounded = "beta"
    rescales = True

    @property
    def width(self) -> int:
        """Number of parameters: 2, x₀ for α and x₁ for β."""
        return 2

    def _concentrations(self, parameters: Array) -> tuple[Array, Array]:
        """Return α − 1 and β − 1."""
        # Not α and β: in single precision, adding 1 and subtracting it again would lose a small excess.
        excess = softplus(parameters, namespace(parameters))
        return excess[..., 0], excess[..., 1]

    def log_prob(self, parameters: Array, action: Array, log_std: Array) -> Array:
        """Return (α − 1) log u + (β − 1) log(1 − u) − log B(α, β)."""
        xp = namespace(parameters, action)
        a, b = self._concentrations(parameters)
        # log1p, because 1 − u loses the digits of a small u.
        return a * xp.log(action) + b * xp.log1p(-action) - special(xp).betaln(1 + a, 1 + b)

    def entropy(self, parameters: Array, log_std: Array) -> Array:
        """Return log B(α, β) − (α − 1) ψ(α) − (β − 1) ψ(β) + (α + β − 2) ψ(α + β), with the digamma function ψ."""
        functions = special(namespace(parameters))
        a, b = self._concentrations(parameters)
        together = functions.digamma(2 + a + b)
        inside = a * (functions.digamma(1 + a) - together) + b * (functions.digamma(1 + b) - together)
        return functions.betaln(1 + a, 1 + b) - inside

    def kl(self, old: tuple[Array, Array], new: tuple[Array, Array]) -> Array:
        """Return log B(α', β')/B(α, β) + (α − α')(ψ(α) − ψ(α + β)) + (β − β')(ψ(β) − ψ(α + β)), primes for `new`."""
        functions = special(namespace(old[0], new[0]))
        (a, b), (c, d) = self._concentrations(old[0]), self._concentrations(new[0])
        together = functions.digamma(2 + a + b)
        inside = (a - c) * (functions.digamma(1 + a) - together) + (b - d) * (functions.digamma(1 + b) - together)
        return functions.betaln(1 + c, 1 + d) - functions.betaln(1 + a, 1 + b) + inside

    def mode(self, parameters: Array) -> Array:
        """Return (α − 1)/(α + β − 2)."""
        a, b = self._concentrations(parameters)
        return self._inside((a + _TINY) / (a + b + 2 * _TINY))

    def sample(self, key: Any, parameters: Array, log_std: Array) -> Array:
        """Draw raw actions in (0, 1)."""
        import jax

        a, b = self._concentrations(parameters)
        return self._inside(jax.random.beta(key, 1 + a, 1 + b))

    def noise(self, rng: np.random.Generator, n_steps: int, log_std: np.ndarray) -> np.ndarray:
        """Return uniform variables in the first column, which `choose` converts to quantiles."""
        noise = np.zeros((n_steps, len(self), 2), np.float32)
        noise[..., 0] = rng.random((n_steps, len(self)), np.float32)
        return noise

    def choose(self, parameters: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return quantiles of the distribution at the uniform noise."""
        a, b = self._concentrations(parameters)
        return self._inside(special(np).betaincinv(1 + a, 1 + b, noise[..., 0]))

    def _inside(self, action: Array) -> Array:
        """Return actions clipped away from 0 and 1."""
        xp = namespace(action)
        return xp.minimum(xp.maximum(action, EDGE), 1 - EDGE)

    def rescale(self, action: Array) -> Array:
        """Return low (1 − u) + high u."""
        # Not low + u (high − low): the difference overflows for very wide bounds.
        return self.low * (1 - action) + self.high * action

    def standardised(
        self, parameters: np.ndarray, action: np.ndarray, between: np.ndarray, log_std: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (u − mean)/deviation, and the regularised incomplete beta function of u."""
        a, b = (1 + excess for excess in self._concentrations(parameters.astype(float)))
        deviation = np.sqrt(a * b / (a + b + 1)) / (a + b)
        return (action - a / (a + b)) / deviation, special(np).betainc(a, b, action)

    @property
    def direction(self) -> np.ndarray:
        """Direction of a larger α and a smaller β, ``(k, 2)``."""
        return np.broadcast_to(np.array([1, -1], np.float32), (len(self), 2))
