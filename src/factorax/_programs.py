"""Compiled programs that are released together with the object that holds them.

JAX and Equinox cache what they trace and compile for the life of the process. The program of an update takes about
900 memory maps, and Linux allows a process 65,530. Here each program belongs to an object.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import equinox as eqx
import jax


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


OPTIMISATION_LEVEL: Any = {"xla_backend_optimization_level": 2}
"""Options for programs on a CPU. With level 3, XLA's default, LLVM takes 1.1 to 1.5 times as long to compile an update,
and updates take as long or up to 1.2 times as long (`docs/explanation/profile.md`)."""


def compiler_options() -> dict[str, Any] | None:
    """Return the options for XLA; None for its own, on a GPU and where the user has chosen a level."""
    chosen = next(iter(OPTIMISATION_LEVEL)) in os.environ.get("XLA_FLAGS", "")
    if chosen or _most_optimisations_disabled() or jax.default_backend() != "cpu":
        return None
    return OPTIMISATION_LEVEL if _accepts_level() else None


def _most_optimisations_disabled() -> bool:
    return bool(jax.config.read("jax_disable_most_optimizations"))  # not an attribute, unlike most settings


@cache
def _accepts_level() -> bool:
    """Return whether this version of XLA has the option: options of XLA come and go."""
    try:
        jax.jit(lambda x: x).lower(jax.ShapeDtypeStruct((), "float32")).compile(compiler_options=OPTIMISATION_LEVEL)
    except Exception:  # of different types in different versions
        return False
    return True


UNTUNED: Any = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
"""Options for programs on a GPU that compile sooner: XLA does not time variants of each matrix product."""


def compile_untuned(lowered: Any) -> Any:
    """Compile a program; for a GPU without timing variants of its matrix products, unless the user has chosen to.

    For programs in which products take little of the time. XLA compiles and times dozens of variants of each product,
    which takes seconds and delays other programs that are compiled at the same time.
    """
    chosen = any(option in os.environ.get("XLA_FLAGS", "") for option in UNTUNED)
    if chosen or jax.default_backend() != "gpu":
        return lowered.compile()
    try:
        return lowered.compile(compiler_options=UNTUNED)
    except Exception:  # this version of XLA may not have the options, and raises what it raises below
        return lowered.compile()


class OwnJit:
    """A function that is compiled for each shape of its arguments, like `equinox.filter_jit`, but released with this
    object.

    For that, the function and its arguments must not refer to this object.
    """

    def __init__(self, function: Callable[..., Any]):
        def run(parts: tuple[Any, _Static]) -> Any:
            args, kwargs = _joined(parts)
            return _split(function(*args, **kwargs))

        self._run = jax.jit(run, compiler_options=compiler_options())

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
    names = ("jax_enable_x64", "jax_default_matmul_precision", "jax_debug_nans", "jax_default_device",
             "jax_default_prng_impl", "jax_threefry_partitionable", "jax_numpy_dtype_promotion",
             "jax_numpy_rank_promotion", "jax_disable_jit")  # fmt: skip
    return _most_optimisations_disabled(), *(getattr(jax.config, name, None) for name in names)
