"""Which models can share compiled programs: those with problem, network and settings that are equal by value.

`value_key` describes an object by value, and functions by their code and the values they refer to. Some objects cannot
be described, such as those of a user's mutable class; a model with such a part has its own programs.
"""

import dataclasses
import enum
import functools
import types
from collections.abc import Hashable
from typing import Any

import gymnasium as gym
import jax
import numpy as np
from scipy import sparse

from .._checks import is_traced
from ..spec import Spec
from ..structure import InfluenceNetwork
from .config import Config, Hyper
from .validation import Schedule

_PLAIN = (type(None), bool, int, str, bytes, complex, enum.Enum, np.dtype, type(Ellipsis))
_AS_THEY_ARE = (type, types.ModuleType, types.BuiltinFunctionType, np.ufunc, type(jax.jit(lambda: None)))
"""Objects that are their own description, because their behaviour does not change."""
_LIBRARIES = ("factorax", "jax", "numpy", "scipy", "equinox", "optax", "gymnasium", "functools", "operator", "math")
_DEEPEST = 50


def value_key(x: Any) -> Hashable | None:
    """Return a hashable description of an object, equal for objects that are equal by value; None if not possible.

    >>> value_key(np.arange(3)) == value_key(np.arange(3))
    True
    >>> power = lambda n: lambda x: x**n
    >>> value_key(power(2)) == value_key(power(2)), value_key(power(2)) == value_key(power(3))
    (True, False)
    >>> value_key(iter("abc")) is None
    True
    """
    try:
        return _Describing().key(x)
    except _Unknown:
        return None


class _Unknown(Exception):
    """An object that cannot be described."""


class _Describing:
    """One description; circular references are described by where the object was first met."""

    def __init__(self) -> None:
        self.path: list[int] = []

    def key(self, x: Any, *, may_change: bool = False) -> Hashable:
        """Return the description. With `may_change`, mutable containers raise, because they might be modified."""
        if isinstance(x, float):
            return type(x), float(x).hex()
        if isinstance(x, _PLAIN):
            return type(x), x
        if isinstance(x, _AS_THEY_ARE):
            return x
        if id(x) in self.path:
            return "met", self.path.index(id(x))
        if len(self.path) > _DEEPEST:
            raise _Unknown
        self.path.append(id(x))
        try:
            return self._compound(x, may_change)
        finally:
            self.path.pop()

    def _compound(self, x: Any, may_change: bool) -> Hashable:
        kind = type(x)
        match x:
            case np.ndarray() | np.generic():
                if x.dtype.hasobject:
                    raise _Unknown
                return kind, x.shape, x.dtype.str, x.tobytes()
            case jax.Array():
                return self._jax_array(x)
            case InfluenceNetwork():  # its form follows from the matrix
                factors = None if x.factorisation is None else x.factorisation.group_of
                return kind, x, self.key(factors)
            case sparse.sparray() | sparse.spmatrix():
                csr: Any = sparse.csr_array(x)  # pyright: ignore
                return kind, csr.shape, *map(self.key, (csr.data, csr.indices, csr.indptr))
            case tuple():
                return kind, tuple(self.key(each, may_change=may_change) for each in x)
            case frozenset():
                return kind, frozenset(self.key(each) for each in x)
            case list() if not may_change:
                return kind, tuple(map(self.key, x))
            case dict() if not may_change:
                return kind, tuple((self.key(name), self.key(value)) for name, value in x.items())
            case types.FunctionType():
                return self._function(x)
            case types.MethodType():
                return kind, self.key(x.__func__), self.key(x.__self__)
            case functools.partial():
                return kind, self.key(x.func), self.key(x.args), self.key(x.keywords)
            case gym.Space():
                return self._space(x)
        if kind.__module__.partition(".")[0] == "factorax" and hasattr(x, "__dict__"):
            return self._own(x)
        if dataclasses.is_dataclass(x) and kind.__dataclass_params__.frozen:  # pyright: ignore
            fields = dataclasses.fields(x)
            return kind, tuple(self.key(getattr(x, field.name, None), may_change=True) for field in fields)
        raise _Unknown

    def _jax_array(self, x: jax.Array) -> Hashable:
        if is_traced(x):
            raise _Unknown
        if jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key):
            return str(x.dtype), self.key(np.asarray(jax.random.key_data(x)))
        return "jax", x.weak_type, self.key(np.asarray(x))

    def _own(self, x: Any) -> Hashable:
        """Return an object of this library by its attributes, except for cached ones, which follow from the others."""
        kind = type(x)
        names = sorted(name for name in vars(x) if not isinstance(_attribute(kind, name), functools.cached_property))
        return kind, tuple((name, self.key(vars(x)[name])) for name in names)

    def _space(self, space: gym.Space) -> Hashable:
        kind = type(space)
        match space:
            case gym.spaces.Box():
                parts: Any = space.low, space.high
            case gym.spaces.Discrete():
                parts = int(space.n), int(space.start)
            case gym.spaces.MultiDiscrete():
                parts = space.nvec, space.start
            case gym.spaces.MultiBinary():
                parts = ()
            case gym.spaces.Tuple() | gym.spaces.Dict():
                parts = space.spaces
            case _:
                raise _Unknown
        return kind, space.shape, self.key(space.dtype), self.key(parts)

    def _function(self, function: types.FunctionType) -> Hashable:
        """Return code, defaults and referenced values of a function; those of libraries do not change."""
        code = function.__code__
        try:
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:  # an empty closure cell
            raise _Unknown from None
        values: list[Any] = [*cells, function.__defaults__, *(function.__kwdefaults__ or {}).values()]
        if not _of_a_library(function):
            space = function.__globals__
            values += [space[name] for name in sorted(_names(code)) if name in space]
        return code, tuple(self.key(value, may_change=True) for value in values)


def _attribute(kind: type, name: str) -> Any:
    return next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)


def _of_a_library(function: types.FunctionType) -> bool:
    return (function.__module__ or "").partition(".")[0] in _LIBRARIES


def _names(code: types.CodeType) -> set[str]:
    """Return the global names that code and its inner functions may look up."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


_STEPPING = ("rollouts", "workers", "fragment_seconds", "ray_address", "worker_cpus", "seed", "total_timesteps")
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Config)}


def common_config(config: Config) -> Config:
    """Return settings for the same program, with defaults for everything that a program takes as an argument or
    ignores."""
    numbers = (name for name in Hyper._fields if not isinstance(getattr(config, name), Schedule | None))
    return dataclasses.replace(config, **{name: _DEFAULTS[name] for name in (*_STEPPING, *numbers)})


def common_spec(spec: Spec) -> Spec:
    """Return what a program uses of a problem: not its environment factory, unless the program steps it."""
    return spec if spec.is_jax else dataclasses.replace(spec, problem=None, local_is_own=False)
