"""Influence networks by name: what `FactoredPPO`, the command line and run folders understand."""

import os
from typing import Any

from ..problems.families import parse_value
from ..spaces import ActionSpace
from ..spec import declared_network, opened
from ..structure import InfluenceNetwork
from .adaptive import AdaptiveNetwork


def is_file(network: str) -> bool:
    """Whether this names a file, and not a network that the problem knows."""
    network = network.removeprefix("adaptive:")
    return "." in network.partition(":")[0] or os.sep in network


def find_network(problem: Any, name: str) -> Any:
    """Returns the network of this name for a problem of `find_problem`; None for the problem's own network.

    - ``own``: the problem's; ``complete``: all edges;
    - ``adaptive``: an `AdaptiveNetwork` that starts with all edges; ``adaptive:own``, ``adaptive:incident``,
      ``adaptive:K.json``: with these;
    - ``incident``, ``corridor``, ``n-level:2``, ``decay:0.5``: a preset of the problem's method `influence`, if it has
      one;
    - a file that `InfluenceNetwork.save` wrote.

    >>> from factorax.problems import find_problem
    >>> find_network(find_problem("traffic:2x6"), "n-level:1")
    InfluenceNetwork(12 actions → 64 targets, 216 edges, density 0.281)
    """
    if name == "own":
        return None
    head, _, rest = name.partition(":")
    if head == "adaptive":
        if not rest:
            return head
        initial = find_network(problem, rest)
        return AdaptiveNetwork(_own(problem) if initial is None else initial.static)
    if is_file(name):
        return InfluenceNetwork.load(name)
    with opened(problem) as instance:
        source = getattr(instance, "unwrapped", instance)
        if name == "complete":
            return _complete(source)
        influence = getattr(source, "influence", None)
        if influence is None:
            raise ValueError(f"network: got {name!r}, want own, complete, or a file that InfluenceNetwork.save wrote")
        preset, _, number = name.partition(":")
        option = {"n-level": "n", "decay": "alpha"}.get(preset)
        if number and option is None:
            raise ValueError(f"network: got {name!r}, want a number after n-level: or decay: alone")
        return influence(preset, **({str(option): parse_value(number)} if number else {}))


def _own(problem: Any) -> InfluenceNetwork:
    with opened(problem) as source:
        network = declared_network(source)
    if network is None:
        raise ValueError("network: got adaptive:own, and the problem has no network; want adaptive")
    return network.static


def _complete(source: Any) -> InfluenceNetwork:
    network = declared_network(source)
    n, m = network.static.shape if network is not None else (len(ActionSpace.of(source.action_space)), 1)
    return InfluenceNetwork.complete(n, m)
