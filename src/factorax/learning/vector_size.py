"""The default of `n_envs` for vector environments: the size of the vector."""

from typing import Any, Protocol, runtime_checkable

from ..problems.registry import find_problem
from ..problems.vectors import OneOfMany
from ..spec import is_jax, opened
from .config import Config


@runtime_checkable
class Sized(Protocol):
    """A function that knows the size of what it returns, such as those of `fx.wrap`."""

    num_envs: int | None


def vector_size(problem: Any) -> int | None:
    """Return the number of sub-environments if a problem is a vector environment, otherwise None.

    Functions of this library declare it; others are called, and the result is closed again.
    """
    made_by: Any = find_problem(problem) if isinstance(problem, str) else problem
    if is_jax(made_by) or not callable(made_by):
        return None
    if isinstance(made_by, Sized):
        return made_by.num_envs
    with opened(made_by) as source:
        return source.num_envs if isinstance(source, OneOfMany) else None


def sized_config(settings: dict[str, Any], problem: Any) -> Config:
    """Return checked settings from a dictionary.

    Without `n_envs` they may fit only the `num_envs` of a vector environment; it is created for a moment only if they
    do not fit the default.
    """
    try:
        return Config.of(settings)
    except ValueError:
        asks = "n_envs" not in settings and not {"batch_size", "workers"}.isdisjoint(settings)
        n_envs = vector_size(problem) if asks else None
        if n_envs is None:
            raise
        return Config.of(settings | {"n_envs": n_envs})
