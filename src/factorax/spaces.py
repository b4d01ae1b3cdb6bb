"""Conversion between Gymnasium action spaces and flat rows of components. NumPy only: workers do not import JAX.

A component is an element of a Box or MultiBinary, an entry of a MultiDiscrete, or a Discrete; Tuple and Dict
concatenate the components of their parts. Actions are float arrays ``(..., c)``; choices are numbered from 0.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from .distributions import (
    DISTRIBUTIONS,
    KINDS,
    Bernoulli,
    BoundedChoice,
    Categorical,
    Gaussian,
    GaussianChoice,
    Product,
)
from .distributions.covariance import blocks_of

MAX_WIDTH = 1e9
"""Wider bounds count as unbounded: ±3.4e38 is the range of a float, not of an action."""
MAX_DESCRIBED = 4
"""Largest number of different distributions that `ActionSpace.describe_actions` lists separately."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ActionSpace(Product):
    """The components of a Gymnasium action space, with a product distribution over them."""

    space: gym.Space

    @classmethod
    def of(cls, space: gym.Space, distribution: str | BoundedChoice = "scale") -> Self:
        """Create the components of a space, each with its distribution.

        - `distribution`: that of the components of a Box with finite bounds, from the menu `DISTRIBUTIONS`:
          ``"scale"``, ``"clip"``, ``"tanh"``, ``"beta"`` or a name that was registered, as text with settings or as an
          object. Components without bounds, or with only one, have a Gaussian in raw units.

        >>> ActionSpace.of(spaces.MultiDiscrete([2, 3])).kinds
        ('categorical', 'categorical')
        >>> ActionSpace.of(spaces.Box(0.0, 1.0, (2,))).kinds
        ('scaled', 'scaled')
        """
        choice = DISTRIBUTIONS.read(distribution)
        within_bounds = next(kind.name for kind in KINDS.values() if kind.bounded == choice.name)
        rows: list[tuple[str, int, Any, Any]] = []  # kind, number of choices, and bounds of each component

        def add(space: gym.Space, where: str) -> None:
            match space:
                case spaces.Box():
                    if not np.issubdtype(space.dtype, np.floating):
                        raise TypeError(
                            f"action space{where}: got {space}, want floats; for integers use MultiDiscrete or, if "
                            "there are many, a Box of floats that the environment rounds"
                        )
                    with np.errstate(over="ignore"):  # bounds in float64 may be infinite in float32
                        bounds = space.low.ravel().astype(np.float32), space.high.ravel().astype(np.float32)
                    kinds = [within_bounds if finite else Gaussian.name for finite in has_bounds(*bounds)]
                    rows.extend(zip(kinds, [0] * len(kinds), *bounds, strict=True))
                case spaces.MultiBinary():
                    rows.extend([(Bernoulli.name, 2, 0.0, 1.0)] * math.prod(space.shape))
                case spaces.Discrete() | spaces.MultiDiscrete():
                    sizes = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
                    rows.extend((Categorical.name, int(size), 0.0, float(size - 1)) for size in sizes)
                case spaces.Tuple():
                    for i, part in enumerate(space.spaces):
                        add(part, f"{where}[{i}]")
                case spaces.Dict():
                    for name, part in space.spaces.items():
                        add(part, f"{where}[{name!r}]")
                case _:
                    raise TypeError(
                        f"action space{where}: got {space!r}, want Box, Discrete, MultiDiscrete, MultiBinary, or a "
                        "Tuple or Dict of those"
                    )

        add(space, "")
        if not rows:
            raise ValueError(f"action space: got {space}, which has no components; want at least one")
        kinds, choices, low, high = zip(*rows, strict=True)
        return cls(
            space=space,
            kinds=kinds,
            choices=np.array(choices),
            low=np.array(low, np.float32),
            high=np.array(high, np.float32),
            # of the base class, because the choices of registered kinds cannot be pickled
            settings=GaussianChoice(getattr(choice, "std", "component"), getattr(choice, "initial_log_std", None)),
        )

    def with_covariance(self, factor_of: np.ndarray) -> Self:
        """Return the same space with a full covariance of the Gaussian components of each factor.

        - `factor_of`: the factor of each component, ``(c,)``.
        """
        return replace(self, blocks=blocks_of(self.has_spread, factor_of))

    @cached_property
    def unscaled(self) -> np.ndarray:
        """Indices of the continuous components without bounds or with only one, ``(k,)``.

        They are in raw units whatever their `distribution`.
        """
        return np.flatnonzero(~self.discrete & ~has_bounds(self.low, self.high))

    def describe_actions(self) -> str:
        """Return the distributions of the components in one line.

        >>> ActionSpace.of(spaces.Box(0.0, 365.0, (4,))).describe_actions()
        '4 × Gaussian, scaled to the bounds [0, 365]'
        """

        def described(k: int, *, each: bool) -> str:
            kind, low, high = KINDS[self.kinds[k]], self.low[k], self.high[k]
            title = kind.title or kind.name
            if kind.discrete:
                return title if each or kind is not Categorical else f"{title} with {self.choices[k]} choices"
            bounds = "the bounds of each" if each else f"the bounds [{low:g}, {high:g}]"
            if kind.rescales:
                return f"{title}, scaled to {bounds}"
            free = k in self.unscaled and bool(np.isfinite(low) == np.isfinite(high))
            return f"{title} in raw units, " + ("unbounded" if free else f"clipped to {bounds}")

        for each in (False, True):  # without bounds and numbers of choices if there are too many different ones
            counts = Counter(described(k, each=each) for k in range(len(self)))
            if len(counts) <= MAX_DESCRIBED:
                break
        return "; ".join(f"{count} × {text}" for text, count in counts.items())

    @cached_property
    def to_environments(self) -> Callable[[np.ndarray], Any]:
        """The function that returns the environment action of each row of ``(B, c)``, as `to_environment` does for one.

        A rollout calls it in every step, so it does nothing that is known beforehand.
        """
        build, _ = _builder(self.space, 0, np)
        return build if self.discrete.all() else lambda actions: build(self.within(actions, np))

    def to_environment(self, action: Any, xp: Any = np) -> Any:
        """Return a flat raw action ``(c,)`` as an element of the space, within its bounds.

        - `xp`: `numpy`, or `jax.numpy` for an action that is traced by JAX.
        """
        if xp is np:
            return self.to_environments(np.asarray(action)[None])[0]
        return _builder(self.space, 0, xp)[0](self.within(action, xp)[None])[0]


