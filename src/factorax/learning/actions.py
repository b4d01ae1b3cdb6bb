"""Action spaces as one flat row of components, and their distributions as one log-probability a component.

A component is an element of a Box or a MultiBinary, an entry of a MultiDiscrete, or a Discrete; Tuple and Dict string
their parts together. The learner holds actions as arrays ``(..., c)`` of floats, choices as their number from 0.

Components are independent, except that the Gaussian ones of a factor may have a full covariance. Each then has its
distribution *given those before it in the factor*, so that the figures of a factor's components add up to its own:

    a_k = μ_k + Σ_{l<k} W_kl (a_l − μ_l) + σ_k ε_k,    Σ⁻¹ = (I − W)ᵀ diag(σ⁻²) (I − W).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax.scipy.linalg import solve_triangular

GAUSSIAN, SQUASHED, BERNOULLI, CATEGORICAL = "gaussian", "squashed", "bernoulli", "categorical"
_LOG_2PI = float(np.log(2 * np.pi))
_IMPOSSIBLE = -1e9  # the logit of a choice that a component does not have


class Spread(NamedTuple):
    """Of Gaussian components."""

    log_std: jax.Array
    """log σ, ``(c,)``: of a component given those before it in its factor."""
    mixing: jax.Array
    """W of every factor with a covariance, ``(f, g, g)``, of which the part below the diagonal counts."""


@dataclass(frozen=True, eq=False)
class ActionSpace:
    """The components of a Gymnasium space, and a product distribution over them.

    The policy gives ``(..., c, width)`` parameters: the mean of a Gaussian or the logit of a Bernoulli in the first
    column, the logits of a categorical in as many as it has choices. The `Spread` of Gaussians is a parameter of its
    own.
    """

    space: gym.Space
    kinds: tuple[str, ...]
    """Of every component."""
    choices: np.ndarray
    """How many choices a categorical has, ``(c,)``; 1 for the others."""
    low: np.ndarray
    high: np.ndarray
    """Bounds of the Box components, ``(c,)``; infinite where there are none."""
    blocks: np.ndarray | None = None
    """The Gaussian components of every factor with a covariance, ``(f, g)``, filled up with c; None: no factor has."""

    @classmethod
    def of(cls, space: gym.Space, *, squash: bool = False) -> "ActionSpace":
        """The components of a space; with `squash`, bounded Boxes get a tanh-Gaussian instead of a clipped Gaussian.

        >>> ActionSpace.of(spaces.MultiDiscrete([2, 3])).kinds
        ('categorical', 'categorical')
        """
        kinds, choices, low, high = [], [], [], []

        def add(space: gym.Space, where: str) -> None:
            match space:
                case spaces.Box():
                    if not np.issubdtype(space.dtype, np.floating):
                        raise TypeError(
                            f"action space{where}: got {space}, want floats; for integers use MultiDiscrete"
                        )
                    bounded = np.isfinite(space.low) & np.isfinite(space.high)
                    kinds.extend(SQUASHED if squash and b else GAUSSIAN for b in bounded.ravel())
                    choices.extend([1] * bounded.size)
                    low.extend(space.low.ravel())
                    high.extend(space.high.ravel())
                case spaces.MultiBinary():
                    size = int(np.prod(space.shape))
                    kinds.extend([BERNOULLI] * size)
                    choices.extend([1] * size)
                    low.extend([0.0] * size)
                    high.extend([1.0] * size)
                case spaces.Discrete() | spaces.MultiDiscrete():
                    sizes = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
                    kinds.extend([CATEGORICAL] * len(sizes))
                    choices.extend(int(size) for size in sizes)
                    low.extend([0.0] * len(sizes))
                    high.extend(float(size - 1) for size in sizes)
                case spaces.Tuple():
                    for i, part in enumerate(space.spaces):
                        add(part, f"{where}[{i}]")
                case spaces.Dict():
                    for name, part in space.spaces.items():
                        add(part, f"{where}[{name!r}]")
                case _:
                    raise TypeError(
                        f"action space{where}: got {space}, want Box, Discrete, MultiDiscrete, MultiBinary, or a Tuple "
                        "or Dict of those"
                    )

        add(space, "")
        return cls(space, tuple(kinds), np.array(choices), np.array(low, np.float32), np.array(high, np.float32))

    def with_covariance(self, factor_of: np.ndarray) -> "ActionSpace":
        """The same, with a full covariance of the Gaussian components that are of one factor, ``(c,)``."""
        groups = [np.flatnonzero(self._gaussian & (factor_of == i)) for i in np.unique(factor_of)]
        groups = [group for group in groups if len(group) > 1]
        if not groups:
            return self
        blocks = np.full((len(groups), max(map(len, groups))), len(self))
        for row, group in zip(blocks, groups, strict=True):
            row[: len(group)] = group
        return replace(self, blocks=blocks)

    def __len__(self) -> int:
        return len(self.kinds)

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

    @cached_property
    def width(self) -> int:
        """How many parameters a component has at most."""
        return int(self.choices.max())

    @cached_property
    def _of(self) -> dict[str, np.ndarray]:
        """The components of every kind that occurs."""
        kinds = np.array(self.kinds)
        return {kind: np.flatnonzero(kinds == kind) for kind in dict.fromkeys(self.kinds)}

    @cached_property
    def _gaussian(self) -> np.ndarray:
        """Which components are, before or without a tanh."""
        return np.array([kind in (GAUSSIAN, SQUASHED) for kind in self.kinds])

    def _each(self, parts: dict[str, jax.Array]) -> jax.Array:
        """From values by kind, ``(..., of that kind)``, to ``(..., c)``."""
        if len(parts) == 1:
            return next(iter(parts.values()))
        order = np.argsort(np.concatenate([self._of[kind] for kind in parts]))
        return jnp.concatenate(list(parts.values()), axis=-1)[..., order]

    def _logits(self, parameters: jax.Array, components: np.ndarray) -> jax.Array:
        have = np.arange(self.width) < self.choices[components, None]
        return jax.nn.log_softmax(jnp.where(have, parameters[..., components, :], _IMPOSSIBLE), axis=-1)

    def sample(self, key: jax.Array, parameters: jax.Array, spread: Spread) -> jax.Array:
        """Draw actions ``(..., c)``; a squashed one before the tanh, so that its density stays exact."""
        parts = {}
        for kind, components in self._of.items():
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
        if not self._gaussian.any():
            return drawn
        return jnp.where(self._gaussian, self._mix(self._colour(spread), drawn) + parameters[..., 0], drawn)

    def mode(self, parameters: jax.Array) -> jax.Array:
        """The most probable actions, ``(..., c)``; of a squashed Gaussian, that of its mean."""
        parts = {}
        for kind, components in self._of.items():
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
        for kind, components in self._of.items():
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
        for kind, components in self._of.items():
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
        for kind, components in self._of.items():
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

    @cached_property
    def _squashed(self) -> np.ndarray:
        """Which components go through a tanh."""
        return np.array([kind == SQUASHED for kind in self.kinds])

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Of every component, finite, ``(c,)``."""
        low = np.where(np.isfinite(self.low), self.low, np.float32(-1e30))
        return low, np.where(np.isfinite(self.high), self.high, np.float32(1e30))

    def _within(self, action: Any, xp: Any) -> Any:
        """Actions ``(..., c)`` within their bounds."""
        if not self._gaussian.any():  # choices are what they are
            return action
        low, high = self._bounds
        if SQUASHED in self._of:
            action = xp.where(self._squashed, low + (xp.tanh(action) + 1) * (high - low) / 2, action)
        return xp.minimum(xp.maximum(action, low), high)

    @cached_property
    def _build(self) -> Callable[[np.ndarray], Any]:
        return _builder(self.space, 0)[0]

    def to_environments(self, actions: np.ndarray) -> Any:
        """What `to_environment` makes of every row of ``(B, c)``, all rows at once, and always new arrays."""
        return self._build(self._within(actions, np))

    def to_environment(self, action: Any, xp: Any = np) -> Any:
        """A flat action ``(c,)`` as the space has it: within its bounds, with the numbers and names it has there."""
        if xp is np:
            return self.to_environments(np.asarray(action)[None])[0]
        return _traced(self.space, self._within(action, xp))[0]


