"""`n_envs` of problems that are vector environments: it is theirs, unless it is given."""

from typing import Any, Protocol, runtime_checkable

from ..problems.registry import find_problem
from ..problems.vectors import OneOfMany
from ..spec import is_jax, opened
from .config import Config


@runtime_checkable
class Sized(Protocol):
    """A function that knows what it makes, as those of `fx.wrap` do."""

    num_envs: int | None


def vector_size(problem: Any) -> int | None:
    """Return how many environments a problem makes at a time, if it is a vector environment; None for any other.

    Functions of the library say so themselves; others are called, and what they make is closed again.
    """
    made_by: Any = find_problem(problem) if isinstance(problem, str) else problem
    if is_jax(made_by) or not callable(made_by):
        return None
    if isinstance(made_by, Sized):
        return made_by.num_envs
    with opened(made_by) as source:
        return source.num_envs if isinstance(source, OneOfMany) else None


def sized_config(settings: dict[str, Any], problem: Any) -> Config:
    """Return the settings of this name, checked.

    Without `n_envs` they may fit the `num_envs` of a vector environment and no other number; only where they do not fit
    the default is it made for the moment, to ask it.
    """
    try:
        return Config.of(settings)
    except ValueError:
        asks = "n_envs" not in settings and not {"batch_size", "workers"}.isdisjoint(settings)
        n_envs = vector_size(problem) if asks else None
        if n_envs is None:
            raise
        return Config.of(settings | {"n_envs": n_envs})
