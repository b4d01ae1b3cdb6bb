"""Partition maps and factorisations: which components of an action go together (Defs. 2.2, 3.3 and 4.2 of the paper).

Both also work for actions that are no vectors, such as tuples with entries of any type.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .._checks import Range, listed, real_array
from .._text import counted, shown, some
from .labels import check_labels, positions

MAX_INDEX = 2**31
"""Limit of whole numbers, so that NumPy and JAX can index with 32 bits."""


class PartitionMap:
    """A projection σ : 𝒳₁×…×𝒳ₙ → 𝒳_J that keeps the components J (Def. 2.2 of the paper).

    The action may be an array (NumPy, JAX or PyTorch; components along the last axis, after any batch axes), or a tuple
    or list with entries of any type, such as ℝ×ℕ.

    **Arguments**

    - `indices`: the components J that σ keeps, counted from 0, in the desired order.
    - `size`: the number n of components of the full action.

    >>> sigma = PartitionMap([0, 2], 3)
    >>> action = (0.5, "left", 7)
    >>> sigma(action), sigma.complement(action)
    ((0.5, 7), ('left',))
    >>> sigma.merge((0.5, 7), ("left",))  # the unique inverse
    (0.5, 'left', 7)
    >>> ~sigma
    PartitionMap([1], 3)
    """

    def __init__(self, indices: Iterable[int], size: int):
        self.size = as_index(size, "size", least=1)
        self.indices = tuple(as_index(i, "indices") for i in listed("indices", indices, "whole numbers from 0"))
        outside = [i for i in self.indices if not 0 <= i < self.size]
        if outside:
            raise ValueError(f"indices: got {outside}, want numbers from 0 to {self.size - 1} (size={self.size})")
        if len(set(self.indices)) < len(self.indices):
            raise ValueError(f"indices: got {list(self.indices)}, want each component at most once")

    def __call__(self, action: Any) -> Any:
        """Return σ(a), the selected components."""
        return self._take(action, self.indices)

    def complement(self, action: Any) -> Any:
        """Return σ̄(a), the remaining components, in their original order."""
        return self._take(action, (~self).indices)

    def merge(self, part: Any, rest: Any) -> Any:
        """Return the unique inverse: the action a with σ(a) = `part` and σ̄(a) = `rest`."""
        return merge_parts([part, rest], [self.indices, (~self).indices], "part, rest")

    def _take(self, action: Any, indices: tuple[int, ...]) -> Any:
        if _length(action, "action") != self.size:
            got = getattr(action, "shape", None) or shown(action)
            raise ValueError(f"action: got {got}, want {self.size} components for {self!r}")
        if is_array(action):
            return _index(action, indices)
        return _kind(action)(action[i] for i in indices)

    def __invert__(self) -> "PartitionMap":
        return PartitionMap(sorted(set(range(self.size)) - set(self.indices)), self.size)

    def __len__(self) -> int:
        return len(self.indices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionMap) and (self.indices, self.size) == (other.indices, other.size)

    def __hash__(self) -> int:
        return hash((self.indices, self.size))

    def __repr__(self) -> str:
        return f"PartitionMap({list(self.indices)}, {self.size})"


class Factorisation:
    """An n-fold policy factorisation Σ: disjoint groups of actions that cover all of them.

    π(a|s) = ∏ᵢ πᵢ(σᵢ(a)|s), one factor πᵢ for each group (eq. 5 of the paper).

    **Arguments**

    - `groups`: lists of action indices, counted from 0; each action is in exactly one list.
    - `n_actions`: the number of actions.

    >>> sigma = Factorisation([[0, 1], [2]], 3)
    >>> len(sigma), sigma.groups
    (2, ((0, 1), (2,)))
    >>> sigma.split(("buy", "sell", 9.5))
    (('buy', 'sell'), (9.5,))
    >>> sigma.merge(sigma.split(("buy", "sell", 9.5)))
    ('buy', 'sell', 9.5)
    """

    def __init__(self, groups: Iterable[Iterable[int]], n_actions: int):
        n_actions = as_index(n_actions, "n_actions", least=1)
        numbered = [[as_index(i, "groups") for i in group] for group in _lists(groups, "numbers")]
        if any(not group for group in numbered):
            raise ValueError("groups: got an empty group; want at least one action per group")
        group_of = np.full(n_actions, -1, dtype=np.int64)
        for g, group in enumerate(numbered):
            for i in group:
                if not 0 <= i < n_actions:
                    raise ValueError(f"groups: got action {i}, want numbers from 0 to {n_actions - 1}")
                if group_of[i] >= 0:
                    raise ValueError(f"groups: got action {i} twice, want each action in exactly one group")
                group_of[i] = g
        missing = np.flatnonzero(group_of < 0)
        if missing.size:
            raise ValueError(
                f"groups: action {some([str(i) for i in missing])} is missing; want each action in a group, "
                "which may have one action"
            )
        self.group_of = group_of
        self._size = len(numbered)
        self.__dict__["groups"] = tuple(map(tuple, numbered))  # in the caller's order, which `group_of` does not have
        group_of.setflags(write=False)

    @classmethod
    def from_group_of(cls, group_of: np.ndarray) -> "Factorisation":
        """Create a factorisation from the group number of every action, shape ``(n_actions,)``.

        All numbers from 0 to the number of groups minus 1 must occur.
        """
        numbers = real_array("group_of", group_of)
        if numbers.ndim != 1 or not numbers.size or not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(f"group_of: got shape {numbers.shape} of {numbers.dtype}, want (n_actions,) whole numbers")
        size = int(numbers.max()) + 1
        if numbers.min() < 0 or np.bincount(numbers, minlength=size).min() == 0:
            raise ValueError(
                f"group_of: got {shown(group_of)}, want every number from 0 to {size - 1} at least once, and none "
                "below 0"
            )
        # Without the loops of __init__, which take seconds for a million actions.
        self = cls.__new__(cls)
        self.group_of = numbers.astype(np.int64)
        # The hash and equality depend on it.
        self.group_of.setflags(write=False)
        self._size = size
        return self

    @classmethod
    def from_labels(cls, groups: Iterable[Iterable[str]], actions: Sequence[str]) -> "Factorisation":
        """Create a factorisation from groups of action labels.

        >>> Factorisation.from_labels([["heat", "vent"], ["light"]], ["heat", "light", "vent"])
        Factorisation([[0, 2], [1]], 3)
        """
        actions = check_labels(actions, None, "actions")
        named = _lists(groups, "labels")
        if any(not isinstance(name, str) for group in named for name in group):
            raise TypeError("groups: got numbers, want action labels; for numbers use Factorisation(groups, n_actions)")
        numbered = [positions(group, actions, "groups") for group in named]
        missing = sorted(set(actions) - {name for group in named for name in group})
        if missing:
            raise ValueError(
                f"groups: action {some(missing)} is missing; want each action in a group, which may have one action"
            )
        return cls(numbered, len(actions))

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return len(self.group_of)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The action indices of each factor."""
        # On request only: most uses need no more than `group_of`.
        order = np.argsort(self.group_of, kind="stable")
        bounds = np.cumsum(np.bincount(self.group_of))[:-1]
        return tuple(tuple(part.tolist()) for part in np.split(order, bounds))

    @cached_property
    def partition_maps(self) -> tuple[PartitionMap, ...]:
        """The partition map σᵢ of each factor."""
        return tuple(PartitionMap(group, self.n_actions) for group in self.groups)

    def split(self, action: Any) -> tuple[Any, ...]:
        """Return (σ₁(a), …, σₙ(a)): the part of the action that each factor draws."""
        return tuple(sigma(action) for sigma in self.partition_maps)

    def merge(self, parts: Sequence[Any]) -> Any:
        """Return the action with these parts: ``merge(split(a)) == a``."""
        parts = listed("parts", parts, f"{len(self)} parts, one for each factor")
        if len(parts) != len(self):
            raise ValueError(f"parts: got {len(parts)}, want {len(self)}, one for each factor")
        return merge_parts(parts, self.groups)

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factorisation) and self.groups == other.groups

    def __hash__(self) -> int:
        return hash(self.groups)

    def __repr__(self) -> str:
        if self.n_actions > 20:
            return f"Factorisation({counted(len(self), 'factor')} of {self.n_actions} actions)"
        return f"Factorisation({[list(g) for g in self.groups]}, {self.n_actions})"