def _builder(space: gym.Space, start: int) -> tuple[Callable[[np.ndarray], Any], int]:
    """From rows to elements of the space, made of the components from `start` on; and where the next begin."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        builders = []
        for part in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            build, start = _builder(part, start)
            builders.append(build)
        if isinstance(space, spaces.Tuple):
            return lambda rows: list(zip(*(build(rows) for build in builders), strict=True)), start
        names = tuple(space.spaces)

        def named(rows: np.ndarray) -> Any:
            together = zip(*(build(rows) for build in builders), strict=True)
            return [dict(zip(names, row, strict=True)) for row in together]

        return named, start
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return lambda rows: rows[:, start].astype(np.int64) + first, start + 1
    shape, dtype = space.shape or (), space.dtype
    end = start + math.prod(shape)
    offset = space.start if isinstance(space, spaces.MultiDiscrete) else None
    # A bound of 64 bits may be no number of 32.
    bounds = (space.low, space.high) if isinstance(space, spaces.Box) and dtype != np.float32 else None

    def element(rows: np.ndarray) -> Any:
        elements = rows[:, start:end].reshape(-1, *shape).astype(dtype, copy=False)
        if offset is not None:
            elements += offset
        return elements if bounds is None else np.clip(elements, *bounds)

    return element, end


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