@dataclass(frozen=True)
class ActionMask:
    """Columns of the observation that mark the valid choices: one number per choice of the categorical components, 0 if
    the choice is invalid."""

    start: int
    """Index of the first of these columns."""
    choices: tuple[int, ...]
    """Number of choices of each component; 0 if it is not categorical."""

    @classmethod
    def of(cls, components: ActionSpace, start: int, end: int) -> "ActionMask":
        """Create a mask from columns `start` to `end`; raise ValueError unless there is one column per choice."""
        is_categorical = np.array(components.kinds) == Categorical.name
        choices = tuple(int(n) for n in np.where(is_categorical, components.choices, 0))
        if sum(choices) != end - start or not sum(choices):
            raise ValueError(
                f"action_mask: got {end - start} numbers, want {sum(choices)}, one per choice of the Discrete and "
                "MultiDiscrete parts of the action space, in their order"
            )
        return cls(start, choices)

    def applied(self, parameters: Any, rows: Any, xp: Any) -> Any:
        """Return parameters ``(..., c, width)`` with a logit of −10⁹ for each choice that is invalid in rows
        ``(..., d)``."""
        c, width = parameters.shape[-2:]
        columns = np.full((c, width), sum(self.choices))  # index of an appended column that is always valid
        for i, end in enumerate(np.cumsum(self.choices)):
            columns[i, : self.choices[i]] = np.arange(end - self.choices[i], end)
        valid = rows[..., self.start : self.start + sum(self.choices)] > 0.5
        valid = xp.concatenate([valid, xp.ones((*valid.shape[:-1], 1), bool)], axis=-1)
        return xp.where(valid[..., columns], parameters, np.float32(-1e9))


def sample_valid(space: gym.Space, obs: Any = None, info: Any = None) -> Any:
    """Return a random action, which is valid under the ``action_mask`` of the observation or `info`, if there is one.

    Masks apply to Discrete and MultiDiscrete spaces.
    """
    masks = (part.get("action_mask") for part in (obs, info) if isinstance(part, Mapping))
    mask = next((each for each in masks if each is not None), None)
    if mask is None or not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return space.sample()
    flags = np.asarray(mask).ravel().astype(np.int8)
    if isinstance(space, spaces.Discrete):
        return space.sample(flags)
    return space.sample(tuple(np.split(flags, np.cumsum(space.nvec.ravel())[:-1])))


def has_bounds(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return which components have two bounds that are at most `MAX_WIDTH` apart, as booleans.

    >>> has_bounds(np.float32([0, 0, -3e38]), np.float32([365, np.inf, 3e38])).tolist()
    [True, False, False]
    """
    # Halved first: the difference of the largest float32 numbers overflows.
    return np.isfinite(low) & np.isfinite(high) & (high / 2.0 - low / 2.0 <= MAX_WIDTH / 2)


def _builder(space: gym.Space, start: int, xp: Any) -> tuple[Callable[[Any], Any], int]:
    """Return a function from rows to elements of the space, and the index of the component after its last.

    The function reads the components from `start` on. In JAX, elements have single precision.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        builders = []
        for part in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            build, start = _builder(part, start, xp)
            builders.append(build)
        if isinstance(space, spaces.Tuple):
            return lambda rows: list(zip(*(build(rows) for build in builders), strict=True)), start
        names = tuple(space.spaces)

        def named(rows: Any) -> Any:
            rows_of_parts = zip(*(build(rows) for build in builders), strict=True)
            return [dict(zip(names, row, strict=True)) for row in rows_of_parts]

        return named, start
    shape, dtype = space.shape or (), space.dtype
    if xp is not np:
        dtype = np.float32 if isinstance(space, spaces.Box) else np.int32
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return lambda rows: rows[:, start].astype(dtype) + first, start + 1
    end = start + math.prod(shape)
    offset = space.start if isinstance(space, spaces.MultiDiscrete) and np.any(space.start) else None
    # Rows of a Box have just been brought within its bounds. Others belong to the caller: an offset, or an environment
    # that modifies its action, must not reach them.
    copy = not isinstance(space, spaces.Box)
    # A float64 bound may not be representable in float32.
    bounds = (space.low, space.high) if isinstance(space, spaces.Box) and dtype != np.float32 else None

    def element(rows: Any) -> Any:
        elements = (rows if end - start == rows.shape[1] else rows[:, start:end]).astype(dtype, copy=copy)
        if len(shape) != 1:
            elements = elements.reshape(-1, *shape)
        if offset is not None:
            elements += offset
        return elements if bounds is None else xp.clip(elements, *bounds)

    return element, end
