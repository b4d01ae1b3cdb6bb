"""Partition maps: selection of action components, also for action spaces that are not vector spaces."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._checks import Range, listed
from .._text import shown

MOST = 2**31


def as_index(value: Any, argument: str, least: int | None = None) -> int:
    """Return a whole number as an ``int``; raise TypeError for booleans and floats."""
    if type(value) is not int:  # fast path: there may be millions, and most are plain ints
        if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__") or np.ndim(value):
            raise TypeError(f"{argument}: got {shown(value)}, want whole numbers counted from 0")
        value = value.__index__()
    if not (-MOST if least is None else least) <= value < MOST:
        raise ValueError(f"{argument}: got {value}, want a whole number {Range(least or 0)}, and below 2³¹")
    return value  # pyright: ignore[reportAttributeAccessIssue]


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
    if all(isinstance(array, np.ndarray | np.generic) for array in arrays):
        return np
    from array_api_compat import array_namespace

    return array_namespace(*arrays)


def _index(array: Any, indices: Sequence[int] | np.ndarray) -> Any:
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
