"""Problems and networks by name: what the command line understands."""

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym

from .. import problems
from ..problems.problem import Problem
from ..problems.traffic import sumo
from ..structure import InfluenceNetwork
from .actions import ActionSpace
from .adaptive import AdaptiveNetwork
from .influence import start_of

_JAX_PROBLEMS: dict[str, Callable[..., Problem]] = {
    "contextual-bandit": problems.contextual_bandit,
    "chain": problems.chain,
    "queues": problems.queues,
    "traffic": problems.traffic.lanes,
}


def find_problem(name: str) -> Any:
    """The problem of this name.

    - ``queues:4x4``, ``chain:16``, ``contextual-bandit``: a JAX problem of the library, with its size;
    - ``traffic:3x3``, ``traffic:2x6,norm=fixed,slots=20``: traffic lights in the lane simulator, with the settings of
      `factorax.problems.traffic.lanes`; ``sumo:3x3`` is the same in SUMO, and ``sumo:town.net.xml,town.rou.xml`` a
      network of one's own (extra ``sumo``);
    - ``rddl:UAV_ippc2023/4``: an RDDL model of rddlrepository, with the network read from it (extra ``rddl``);
    - ``CartPole-v1``, ``factorax/SearchBandit-v0``: an environment that Gymnasium knows;
    - ``package.module:function``: whatever that function gives, a `Problem` or a Gymnasium environment.

    >>> find_problem("chain:5").network.shape
    (5, 5)
    """
    head, _, rest = name.partition(":")
    if head in _JAX_PROBLEMS:
        size, *settings = rest.split(",")
        try:
            return _JAX_PROBLEMS[head](*_size(name, size), **_settings(settings))
        except TypeError as error:
            raise ValueError(f"problem: got {name!r}, and there is no such setting ({error})") from error
    if head == "sumo":
        first, *others = rest.split(",")
        if first.endswith(".xml"):
            if not others or "=" in others[0]:
                raise ValueError(f"problem: got {name!r}, want two files, as in sumo:town.net.xml,town.rou.xml")
            return partial(sumo.OwnTrafficEnv, first, others[0], **_settings(others[1:]))
        return partial(sumo.make_traffic, *_size(name, first), **_settings(others))
    if head == "rddl":
        domain, _, instance = rest.partition("/")
        from ..integrations import rddl

        return partial(rddl.make, domain, instance)
    if rest:
        return _of_a_module(name, head, rest)
    if name in gym.registry:
        return partial(gym.make, gym.spec(name))  # a worker need not know its name
    raise ValueError(
        f"unknown problem {name!r}; want one of {', '.join(_JAX_PROBLEMS)}, sumo (with a size, as in queues:4x4), a "
        "name that Gymnasium knows, or package.module:function"
    )


def runs_code(name: str) -> bool:
    """Whether finding this problem imports a module that is neither ours nor Gymnasium's own.

    >>> runs_code("traffic:3x3"), runs_code("CartPole-v1"), runs_code("package.module:function")
    (False, False, True)
    """
    head, colon, _ = name.partition(":")
    return bool(colon) and head not in (*_JAX_PROBLEMS, "sumo", "rddl")


def in_sumo(name: str) -> str:
    """The same traffic in SUMO.

    >>> in_sumo("traffic:3x3,slots=16,norm=fixed")
    'sumo:3x3,norm=fixed'
    """
    head, _, rest = name.partition(":")
    if head not in ("traffic", "sumo"):
        raise ValueError(f"sim: got sumo for {name!r}, which is no traffic; want a run of traffic:3x3 or the like")
    return "sumo:" + ",".join(part for part in rest.split(",") if not part.startswith("slots="))


def _of_a_module(name: str, module: str, function: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        made = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"problem: cannot import {name!r} ({error})") from error
    first = made()
    if isinstance(first, Problem):
        return first
    first.close()
    return made


def _size(name: str, size: str) -> tuple[int, ...]:
    try:
        return tuple(int(n) for n in size.split("x")) if size else ()
    except ValueError:
        head = name.partition(":")[0]
        raise ValueError(f"problem: got the size {size!r} in {name!r}, want numbers, as in {head}:4") from None


def _settings(pairs: list[str]) -> dict[str, Any]:
    """From ``["slots=16", "norm=fixed"]`` to keyword arguments."""
    found = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"problem: got the setting {pair!r}, want name=value")
        found[key] = _value(text)
    return found


def _value(text: str) -> int | float | bool | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def is_file(network: str) -> bool:
    """Whether this names a file, and not a network that the problem knows."""
    network = network.removeprefix("adaptive:")
    return "." in network.partition(":")[0] or os.sep in network


def find_network(problem: Any, name: str) -> Any:
    """The network of this name for a problem that `find_problem` gave; None if it is the problem's own.

    - ``own``: the problem's; ``complete``: all edges;
    - ``adaptive``: an `AdaptiveNetwork` that begins with all edges; ``adaptive:own``, ``adaptive:incident``,
      ``adaptive:K.json``: with these;
    - ``incident``, ``corridor``, ``n-level:2``, ``decay:0.5``: what `influence` of the problem calls so, if it has any;
    - a file that `InfluenceNetwork.save` wrote.

    >>> find_network(find_problem("traffic:2x6"), "n-level:1")
    InfluenceNetwork(12 actions → 64 targets, 216 edges, density 0.281)
    """
    if name == "own":
        return None
    head, _, rest = name.partition(":")
    if head == "adaptive":
        if not rest:
            return head
        start = find_network(problem, rest)
        return AdaptiveNetwork(_own(problem) if start is None else start_of(start))
    if is_file(name):
        return InfluenceNetwork.load(name)
    made = problem if isinstance(problem, Problem) else problem()
    try:
        source = getattr(made, "unwrapped", made)
        if name == "complete":
            return _complete(source)
        influence = getattr(source, "influence", None)
        if influence is None:
            raise ValueError(f"network: got {name!r}, want own, complete, or a file that InfluenceNetwork.save wrote")
        preset, _, number = name.partition(":")
        option = {"n-level": "n", "decay": "alpha"}.get(preset)
        if number and option is None:
            raise ValueError(f"network: got {name!r}, want a number after n-level: or decay: alone")
        return influence(preset, **({str(option): _value(number)} if number else {}))
    finally:
        if not isinstance(made, Problem):
            made.close()


def _own(problem: Any) -> InfluenceNetwork:
    made = problem if isinstance(problem, Problem) else problem()
    network = getattr(getattr(made, "unwrapped", made), "network", None)
    if not isinstance(made, Problem):
        made.close()
    if network is None:
        raise ValueError("network: got adaptive:own, and the problem has none of its own; want adaptive")
    return network


def _complete(source: Any) -> InfluenceNetwork:
    network = getattr(source, "network", None)
    n, m = network.shape if network is not None else (len(ActionSpace.of(source.action_space)), 1)
    return InfluenceNetwork.complete(n, m)
