"""Action spaces as one flat row of components, and rows as elements of the space. NumPy alone: workers load no JAX.

A component is an element of a Box or a MultiBinary, an entry of a MultiDiscrete, or a Discrete; Tuple and Dict string
their parts together. Actions are arrays ``(..., c)`` of floats, choices as their number from 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import gymnasium as gym
import numpy as np
from gymnasium import spaces

GAUSSIAN, SQUASHED, BERNOULLI, CATEGORICAL = "gaussian", "squashed", "bernoulli", "categorical"


@dataclass(frozen=True, eq=False)
class Components:
    """The components of a Gymnasium space."""

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
    def of(cls, space: gym.Space, *, squash: bool = False) -> Self:
        """The components of a space; with `squash`, bounded Boxes get a tanh-Gaussian instead of a clipped Gaussian.

        >>> Components.of(spaces.MultiDiscrete([2, 3])).kinds
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

    def with_covariance(self, factor_of: np.ndarray) -> Self:
        """The same, with a full covariance of the Gaussian components that are of one factor, ``(c,)``."""
        groups = [np.flatnonzero(self.gaussian & (factor_of == i)) for i in np.unique(factor_of)]
        groups = [group for group in groups if len(group) > 1]
        if not groups:
            return self
        blocks = np.full((len(groups), max(map(len, groups))), len(self))
        for row, group in zip(blocks, groups, strict=True):
            row[: len(group)] = group
        return replace(self, blocks=blocks)

    def plain(self) -> "Components":
        """The same without what a subclass knows of distributions, to send to a worker."""
        return Components(*(getattr(self, field.name) for field in fields(Components)))

    def __len__(self) -> int:
        return len(self.kinds)

    @cached_property
    def width(self) -> int:
        """How many parameters a component has at most."""
        return int(self.choices.max())

    @cached_property
    def of_kind(self) -> dict[str, np.ndarray]:
        """The components of every kind that occurs."""
        kinds = np.array(self.kinds)
        return {kind: np.flatnonzero(kinds == kind) for kind in dict.fromkeys(self.kinds)}

    @cached_property
    def gaussian(self) -> np.ndarray:
        """Which components are, before or without a tanh."""
        return np.array([kind in (GAUSSIAN, SQUASHED) for kind in self.kinds])

    @cached_property
    def squashed(self) -> np.ndarray:
        """Which components go through a tanh."""
        return np.array([kind == SQUASHED for kind in self.kinds])

    @cached_property
    def _bounded(self) -> bool:
        """Whether there is anything to keep within bounds: choices are what they are."""
        return bool(self.gaussian.any())

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Of every component, finite, ``(c,)``."""
        low = np.where(np.isfinite(self.low), self.low, np.float32(-1e30))
        return low, np.where(np.isfinite(self.high), self.high, np.float32(1e30))

    def within(self, action: Any, xp: Any) -> Any:
        """Actions ``(..., c)`` within their bounds."""
        if not self._bounded:
            return action
        low, high = self._bounds
        if SQUASHED in self.of_kind:
            action = xp.where(self.squashed, low + (xp.tanh(action) + 1) * (high - low) / 2, action)
        return xp.minimum(xp.maximum(action, low), high)

    @cached_property
    def _build(self) -> Callable[[np.ndarray], Any]:
        return _builder(self.space, 0)[0]

    def to_environments(self, actions: np.ndarray) -> Any:
        """What `to_environment` makes of every row of ``(B, c)``, all rows at once, and always new arrays."""
        return self._build(self.within(actions, np))


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
        elements = (rows if end - start == rows.shape[1] else rows[:, start:end]).astype(dtype, copy=False)
        if len(shape) != 1:
            elements = elements.reshape(-1, *shape)
        if offset is not None:
            elements += offset
        return elements if bounds is None else np.clip(elements, *bounds)

    return element, end