def _lists(groups: Any, of: str) -> list[list[Any]]:
    """Return the groups as lists; raise TypeError for a string or for anything that is not a list of lists."""
    want = f"lists of {of}, as in [[…], […]]"
    return [listed("groups", group, want) for group in listed("groups", groups, want)]


def as_index(value: Any, argument: str, least: int | None = None) -> int:
    """Return a whole number as an ``int``; raise TypeError for booleans and floats."""
    if type(value) is not int:  # fast path: there may be millions, and most are plain ints
        if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__") or np.ndim(value):
            raise TypeError(f"{argument}: got {shown(value)}, want whole numbers counted from 0")
        value = value.__index__()
    if not (-MAX_INDEX if least is None else least) <= value < MAX_INDEX:
        raise ValueError(f"{argument}: got {value}, want a whole number {Range(least or 0)}, and below 2³¹")
    return value  # pyright: ignore[reportAttributeAccessIssue]


def merge_parts(parts: Sequence[Any], indices: Sequence[Sequence[int]], argument: str = "parts") -> Any:
    """Return the action in which components `indices[p]` are `parts[p]`: the inverse of splitting it."""
    got, want = [_length(part, argument) for part in parts], [len(i) for i in indices]
    if got != want:
        raise ValueError(f"{argument}: got {got} components, want {want}")
    inverse = np.argsort([i for group in indices for i in group])
    arrays = [is_array(part) for part in parts]
    if all(arrays):
        xp = namespace(*parts)
        return _index(xp.concat(list(parts), axis=-1), inverse)
    if any(arrays) or len({_kind(part) for part in parts}) > 1:
        kinds = sorted({type(part).__name__ for part in parts})
        raise TypeError(f"{argument}: got a mixture of {', '.join(kinds)}; want only arrays, only tuples or only lists")
    joined = [component for part in parts for component in part]
    return _kind(parts[0])(joined[i] for i in inverse)


