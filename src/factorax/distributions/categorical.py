"""Categorical distribution: one of n choices, with one logit per choice."""

from typing import Any

import numpy as np

from .base import Distribution, register
from .functions import Array, at_choice, log_softmax, namespace, special, sum_last

_TINY = np.finfo(np.float32).tiny
_IMPOSSIBLE = -1e9  # logit of choices that a component does not have


@register
class Categorical(Distribution):
    """Choices with probabilities softmax(x); components may have different numbers of choices.

    The parameters are as wide as the largest number of choices; components with fewer choices ignore the rest.

    >>> dice = Categorical(low=np.zeros(2), high=np.array([1.0, 2.0]), choices=np.array([2, 3]))
    >>> np.exp(dice.log_prob(np.zeros((2, 3)), np.array([1.0, 2.0]), np.zeros(2))).round(3)
    array([0.5  , 0.333])
    """

    name = "categorical"
    discrete = True
    additive = True

    @property
    def width(self) -> int:
        """The largest number of choices."""
        return int(self.choices.max())

    @property
    def _possible(self) -> np.ndarray:
        return np.arange(self.width) < self.choices[:, None]

    def _logits(self, parameters: Array) -> Array:
        """Return log-probabilities of all choices, ``(..., k, width)``."""
        xp = namespace(parameters)
        return log_softmax(xp.where(self._possible, parameters, _IMPOSSIBLE), xp)

    def log_prob(self, parameters: Array, action: Array, log_std: Array) -> Array:
        """Return log softmax(x) at the given choice."""
        return at_choice(self._logits(parameters), action, namespace(parameters, action))

    def entropy(self, parameters: Array, log_std: Array) -> Array:
        """Return −Σ p log p."""
        logits = self._logits(parameters)
        return -sum_last(namespace(parameters).exp(logits) * logits)

    def kl(self, old: tuple[Array, Array], new: tuple[Array, Array]) -> Array:
        """Return Σ p (log p − log q)."""
        a, b = self._logits(old[0]), self._logits(new[0])
        return sum_last(namespace(a, b).exp(a) * (a - b))

    def mode(self, parameters: Array) -> Array:
        """Return the choice with the largest logit."""
        return self._logits(parameters).argmax(axis=-1).astype(np.float32)

    def sample(self, key: Any, parameters: Array, log_std: Array) -> Array:
        """Draw choices."""
        import jax

        from .._arrays import drawn

        logits = self._logits(parameters)
        return (logits + drawn(jax.random.gumbel, key, logits.shape, logits.dtype)).argmax(axis=-1).astype(np.float32)

    def noise(self, rng: np.random.Generator, n_steps: int, log_std: np.ndarray) -> np.ndarray:
        """Return Gumbel noise, −∞ for missing choices: the choice is the argmax of x + noise."""
        gumbel = -np.log(np.maximum(rng.standard_exponential((n_steps, len(self), self.width), np.float32), _TINY))
        return np.where(self._possible, gumbel, -np.inf)

    def pick(self, perturbed: np.ndarray) -> np.ndarray:
        """Return the choice with the largest perturbed logit."""
        return perturbed.argmax(axis=-1).astype(np.float32)

    def standardised(
        self, parameters: np.ndarray, action: np.ndarray, between: np.ndarray, log_std: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of the choice, centred and scaled, and a point between F below it and F at it."""
        p = special(np).softmax(np.where(self._possible, parameters, -np.inf), axis=-1)
        values = np.arange(self.width)
        mean = (p * values).sum(axis=-1)
        deviation = np.sqrt((p * values**2).sum(axis=-1) - mean**2)
        chosen = action[..., None].astype(int)
        chance = np.take_along_axis(p, chosen, axis=-1)[..., 0]
        cumulative = np.take_along_axis(np.cumsum(p, axis=-1), chosen, axis=-1)[..., 0]
        return (action - mean) / np.maximum(deviation, 1e-12), cumulative - between * chance

    @property
    def direction(self) -> np.ndarray:
        """Direction towards later choices: from −1 for the first logit to 1 for the last, ``(k, width)``."""
        return np.broadcast_to(np.linspace(-1, 1, self.width, dtype=np.float32), (len(self), self.width))
