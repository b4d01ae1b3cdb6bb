"""The built-in families of problems: functions from the text after the colon to a problem.

Each function takes that text, such as ``"3x3,slots=16"`` in ``traffic:3x3,slots=16``, and returns a `Problem` or a
function that returns a Gymnasium environment. `factorax.problems.registry` finds them by their prefix. Families with
many modules import them when they are called, so that a command loads only those of its problem.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from . import toy_problems
from . import traffic as traffic_lights
from .problem import Problem

MOST_FACTORS = 4096
MOST_STEPS = 100_000


def contextual_bandit(text: str) -> Problem:
    """Return the problem named ``contextual-bandit:8``."""
    _check_size("contextual-bandit", text, factors=MOST_FACTORS)
    return _in_jax(toy_problems.contextual_bandit, "contextual-bandit", text)


def chain(text: str) -> Problem:
    """Return the problem named ``chain:16,delay=8``."""
    _check_size("chain", text, factors=MOST_FACTORS, delay=MOST_STEPS, horizon=MOST_STEPS)
    return _in_jax(toy_problems.chain, "chain", text)


def queues(text: str) -> Problem:
    """Return the problem named ``queues:4x4``."""
    _check_size("queues", text, factors=MOST_FACTORS, hops=MOST_FACTORS, horizon=MOST_STEPS)
    return _in_jax(toy_problems.queues, "queues", text)


def market(text: str) -> Problem:
    """Return the problem named ``market:10,risk_aversion=0.5``: a dealer who quotes on ten assets."""
    from .market.market_problem import market as make_market

    _check_size("market", text, factors=MOST_FACTORS // 2, horizon=MOST_STEPS, largest_inventory=MOST_STEPS)
    return _in_jax(make_market, "market", text)


def traffic(text: str) -> Problem:
    """Return the problem named ``traffic:3x3,norm=fixed``: traffic lights in the lane simulator."""
    _check_size("traffic", text, slots=MOST_STEPS, horizon=MOST_STEPS)
    return _in_jax(traffic_lights.lanes, "traffic", text)


def sumo(text: str) -> Callable[[], Any]:
    """Return a factory of the environment named ``sumo:3x3`` or ``sumo:town.net.xml,town.rou.xml``.

    In a network from files, each light chooses its next green phase; with ``actions=switch`` it decides every second
    whether to advance to its next phase.
    """
    from .traffic import sumo as sumo_simulator
    from .traffic.city import CityEnv

    _check_size("sumo", text, horizon=MOST_STEPS)
    first, *rest = text.split(",")
    if first.endswith(".xml"):
        if not rest or "=" in rest[0]:
            raise ValueError(
                f"problem: got {_name('sumo', text)!r}, want two files, as in sumo:town.net.xml,town.rou.xml"
            )
        settings = parse_settings(rest[1:])
        actions = settings.pop("actions", "phase")
        if actions not in ("phase", "switch"):
            raise ValueError(f"problem: got actions={actions} in {_name('sumo', text)!r}, want phase or switch")
        make = CityEnv if actions == "phase" else sumo_simulator.OwnTrafficEnv
        return partial(_made, make, _name("sumo", text), first, rest[0], **settings)
    return partial(sumo_simulator.make_traffic, *parse_size(first, "sumo", text), **parse_settings(rest))


def resco(text: str) -> Callable[[], Any]:
    """Return a factory of the environment named ``resco:cologne8``: a network of the RESCO benchmark."""
    from .traffic.city.resco import resco as make_resco
    from .traffic.city.resco import resco_files

    _check_size("resco", text, horizon=MOST_STEPS)
    name, *rest = text.split(",")
    resco_files(name)  # raises immediately for a wrong name or a missing package
    return partial(_made, make_resco, _name("resco", text), name, **parse_settings(rest))


def _made(make: Callable[..., Any], problem: str, *files: str, **settings: Any) -> Any:
    """Create the environment of a named problem; raise ValueError with that name for an unknown setting."""
    try:
        return make(*files, **settings)
    except TypeError as error:
        raise ValueError(f"problem: got {problem!r}, want only settings that exist ({error})") from error


def _check_size(prefix: str, text: str, *, factors: int | None = None, **most: int) -> None:
    """Raise ValueError if a name asks for more than any problem needs, before memory is allocated.

    Names may come from untrusted files. The functions that create problems have no such limits.
    """
    size, *pairs = text.split(",")
    if factors is not None and math.prod(parse_size(size, prefix, text)) > factors:
        raise ValueError(
            f"problem: got {_name(prefix, text)!r:.80}, want at most {factors:,} actions for a problem by name"
        )
    settings = parse_settings([pair for pair in pairs if "=" in pair])
    for name, largest in most.items():
        value = settings.get(name, 0)
        if isinstance(value, int | float) and not value <= largest:
            raise ValueError(
                f"problem: got {name}={value} in {_name(prefix, text)!r:.80}, want at most {largest:,} for a problem "
                "by name"
            )


def _in_jax(make: Callable[..., Problem], prefix: str, text: str) -> Problem:
    size, *pairs = text.split(",")
    try:
        return make(*parse_size(size, prefix, text), **parse_settings(pairs))
    except TypeError as error:
        raise ValueError(f"problem: got {_name(prefix, text)!r}, want only settings that exist ({error})") from error
    except ValueError as error:
        if str(error).startswith("problem: "):
            raise
        raise ValueError(f"problem: got {_name(prefix, text)!r}, which cannot be created: {error}") from error


def parse_size(size: str, prefix: str, text: str) -> tuple[int, ...]:
    """Return the numbers in a size.

    >>> parse_size("4x4", "queues", "4x4")
    (4, 4)
    """
    try:
        numbers = tuple(int(n) for n in size.split("x")) if size else ()
    except ValueError:
        raise ValueError(
            f"problem: got the size {size!r} in {_name(prefix, text)!r}, want whole numbers, as in {prefix}:4"
        ) from None
    if min(numbers, default=1) < 1:
        raise ValueError(f"problem: got {_name(prefix, text)!r}, want a size of at least 1")
    return numbers


def _name(prefix: str, text: str) -> str:
    return f"{prefix}:{text}" if text else prefix


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Return the keyword arguments given by ``name=value`` pairs.

    >>> parse_settings(["slots=16", "norm=fixed", "flow_inflows=true"])
    {'slots': 16, 'norm': 'fixed', 'flow_inflows': True}
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
