"""Conversion of Gymnasium observation spaces to flat rows of numbers, and of rows to inputs of networks.

Rollouts, buffers and checkpoints hold rows ``(..., d)``: the numbers of a Box or MultiBinary, one number for a Discrete
and one for each entry of a MultiDiscrete; the parts of a Dict or Tuple are concatenated. Networks receive one of

- `encoded`: a vector in which choices are one-hot; not available for images, which would lose their shape;
- `structured`: the structure of the space, with arrays of the shapes of its parts.

NumPy only: rollout workers do not import JAX.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from ._checks import real_array

IMAGE_FIX = (
    "use architecture='conv' or your own module, which receive its rows and columns, or wrap the environment in "
    "gymnasium.wrappers.FlattenObservation if rows and columns have no meaning"
)


def is_image_like(shape: tuple[int, ...], dtype: Any) -> bool:
    """Return whether an array is treated as an image, or as a stack of images: with three axes or more, or two of
    bytes."""
    return len(shape) >= 3 or (len(shape) == 2 and dtype == np.uint8)


@dataclass(frozen=True)
class Part:
    """A Box, MultiBinary, Discrete or MultiDiscrete within an observation space."""

    where: str
    """Path of the part, such as ``['camera']``; empty if it is the whole space."""
    shape: tuple[int, ...]
    start: int
    """Index of its first column in a row."""
    choices: tuple[int, ...] = ()
    """The number of choices of each of its numbers, if they are choices."""
    first: tuple[int, ...] = ()
    """The smallest choice."""
    is_image: bool = False
    bytes: bool = False
    """Whether its numbers are bytes from 0 to 255, which networks receive scaled to 0 to 1."""
    is_measured: bool = True
    """Whether its numbers are quantities, which may be normalised, rather than choices, flags or bytes."""

    @property
    def size(self) -> int:
        """Number of columns in a row."""
        return math.prod(self.shape)

    @property
    def encoded_size(self) -> int:
        """Number of entries in the encoded vector."""
        return sum(self.choices) if self.choices else self.size

    def view(self, rows: Any, xp: Any) -> Any:
        """Return the network input for rows ``(..., d)``: ``(..., *shape)``, or one-hot choices ``(..., k)``."""
        columns = rows[..., self.start : self.start + self.size]
        if self.choices:  # invalid choices give zeros
            hot = [
                columns[..., i : i + 1] == xp.arange(first, first + n, dtype=np.float32)
                for i, (first, n) in enumerate(zip(self.first, self.choices, strict=True))
            ]
            return xp.concatenate(hot, axis=-1).astype(np.float32)
        if self.bytes:
            columns = columns / 255.0
        return columns.reshape(*rows.shape[:-1], *self.shape)


Tree = int | tuple[Any, ...]
"""The index of a part; ``("tuple", tree, …)``; or ``("dict", (name, tree), …)``."""


@dataclass(frozen=True)
class ObservationSpace:
    """The layout of an observation space in rows. Two are equal if they have the same layout.

    >>> space = ObservationSpace.of(spaces.Dict(speed=spaces.Box(-1.0, 1.0, (2,)), gear=spaces.Discrete(3)))
    >>> row = space.row({"speed": [0.5, 1.0], "gear": 2})
    >>> row.tolist()
    [0.5, 1.0, 2.0]
    >>> space.encoded(row, np).tolist()
    [0.5, 1.0, 0.0, 0.0, 1.0]
    >>> space.structured(row, np)["speed"].tolist()
    [0.5, 1.0]
    """

    parts: tuple[Part, ...]
    tree: Tree
    flags: tuple[int, int] = (0, 0)
    """First and last column (exclusive) of numbers that are flags rather than quantities, whatever their space."""

    @classmethod
    def of(cls, space: gym.Space) -> "ObservationSpace":
        """Create the layout of a space; raise TypeError if its observations have no fixed size."""
        parts: list[Part] = []

        def add(space: gym.Space, where: str) -> Tree:
            start = sum(part.size for part in parts)
            match space:
                case spaces.Dict():
                    return ("dict", *((name, add(each, f"{where}[{name!r}]")) for name, each in space.spaces.items()))
                case spaces.Tuple():
                    return ("tuple", *(add(each, f"{where}[{i}]") for i, each in enumerate(space.spaces)))
                case spaces.Box():
                    bytes_ = space.dtype == np.uint8
                    is_image = is_image_like(space.shape, space.dtype)
                    part = Part(where, space.shape, start, is_image=is_image, bytes=bytes_, is_measured=not bytes_)
                case spaces.MultiBinary():
                    part = Part(where, tuple(space.shape or ()), start, is_measured=False)
                case spaces.Discrete() | spaces.MultiDiscrete():
                    is_one = isinstance(space, spaces.Discrete)
                    choices = tuple(map(int, np.ravel(space.n if is_one else space.nvec)))
                    # a single choice carries no information, and its one-hot entry would be a second bias
                    choices = () if is_one and choices == (1,) else choices
                    first = tuple(map(int, np.ravel(space.start))) if choices else ()
                    part = Part(where, tuple(space.shape or ()), start, choices, first, is_measured=False)
                case _:
                    raise TypeError(
                        f"observation space{where}: got {space!r}, want a Box, Discrete, MultiDiscrete, MultiBinary, "
                        "or a Dict or Tuple of these; convert it with a gymnasium.ObservationWrapper"
                    )
            parts.append(part)
            return len(parts) - 1

        tree = add(space, "")
        if not sum(part.size for part in parts):
            raise ValueError(f"observation space: got {space!r}, which has no numbers; want at least one")
        return cls(tuple(parts), tree)

    @cached_property
    def size(self) -> int:
        """Number of columns d of a row."""
        return sum(part.size for part in self.parts)

    @property
    def is_compound(self) -> bool:
        """Whether an observation is a dict or a tuple rather than an array or a number."""
        return not isinstance(self.tree, int)

    @cached_property
    def is_plain(self) -> bool:
        """Whether an observation is an array of numbers that networks receive unchanged."""
        part = self.parts[0]
        return self.tree == 0 and not (part.choices or part.is_image or part.bytes)

    @cached_property
    def images(self) -> tuple[Part, ...]:
        """The parts that are images, with rows and columns."""
        return tuple(part for part in self.parts if part.is_image)

    @cached_property
    def measured(self) -> np.ndarray | None:
        """Which columns are quantities, booleans ``(d,)``; None if all are."""
        mask = np.concatenate([np.full(part.size, part.is_measured) for part in self.parts])
        mask[slice(*self.flags)] = False
        return None if mask.all() else mask

    @cached_property
    def encoded_size(self) -> int:
        """Number of entries of the vector that `encoded` returns."""
        self.check_no_images()
        return sum(part.encoded_size for part in self.parts)

    def check_no_images(self) -> None:
        """Raise TypeError if a part is an image."""
        for part in self.images:
            raise TypeError(
                f"observation space{part.where}: got an image of shape {part.shape}, want vectors, the input of a "
                f"multilayer perceptron; {IMAGE_FIX}"
            )

    def row(self, element: Any, xp: Any = np) -> Any:
        """Return an element of the space as a row ``(d,)``; raise ValueError if its parts or shapes do not fit."""
        columns = []
        for part, value in self.values(element):
            array = xp.asarray(value)
            if math.prod(array.shape) != part.size:
                raise ValueError(
                    f"observation{part.where}: got shape {array.shape}, want {part.shape}, the shape in its "
                    "observation space"
                )
            columns.append(array.reshape(-1).astype(np.float32))
        return xp.concatenate(columns)

    def batch(self, elements: Any) -> tuple[np.ndarray, bool]:
        """Return one element, or a batch with an extra first axis in each part, as rows ``(B, d)``.

        The second result is true if it was one element.
        """
        columns, is_one = [], True
        for part, value in self.values(elements):
            array = real_array(f"observation{part.where}", value)
            is_one = array.shape == part.shape
            if not is_one and array.shape[1:] != part.shape:
                raise ValueError(
                    f"observation{part.where}: got shape {array.shape}, want {part.shape}, or that with a batch axis "
                    "in front"
                )
            columns.append(array.reshape(-1, part.size).astype(np.float32))
        if len({len(column) for column in columns}) > 1:
            sizes = ", ".join(str(len(column)) for column in columns)
            raise ValueError(f"observation: got batch sizes {sizes}, want the same size in each part")
        return np.concatenate(columns, axis=1), is_one

    def values(self, element: Any) -> list[tuple[Part, Any]]:
        """Return the parts of the space, each with its value in the element."""
        pairs: list[tuple[Part, Any]] = []

        def add(tree: Tree, value: Any, where: str) -> None:
            if isinstance(tree, int):
                pairs.append((self.parts[tree], value))
            elif tree[0] == "dict":
                names = [name for name, _ in tree[1:]]
                if not isinstance(value, Mapping) or value.keys() != set(names):
                    got = f"the entries {', '.join(map(str, value))}" if isinstance(value, Mapping) else repr(value)
                    raise ValueError(f"observation{where}: got {got:.100}, want a dict with {', '.join(names)}")
                for name, below in tree[1:]:
                    add(below, value[name], f"{where}[{name!r}]")
            else:
                if not isinstance(value, tuple | list) or len(value) != len(tree) - 1:
                    raise ValueError(f"observation{where}: got {value!r:.100}, want a tuple of {len(tree) - 1}")
                for i, below in enumerate(tree[1:]):
                    add(below, value[i], f"{where}[{i}]")

        add(self.tree, element, "")
        return pairs

    def encoded(self, rows: Any, xp: Any) -> Any:
        """Return rows ``(..., d)`` as vectors ``(..., e)``: choices one-hot, bytes scaled to 0 to 1, others
        unchanged."""
        if self.is_plain:
            return rows
        self.check_no_images()
        views = [part.view(rows, xp).reshape(*rows.shape[:-1], part.encoded_size) for part in self.parts]
        return views[0] if len(views) == 1 else xp.concatenate(views, axis=-1)

    def structured(self, rows: Any, xp: Any) -> Any:
        """Return rows ``(..., d)`` in the structure of the space: an array, or dicts and tuples of arrays."""

        def build(tree: Tree) -> Any:
            if isinstance(tree, int):
                return self.parts[tree].view(rows, xp)
            if tree[0] == "dict":
                return {name: build(below) for name, below in tree[1:]}
            return tuple(build(below) for below in tree[1:])

        return build(self.tree)
