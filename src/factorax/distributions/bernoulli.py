"""Bernoulli distribution: a switch that is on with probability σ(x)."""

from typing import Any

import numpy as np

from .base import Distribution, register
from .functions import Array, namespace, softplus, special

_TINY = np.finfo(np.float32).tiny


@register
class Bernoulli(Distribution):
    """Switches that are 1 with probability 1 / (1 + e⁻ˣ), with the logit x as the only parameter.

    >>> switch = Bernoulli(low=np.zeros(1), high=np.ones(1), choices=np.array([2]))
    >>> np.exp(switch.log_prob(np.zeros((1, 1)), np.ones(1), np.zeros(1)))
    array([0.5])
    """

    name = "bernoulli"
    title = "Bernoulli"
    discrete = True

    def log_prob(self, parameters: Array, action: Array, log_std: Array) -> Array:
        """Return log σ(x) for action 1 and log σ(−x) for action 0."""
        logit, xp = parameters[..., 0], namespace(parameters, action)
        return -softplus(xp.where(action > 0.5, -logit, logit), xp)

    def entropy(self, parameters: Array, log_std: Array) -> Array:
        """Return H = log(1 + eˣ) − x σ(x)."""
        logit, xp = parameters[..., 0], namespace(parameters)
        return softplus(logit, xp) - logit * special(xp).expit(logit)

    def kl(self, old: tuple[Array, Array], new: tuple[Array, Array]) -> Array:
        """Return p (x − y) + log(1 + eʸ) − log(1 + eˣ) for logits x and y, with p = σ(x)."""
        x, y, xp = old[0][..., 0], new[0][..., 0], namespace(old[0], new[0])
        return special(xp).expit(x) * (x - y) + softplus(y, xp) - softplus(x, xp)

    def mode(self, parameters: Array) -> Array:
        """Return 1 where the logit is positive."""
        return (parameters[..., 0] > 0).astype(np.float32)

    def sample(self, key: Any, parameters: Array, log_std: Array) -> Array:
        """Draw zeros and ones."""
        import jax

        from .._arrays import drawn

        chance = jax.nn.sigmoid(parameters[..., 0])
        return (drawn(jax.random.uniform, key, chance.shape, chance.dtype) < chance).astype(np.float32)

    def noise(self, rng: np.random.Generator, n_steps: int, log_std: np.ndarray) -> np.ndarray:
        """Return logistic noise, as the difference of two Gumbel variables: x > noise with probability σ(x)."""
        gumbel = -np.log(np.maximum(rng.standard_exponential((n_steps, len(self), 2), np.float32), _TINY))
        return (gumbel[..., 0] - gumbel[..., 1])[..., None]

    def choose(self, parameters: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return true where the logit exceeds the noise."""
        return parameters[..., 0] > noise[..., 0]

    def standardised(
        self, parameters: np.ndarray, action: np.ndarray, between: np.ndarray, log_std: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (a − p) / √(p (1 − p)), and a point between F below a and F at a."""
        p = special(np).expit(parameters[..., 0].astype(float))
        below, chance = np.where(action > 0.5, 1 - p, 0.0), np.where(action > 0.5, p, 1 - p)
        return (action - p) / np.sqrt(p * (1 - p)), below + between * chance
