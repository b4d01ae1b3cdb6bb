"""Distributions over the components of an action space, as one log-probability a component.

Components are independent, except that the Gaussian ones of a factor may have a full covariance. Each then has its
distribution *given those before it in the factor*, so that the figures of a factor's components add up to its own:

    a_k = μ_k + Σ_{l<k} W_kl (a_l − μ_l) + σ_k ε_k,    Σ⁻¹ = (I − W)ᵀ diag(σ⁻²) (I − W).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax.scipy.linalg import solve_triangular

from ..rollouts.components import BERNOULLI, GAUSSIAN, SQUASHED, Components

_LOG_2PI = float(np.log(2 * np.pi))
_IMPOSSIBLE = -1e9  # the logit of a choice that a component does not have


class Spread(NamedTuple):
    """Of Gaussian components."""

    log_std: jax.Array
    """log σ, ``(c,)``: of a component given those before it in its factor."""
    mixing: jax.Array
    """W of every factor with a covariance, ``(f, g, g)``, of which the part below the diagonal counts."""


@dataclass(frozen=True, eq=False)
class ActionSpace(Components):
    """The components of a Gymnasium space, and a product distribution over them.

    The policy gives ``(..., c, width)`` parameters: the mean of a Gaussian or the logit of a Bernoulli in the first
    column, the logits of a categorical in as many as it has choices. The `Spread` of Gaussians is a parameter of its
    own.
    """

    def spread(self, log_std: float) -> Spread:
        """Independent components of one deviation."""
        f, g = (0, 0) if self.blocks is None else self.blocks.shape
        return Spread(jnp.full(len(self), log_std, jnp.float32), jnp.zeros((f, g, g)))

    def _mix(self, matrix: jax.Array, x: jax.Array) -> jax.Array:
        """A matrix ``(f, g, g)`` for every factor with a covariance, times its part of ``(..., c)``."""
        if self.blocks is None:
            return x
        parts = jnp.take(x, self.blocks, axis=-1, mode="fill", fill_value=0.0)
        return x.at[..., self.blocks].set(jnp.einsum("fij,...fj->...fi", matrix, parts), mode="drop")

    def _whiten(self, spread: Spread) -> jax.Array:
        """I − W, from a − μ to what is left of it given the components before."""
        return jnp.eye(spread.mixing.shape[-1]) - jnp.tril(spread.mixing, -1)

    def _colour(self, spread: Spread) -> jax.Array:
        """(I − W)⁻¹."""
        identity = jnp.broadcast_to(jnp.eye(spread.mixing.shape[-1]), spread.mixing.shape)
        return solve_triangular(self._whiten(spread), identity, lower=True, unit_diagonal=True)

    def _residual(self, action: jax.Array, parameters: jax.Array, spread: Spread) -> jax.Array:
        """ε of every Gaussian component, ``(..., c)``."""
        return self._mix(self._whiten(spread), action - parameters[..., 0]) * jnp.exp(-spread.log_std)

    def _each(self, parts: dict[str, jax.Array]) -> jax.Array:
        """From values by kind, ``(..., of that kind)``, to ``(..., c)``."""
        if len(parts) == 1:
            return next(iter(parts.values()))
        order = np.argsort(np.concatenate([self.of_kind[kind] for kind in parts]))
        return jnp.concatenate(list(parts.values()), axis=-1)[..., order]

    def _logits(self, parameters: jax.Array, components: np.ndarray) -> jax.Array:
        have = np.arange(self.width) < self.choices[components, None]
        return jax.nn.log_softmax(jnp.where(have, parameters[..., components, :], _IMPOSSIBLE), axis=-1)

    def sample(self, key: jax.Array, parameters: jax.Array, spread: Spread) -> jax.Array:
        """Draw actions ``(..., c)``; a squashed one before the tanh, so that its density stays exact."""
        parts = {}
        for kind, components in self.of_kind.items():
            key, here = jax.random.split(key)
            first = parameters[..., components, 0]
            if kind in (GAUSSIAN, SQUASHED):
                parts[kind] = jnp.exp(spread.log_std[components]) * jax.random.normal(here, first.shape)
            elif kind == BERNOULLI:
                parts[kind] = jax.random.bernoulli(here, jax.nn.sigmoid(first)).astype(jnp.float32)
            else:
                logits = self._logits(parameters, components)
                parts[kind] = jax.random.categorical(here, logits).astype(jnp.float32)
        drawn = self._each(parts)
        if not self.gaussian.any():
            return drawn
        return jnp.where(self.gaussian, self._mix(self._colour(spread), drawn) + parameters[..., 0], drawn)

    def mode(self, parameters: jax.Array) -> jax.Array:
        """The most probable actions, ``(..., c)``; of a squashed Gaussian, that of its mean."""
        parts = {}
        for kind, components in self.of_kind.items():
            first = parameters[..., components, 0]
            if kind in (GAUSSIAN, SQUASHED):
                parts[kind] = first
            elif kind == BERNOULLI:
                parts[kind] = (first > 0).astype(jnp.float32)
            else:
                parts[kind] = self._logits(parameters, components).argmax(axis=-1).astype(jnp.float32)
        return self._each(parts)

    def log_prob(self, parameters: jax.Array, spread: Spread, action: jax.Array) -> jax.Array:
        """log π of every component, ``(..., c)``."""
        parts = {}
        residual = self._residual(action, parameters, spread)
        for kind, components in self.of_kind.items():
            first, a = parameters[..., components, 0], action[..., components]
            if kind in (GAUSSIAN, SQUASHED):
                parts[kind] = -0.5 * residual[..., components] ** 2 - spread.log_std[components] - 0.5 * _LOG_2PI
                if kind == SQUASHED:  # log of the derivative of tanh, without its cancellation for large |a|
                    parts[kind] -= 2 * (np.log(2) - a - jax.nn.softplus(-2 * a))
            elif kind == BERNOULLI:
                parts[kind] = -jax.nn.softplus(jnp.where(a > 0.5, -first, first))
            else:
                logits = self._logits(parameters, components)
                parts[kind] = jnp.take_along_axis(logits, a[..., None].astype(jnp.int32), axis=-1)[..., 0]
        return self._each(parts)

    def entropy(self, parameters: jax.Array, spread: Spread) -> jax.Array:
        """Entropy of every component, ``(..., c)``; of a squashed Gaussian, that of the Gaussian within."""
        parts = {}
        for kind, components in self.of_kind.items():
            first = parameters[..., components, 0]
            if kind in (GAUSSIAN, SQUASHED):
                parts[kind] = jnp.broadcast_to(spread.log_std[components] + 0.5 * (1 + _LOG_2PI), first.shape)
            elif kind == BERNOULLI:
                parts[kind] = jax.nn.softplus(first) - first * jax.nn.sigmoid(first)
            else:
                logits = self._logits(parameters, components)
                parts[kind] = -(jnp.exp(logits) * logits).sum(axis=-1)
        return self._each(parts)

    def kl(self, old: tuple[jax.Array, Spread], new: tuple[jax.Array, Spread]) -> jax.Array:
        """KL(old ‖ new) of every component, ``(..., c)``; each is a pair of parameters and a spread."""
        parts = {}
        distance = self._residual(old[0][..., 0], *new) ** 2
        ratio = self._ratio(old[1], new[1])
        for kind, components in self.of_kind.items():
            first_old, first_new = old[0][..., components, 0], new[0][..., components, 0]
            if kind in (GAUSSIAN, SQUASHED):  # tanh changes neither
                wider = (new[1].log_std - old[1].log_std)[components]
                parts[kind] = wider + 0.5 * (ratio[components] + distance[..., components] - 1)
            elif kind == BERNOULLI:
                # Σ p (log p − log q) = p (x − y) + softplus(y) − softplus(x) for logits x and y.
                p = jax.nn.sigmoid(first_old)
                parts[kind] = p * (first_old - first_new) + jax.nn.softplus(first_new) - jax.nn.softplus(first_old)
            else:
                a, b = (self._logits(x[0], components) for x in (old, new))
                parts[kind] = (jnp.exp(a) * (a - b)).sum(axis=-1)
        return self._each(parts)

    def _ratio(self, old: Spread, new: Spread) -> jax.Array:
        """Variance of every component's ε of `new` under `old`, ``(c,)``."""
        own = jnp.exp(2 * (old.log_std - new.log_std))
        if self.blocks is None:
            return own
        deviation = jnp.take(jnp.exp(old.log_std), self.blocks, mode="fill", fill_value=0.0)
        rows = (self._whiten(new) @ self._colour(old)) * deviation[:, None, :]
        precision = jnp.take(jnp.exp(-2 * new.log_std), self.blocks, mode="fill", fill_value=0.0)
        return own.at[self.blocks].set((rows**2).sum(axis=-1) * precision, mode="drop")

    def to_environment(self, action: Any, xp: Any = np) -> Any:
        """A flat action ``(c,)`` as the space has it: within its bounds, with the numbers and names it has there."""
        if xp is np:
            return self.to_environments(np.asarray(action)[None])[0]
        return _traced(self.space, self.within(action, xp))[0]


def _traced(space: gym.Space, row: Any) -> tuple[Any, Any]:
    """The first components of a row as an element of the space, as JAX has it, and the rest of the row."""
    match space:
        case spaces.Tuple():
            parts = []
            for part in space.spaces:
                element, row = _traced(part, row)
                parts.append(element)
            return tuple(parts), row
        case spaces.Dict():
            named = {}
            for name, part in space.spaces.items():
                named[name], row = _traced(part, row)
            return named, row
        case spaces.Discrete():
            return row[0].astype(np.int32) + int(space.start), row[1:]
        case _:
            shape = space.shape or ()
            size = math.prod(shape)
            element = row[:size].reshape(shape)
            if isinstance(space, spaces.MultiDiscrete):
                element = element + jnp.asarray(space.start, dtype=element.dtype)
            return element.astype(np.float32 if isinstance(space, spaces.Box) else np.int32), row[size:]
