"""The families of problems of the library, and the parsing of their names, which plug-ins use as well.

A family is a function from the text after the colon, such as ``"16,delay=8"`` in ``chain:16,delay=8``, to a `Problem`
or to a function that returns a Gymnasium environment. `factorax.plugins` registers families by their prefix.
"""

import math
import os
import re
from collections.abc import Callable
from typing import Any

from . import toy_problems
from .problem import Problem

MAX_FACTORS = 4096
MAX_STEPS = 100_000
_DOWNLOADING = ("MNISTBandit-bsuite", "Sokoban-v0")
"""Environments of other packages that download data when they are created."""


def contextual_bandit(text: str) -> Problem:
    """Return the problem named ``contextual-bandit:8``."""
    check_size("contextual-bandit", text, factors=MAX_FACTORS)
    return jax_problem(toy_problems.contextual_bandit, "contextual-bandit", text)


def chain(text: str) -> Problem:
    """Return the problem named ``chain:16,delay=8``."""
    check_size("chain", text, factors=MAX_FACTORS, delay=MAX_STEPS, horizon=MAX_STEPS)
    return jax_problem(toy_problems.chain, "chain", text)


def queues(text: str) -> Problem:
    """Return the problem named ``queues:4x4``."""
    check_size("queues", text, factors=MAX_FACTORS, hops=MAX_FACTORS, horizon=MAX_STEPS)
    return jax_problem(toy_problems.queues, "queues", text)


def files_of_package(text: str) -> bool:
    """Return whether an environment of another package reads or downloads files that its name decides."""
    name, *settings = text.split(",")
    values = [setting.partition("=")[2] for setting in settings]
    # A part that is the name of an existing file might be read as one.
    plain = all(re.fullmatch(r"[\w.|+-]*", part) and not os.path.exists(part) for part in (name, *values) if part)
    return not plain or name in _DOWNLOADING


def files_of_rddl(text: str) -> bool:
    """Return whether an RDDL model is read from files rather than from rddlrepository."""
    parts = text.split("/")
    return len(parts) > 2 or any(not re.fullmatch(r"[\w-]*", part) or os.path.exists(part) for part in parts)


def check_size(prefix: str, text: str, *, factors: int | None = None, **most: int) -> None:
    """Raise ValueError if a name asks for more than any problem needs, before memory is allocated.

    Names may come from untrusted files. The functions that create problems have no such limits.
    """
    size, *pairs = text.split(",")
    # Before the problem is created: a name in a file of somebody else could ask for any amount of memory.
    if factors is not None and math.prod(parse_size(size, prefix, text)) > factors:
        raise ValueError(
            f"problem: got {name_of(prefix, text)!r:.80}, want at most {factors:,} actions for a problem by name"
        )
    settings = parse_settings([pair for pair in pairs if "=" in pair])
    for name, largest in most.items():
        value = settings.get(name, 0)
        if isinstance(value, int | float) and not value <= largest:
            raise ValueError(
                f"problem: got {name}={value} in {name_of(prefix, text)!r:.80}, want at most {largest:,} for a problem "
                "by name"
            )


def jax_problem(make: Callable[..., Problem], prefix: str, text: str) -> Problem:
    """Return ``make(*size, **settings)`` with the size and the settings of a name such as ``chain:16,delay=8``."""
    size, *pairs = text.split(",")
    try:
        return make(*parse_size(size, prefix, text), **parse_settings(pairs))
    except TypeError as error:
        raise ValueError(f"problem: got {name_of(prefix, text)!r}, want only settings that exist ({error})") from error
    except ValueError as error:
        # Already says which part of the name is wrong.
        if str(error).startswith("problem: "):
            raise
        raise ValueError(f"problem: got {name_of(prefix, text)!r}, which cannot be created: {error}") from error


def parse_size(size: str, prefix: str, text: str) -> tuple[int, ...]:
    """Return the numbers in a size.

    >>> parse_size("4x4", "queues", "4x4")
    (4, 4)
    """
    try:
        numbers = tuple(int(n) for n in size.split("x")) if size else ()
    except ValueError:
        raise ValueError(
            f"problem: got the size {size!r} in {name_of(prefix, text)!r}, want whole numbers, as in {prefix}:4"
        ) from None
    if min(numbers, default=1) < 1:
        raise ValueError(f"problem: got {name_of(prefix, text)!r}, want a size of at least 1")
    return numbers


def name_of(prefix: str, text: str) -> str:
    """Return the name of a problem.

    >>> name_of("chain", "16"), name_of("chain", "")
    ('chain:16', 'chain')
    """
    return f"{prefix}:{text}" if text else prefix


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Return the keyword arguments given by ``name=value`` pairs.

    >>> parse_settings(["delay=16", "norm=fixed", "lagged=true"])
    {'delay': 16, 'norm': 'fixed', 'lagged': True}
    """
    settings = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"problem: got the setting {pair!r}, want name=value")
        settings[key] = parse_value(text)
    return settings


def parse_value(text: str) -> int | float | bool | str:
    """Return the number or boolean that a text represents, otherwise the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
