"""The families of problems `traffic`, `sumo` and `resco`: functions from the text of a name to a problem."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from factorax.problems.families import MAX_STEPS, check_size, jax_problem, name_of, parse_settings, parse_size
from factorax.problems.problem import Problem


def traffic(text: str) -> Problem:
    """Return the problem named ``traffic:3x3,norm=fixed``: traffic lights in the lane simulator, with the settings of
    `factorax_traffic.lanes`."""
    from . import lanes

    check_size("traffic", text, slots=MAX_STEPS, horizon=MAX_STEPS)
    return jax_problem(lanes, "traffic", text)


def sumo(text: str) -> Callable[[], Any]:
    """Return a factory of the environment named ``sumo:3x3`` or ``sumo:town.net.xml,town.rou.xml``."""
    from . import sumo as sumo_simulator
    from .city import CityEnv

    check_size("sumo", text, horizon=MAX_STEPS)
    first, *rest = text.split(",")
    if first.endswith(".xml"):
        if not rest or "=" in rest[0]:
            raise ValueError(
                f"problem: got {name_of('sumo', text)!r}, want two files, as in sumo:town.net.xml,town.rou.xml"
            )
        return partial(_make, CityEnv, name_of("sumo", text), first, rest[0], **parse_settings(rest[1:]))
    return partial(sumo_simulator.make_traffic, *parse_size(first, "sumo", text), **parse_settings(rest))


def resco(text: str) -> Callable[[], Any]:
    """Return a factory of the environment named ``resco:cologne8``: a network of the RESCO benchmark from an installed
    sumo-rl, with the settings of `factorax_traffic.city.CityEnv`."""
    from .city.resco import resco as make_resco
    from .city.resco import resco_files

    check_size("resco", text, horizon=MAX_STEPS)
    name, *rest = text.split(",")
    resco_files(name)  # raises immediately for a wrong name or a missing package
    return partial(_make, make_resco, name_of("resco", text), name, **parse_settings(rest))


def sumo_reads_files(text: str) -> bool:
    """Return whether a problem ``sumo:text`` is read from files, rather than a grid.

    >>> sumo_reads_files("3x3,norm=fixed"), sumo_reads_files("town.net.xml,town.rou.xml")
    (False, True)
    """
    return re.fullmatch(r"[\dx]*", text.split(",")[0]) is None


def in_sumo(name: str) -> str:
    """Return the name of the same traffic in SUMO.

    >>> in_sumo("traffic:3x3,slots=16,norm=fixed")
    'sumo:3x3,norm=fixed'
    """
    rest = name.partition(":")[2]
    return "sumo:" + ",".join(part for part in rest.split(",") if not part.startswith("slots="))


def _make(make: Callable[..., Any], problem: str, *files: str, **settings: Any) -> Any:
    """Create the environment of a named problem; raise ValueError with that name for an unknown setting."""
    try:
        return make(*files, **settings)
    except TypeError as error:
        raise ValueError(f"problem: got {problem!r}, want only settings that exist ({error})") from error
