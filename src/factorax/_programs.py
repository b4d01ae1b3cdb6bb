"""Compiled programs that are released together with the object that holds them.

JAX and Equinox cache what they trace and compile for the life of the process. The program of an update takes about
900 memory maps, and Linux allows a process 65,530. Here each program belongs to an object, or to a cache of bounded
size.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import equinox as eqx
import jax

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """A cache of the values of the `size` most recently used keys."""

    def __init__(self, size: int):
        self.size = size
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, created by `make` if it is not cached."""
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
            self._values.move_to_end(key)
            while len(self._values) > self.size:
                self._values.popitem(last=False)
            return self._values[key]

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()


class _Static:
    """The leaves of a tree that are not arrays: part of the tree's structure, compared by value."""

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
    arrays, rest = eqx.partition(tree, lambda x: eqx.is_array(x) or isinstance(x, jax.ShapeDtypeStruct))
    return arrays, _Static(rest)


def _joined(parts: tuple[Any, _Static]) -> Any:
    return eqx.combine(parts[0], parts[1].tree)


class OwnJit:
    """A function that is compiled for each shape of its arguments, like `equinox.filter_jit`, but released with this
    object.

    For that, the function and its arguments must not refer to this object.
    """

    def __init__(self, function: Callable[..., Any]):
        def run(parts: tuple[Any, _Static]) -> Any:
            args, kwargs = _joined(parts)
            return _split(function(*args, **kwargs))

        self._run = jax.jit(run)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return _joined(self._run(_split((args, kwargs))))

    def shapes(self, *args: Any) -> Any:
        """Return what the function returns, with shapes in place of arrays."""
        return _joined(jax.eval_shape(self._run, _split((args, {}))))

    def lower(self, *args: Any) -> Any:
        """Return the program for arguments like these, arrays or shapes, before it is compiled."""
        return self._run.lower(_split((args, {})))

    def compile(self, *args: Any) -> "OwnCompiled":
        """Return the program for arguments like these, arrays or shapes."""
        return OwnCompiled(self.lower(*args).compile())


class OwnCompiled:
    """A compiled program for arguments of fixed shapes."""

    def __init__(self, compiled: Any):
        self.compiled = compiled

    def __call__(self, *args: Any) -> Any:
        """Run the program."""
        return _joined(self.compiled(_split((args, {}))))


def compilation_settings() -> tuple[Any, ...]:
    """Return the JAX settings that change the compiled program."""
    names = ("jax_enable_x64", "jax_disable_most_optimizations", "jax_default_matmul_precision", "jax_debug_nans",
             "jax_default_device", "jax_default_prng_impl", "jax_threefry_partitionable", "jax_numpy_dtype_promotion",
             "jax_numpy_rank_promotion", "jax_disable_jit")  # fmt: skip
    return tuple(getattr(jax.config, name, None) for name in names)


ENOUGH = 16
"""Number of new programs after which `note_new_program` clears the caches of JAX."""
_noted = 0


def note_new_program() -> None:
    """Count a program of new shapes; call it before the program is traced.

    JAX keeps the traces of its own functions for ever, about 50 MiB for an update of new shapes. After `ENOUGH` calls
    they are cleared; functions in use are compiled again at their next call.
    """
    global _noted
    _noted += 1
    if _noted > ENOUGH:
        _noted = 1
        jax.clear_caches()
