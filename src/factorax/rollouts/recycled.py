"""Arrays that are handed out again once nobody refers to them."""

import sys

import numpy as np

_KEPT = 3
"""Number of arrays kept per name: those of the iteration that is learnt from, of the next one, and of a caller."""


def _references(arrays: list[np.ndarray], i: int) -> int:
    return sys.getrefcount(arrays[i])


_UNUSED = _references([np.empty(0)], 0)
"""Result of `_references` for an array that nobody else refers to; it differs between versions of Python."""


class RecycledArrays:
    """A source of arrays, by name, with arbitrary content.

    The system maps new memory page by page when it is first written, which takes longer than copying the data of a
    rollout. Views, and arrays of JAX or PyTorch that share the memory, refer to the array and therefore keep it.

    **Example**

    >>> arrays = RecycledArrays()
    >>> first = arrays.get("obs", (2, 3), np.float32)
    >>> arrays.get("obs", (2, 3), np.float32) is first
    False
    >>> view, address = first[0], first.ctypes.data
    >>> del first
    >>> arrays.get("obs", (2, 3), np.float32).ctypes.data == address
    False
    """

    def __init__(self) -> None:
        self._arrays: dict[str, list[np.ndarray]] = {}

    def get(self, name: str, shape: tuple[int, ...], dtype: np.dtype | type) -> np.ndarray:
        """Return an array to which nobody else refers."""
        kept = self._arrays.setdefault(name, [])
        for i in range(len(kept)):
            if _references(kept, i) == _UNUSED and kept[i].shape == shape and kept[i].dtype == dtype:
                return kept[i]
        kept.append(np.empty(shape, dtype))
        del kept[:-_KEPT]
        return kept[-1]
