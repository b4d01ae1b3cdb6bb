"""Green phases of a light, and the yellow between them."""

from collections.abc import Iterable
from functools import cache


def green_phases(states: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct states in which cars may go and no light is yellow, in order.

    >>> green_phases(["GGrr", "yyrr", "rrGg", "rryy", "GGrr", "rrrr"])
    ('GGrr', 'rrGg')
    """
    return tuple(dict.fromkeys(state for state in states if is_green(state)))


def is_green(state: str) -> bool:
    """Return whether some cars may go, and no light is yellow or red with yellow.

    >>> is_green("GGrr"), is_green("yyGG"), is_green("rrrr"), is_green("sssr")
    (True, False, False, False)
    """
    letters = set(state)
    return bool(letters & {"G", "g"}) and not letters & {"y", "Y", "u"}


@cache
def yellow_between(before: str, after: str) -> str:
    """Return the state between two green phases: yellow where green ends, green where it stays, otherwise red.

    >>> yellow_between("GGrr", "rGrG")
    'yGrr'
    """
    return "".join(
        a if a in "Gg" and b in "Gg" else "y" if a in "Gg" else "s" if a == "s" and b == "s" else "r"
        for a, b in zip(before, after, strict=True)
    )
