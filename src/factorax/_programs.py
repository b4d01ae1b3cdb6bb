"""Compiled programs that are released with the objects that hold them.

JAX and Equinox keep what they trace and compile in caches of the process, most of it for ever. The program of an update
takes some 900 memory maps, of which Linux allows a process 65,530. Here a program belongs to an object, or to a cache
of bounded size.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The values of the last `size` keys that were asked for; others are let go."""

    def __init__(self, size: int):
        self.size = size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made if it is not there."""
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
            self._values.move_to_end(key)
            while len(self._values) > self.size:
                self._values.popitem(last=False)
            return self._values[key]

    def clear(self) -> None:
        """Let all values go."""
        with self._lock:
            self._values.clear()


class _Static:
    """What is not an array in a tree: a part of the structure of the tree, compared by value."""

    def __init__(self, tree: Any):
        self.tree = tree
        leaves, structure = jax.tree.flatten(tree)
        self.key = tuple(leaves), structure

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


jax.tree_util.register_pytree_node(_Static, lambda static: ((), static), lambda static, _: static)


def _split(tree: Any) -> tuple[Any, _Static]:
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return arrays, _Static(rest)


def _joined(parts: tuple[Any, _Static]) -> Any:
    return eqx.combine(parts[0], parts[1].tree)


class OwnJit:
    """A function, compiled for all shapes it is called with: `equinox.filter_jit`, released with this object.

    For that, the function and its arguments must not lead back to this object.
    """

    def __init__(self, function: Callable[..., Any]):
        def run(parts: tuple[Any, _Static]) -> Any:
            args, kwargs = _joined(parts)
            return _split(function(*args, **kwargs))

        self._run = jax.jit(run)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns."""
        return _joined(self._run(_split((args, kwargs))))

    def compile(self, *args: Any) -> "OwnCompiled":
        """Return the program for arguments like these."""
        return OwnCompiled(self._run.lower(_split((args, {}))).compile())


class OwnCompiled:
    """A compiled program for arguments of given shapes."""

    def __init__(self, compiled: Any):
        self.compiled = compiled

    def __call__(self, *args: Any) -> Any:
        """Return what the function returns."""
        return _joined(self.compiled(_split((args, {}))))


def compilation_settings() -> tuple[Any, ...]:
    """Return the settings of JAX that change what is compiled."""
    names = ("jax_enable_x64", "jax_disable_most_optimizations", "jax_default_matmul_precision", "jax_debug_nans",
             "jax_default_device", "jax_default_prng_impl", "jax_threefry_partitionable", "jax_numpy_dtype_promotion",
             "jax_numpy_rank_promotion", "jax_disable_jit")  # fmt: skip
    return tuple(getattr(jax.config, name, None) for name in names)


ENOUGH = 16
"""New programs after which `note_new_program` clears the caches of JAX."""
_noted = 0


def note_new_program() -> None:
    """Call before a program of new shapes is traced.

    JAX never forgets what it has traced of its own functions, some 50 MiB for an update of new shapes. After `ENOUGH`
    calls all of that is cleared; functions that are in use are compiled again when they are next called.
    """
    global _noted
    _noted += 1
    if _noted > ENOUGH:
        _noted = 1
        jax.clear_caches()