def _kind(action: Any) -> type[list] | type[tuple]:
    # a named tuple becomes a tuple: its constructor has other arguments
    return list if isinstance(action, list) else tuple


def is_array(value: Any) -> bool:
    """Return whether a value is an array of NumPy or of another library that follows the array API standard."""
    if isinstance(value, np.ndarray | np.generic):
        return True
    if not hasattr(value, "shape"):
        return False
    from array_api_compat import is_array_api_obj  # not at the top: this package needs only NumPy and SciPy

    return is_array_api_obj(value)


def namespace(*arrays: Any) -> Any:
    """Return the functions of the array library of these arrays, such as `numpy` or `jax.numpy`."""
    # NumPy without array_api_compat, which this package does not need.
    if all(isinstance(array, np.ndarray | np.generic) for array in arrays):
        return np
    from array_api_compat import array_namespace

    return array_namespace(*arrays)


def _index(array: Any, indices: Sequence[int] | np.ndarray) -> Any:
    # The type is explicit, because NumPy makes floats of an empty list.
    xp = namespace(array)
    return array[..., xp.asarray(np.asarray(indices, dtype=np.int64))]


def _length(action: Any, argument: str) -> int:
    if isinstance(action, tuple | list):
        return len(action)
    if is_array(action):
        shape: tuple[int, ...] = tuple(getattr(action, "shape"))  # noqa: B009
        if not shape:
            raise ValueError(f"{argument}: got {shown(action)}, want an array with its components along the last axis")
        return shape[-1]
    raise TypeError(f"{argument}: got {shown(action)}, want an array, a tuple or a list")
