"""Distributions of choices: categorical, with one logit per choice, and Bernoulli, a switch with one logit in all."""

from typing import Any

import numpy as np

from .base import Distribution, register
from .functions import Array, at_choice, log_softmax, namespace, softplus, special, sum_last

_TINY = np.finfo(np.float32).tiny  # an exponential variable of 0 would have the logarithm −∞
# Not −∞: in entropies and gradients, 0 · ∞ would be NaN.
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
        # Masked here, once for a fragment, so that `choose` need not do so in every step.
        return np.where(self._possible, gumbel, -np.inf)

    def choose(self, parameters: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return the choice with the largest perturbed logit."""
        return (parameters + noise).argmax(axis=-1).astype(np.float32)

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
        # The deviation is 0 if a component has one choice, or one of its choices all the probability.
        return (action - mean) / np.maximum(deviation, 1e-12), cumulative - between * chance

    @property
    def direction(self) -> np.ndarray:
        """Direction towards later choices: from −1 for the first logit to 1 for the last, ``(k, width)``."""
        return np.broadcast_to(np.linspace(-1, 1, self.width, dtype=np.float32), (len(self), self.width))


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
        # in float64, where p (1 − p) is not 0 for large logits
        p = special(np).expit(parameters[..., 0].astype(float))
        below, chance = np.where(action > 0.5, 1 - p, 0.0), np.where(action > 0.5, p, 1 - p)
        return (action - p) / np.sqrt(p * (1 - p)), below + between * chance
