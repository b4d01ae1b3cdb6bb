"""Lookup of influence networks by name, used by `FactoredPPO`, the command line and run folders."""

import os
from pathlib import Path
from typing import Any

from .._checks import Count, checked
from .._text import did_you_mean, nearest
from ..problems.families import parse_value
from ..spaces import ActionSpace
from ..spec import declared_network, opened
from ..structure import InfluenceNetwork, NetworkSchedule
from .adaptive import AdaptiveNetwork
from .adaptive_state import AdaptiveStateNetwork

_ALWAYS = ("own", "complete", "individual", "adaptive")
CURRICULUM = "curriculum:"


def is_file(network: str) -> bool:
    """Return whether this is the name of a file rather than of a network of the problem."""
    if network.startswith(CURRICULUM):
        return False
    network = network.removeprefix("adaptive:")
    # A dot after the colon is that of a number, as in decay:0.5.
    return "." in network.partition(":")[0] or os.sep in network or "/" in network


def folder_name(network: str) -> str:
    """Return the name of a network, or of its file, for use in a folder name.

    >>> folder_name("decay:0.5"), folder_name("nets/K.json")
    ('decay-0.5', 'K')
    """
    return (Path(network).stem if is_file(network) else network).replace(":", "-").replace(",", "-")


def find_network(problem: Any, name: str, *, steps: int | None = None) -> Any:
    """Return the network of this name for a problem of `find_problem`; None for the problem's own network.

    `steps`: the number of training steps, which a curriculum divides into equal stages.

    - ``own``: that of the problem; ``complete``: all edges; ``individual``: action i is credited only with target i,
      as in independent learning, if there are as many targets and the problem's network has these edges; otherwise
      ``own``;
    - ``adaptive``: an `AdaptiveNetwork` that starts with all edges; ``adaptive:own``, ``adaptive:near``,
      ``adaptive:K.json``: one that starts with these;
    - ``adaptive-state:0:-0.5,0.5``: an `AdaptiveStateNetwork` that starts with all edges, with one regime for each of
      the three bins of entry 0 of the observation; ``adaptive-state:0:-0.5,0.5+3:0``: for entries 0 and 3;
    - ``near``, ``lagged``, ``decay:0.5``: the result of the problem's method `influence` for this name, and for the
      value after the colon if there is one, as in ``influence("decay", 0.5)``;
    - ``curriculum:near,own,complete``: two or more networks of the problem in turn, each for an equal share of the
      steps;
    - a file that `InfluenceNetwork.save` wrote.

    >>> from factorax.problems import find_problem
    >>> find_network(find_problem("chain:4"), "near")
    InfluenceNetwork(4 actions → 4 targets, 4 edges, density 0.25)
    """
    checked("steps", steps, Count | None)
    if not checked("network", name, str):
        raise ValueError("network: got '', want own, complete, or a file that InfluenceNetwork.save wrote")
    if name == "own":
        return None
    head, _, rest = name.partition(":")
    if head == "curriculum":
        return _curriculum(problem, name, rest, steps)
    if head == "adaptive-state":
        return _adaptive_state(problem, name, rest)
    if head == "adaptive":
        if not rest:
            return head
        if rest.partition(":")[0] in ("adaptive", "curriculum"):
            raise ValueError(f"network: got {name!r:.60}, want adaptive: once, before another network")
        initial = find_network(problem, rest)
        return AdaptiveNetwork(_own(problem) if initial is None else initial.static)
    if is_file(name):
        if not os.path.exists(name):
            raise FileNotFoundError(f"network: no file {name!r}, want one that InfluenceNetwork.save wrote")
        return InfluenceNetwork.load(name)
    with opened(problem) as instance:
        # Wrappers of Gymnasium do not forward `influence`.
        source = getattr(instance, "unwrapped", instance)
        if name == "complete":
            return _complete(source)
        if name == "individual":
            return _individual(source)
        influence = getattr(source, "influence", None)
        if influence is None:
            raise ValueError(
                f"network: got {name!r}, want own, complete, or a file that InfluenceNetwork.save wrote"
                f"{did_you_mean(name, _ALWAYS)}"
            )
        preset, colon, value = name.partition(":")
        try:
            return influence(preset, parse_value(value)) if colon else influence(preset)
        except (TypeError, ValueError) as error:
            close = nearest(name, _ALWAYS)
            hint = f"did you mean {close}?" if close else f"other names are {', '.join(_ALWAYS)}, or a file"
            names_argument = str(error).startswith("network: ")  # then it is whole, with what came and what is wanted
            raise ValueError(f"{error if names_argument else f'network: got {name!r} ({error})'}; {hint}") from error


def _curriculum(problem: Any, name: str, stages: str, steps: int | None) -> NetworkSchedule:
    """Return a schedule that trains with each of the named networks for an equal share of the steps."""
    want = "two or more networks of the problem, separated by commas, as in curriculum:own,complete"
    names = stages.split(",")
    if len(names) < 2 or not all(names):
        raise ValueError(f"network: got {name!r:.60}, want {want}")
    if steps is None:
        raise ValueError(f"network: got {name!r:.60} where the steps of training are not known; want a fixed network")
    networks = []
    for stage in names:
        if is_file(stage):
            raise ValueError(
                f"network: got {stage!r:.60} in a curriculum, want {want}; for files use fx.NetworkSchedule in Python"
            )
        network = _own(problem, name) if stage == "own" else find_network(problem, stage)
        if not isinstance(network, InfluenceNetwork):
            raise ValueError(f"network: got {stage!r:.60} in a curriculum, which varies; want {want}")
        if stage == "complete" and networks:  # it has no labels of its own
            network = network.relabel(networks[0].actions, networks[0].targets)
        networks.append(network)
    # The first stage had none before it to take labels from.
    if names[0] == "complete":
        networks[0] = networks[0].relabel(networks[1].actions, networks[1].targets)
    if steps < len(networks):
        raise ValueError(f"steps: got {steps}, want at least one for each of the {len(networks)} networks")
    # The last network starts after all other shares, and stays in use.
    return NetworkSchedule(*networks, steps=-(-steps * (len(networks) - 1) // len(networks)), ramp="step")


def _adaptive_state(problem: Any, name: str, bins: str) -> AdaptiveStateNetwork:
    """Return the network of ``PLACE:EDGE,EDGE+PLACE:EDGE``, which starts with all edges."""
    try:
        parts = [part.partition(":") for part in bins.split("+")]
        places = [int(place) for place, _, _ in parts]
        edges = [[float(edge) for edge in text.split(",")] for _, _, text in parts]
    except ValueError:
        raise ValueError(
            f"network: got {name!r:.60}, want the index of an observation and the boundaries of its bins, as in "
            "adaptive-state:0:-0.5,0.5, or several with + between them"
        ) from None
    declared = _own(problem, name)
    complete = InfluenceNetwork.complete(*declared.shape).relabel(declared.actions, declared.targets)
    return AdaptiveStateNetwork.bins(complete, places, edges)


def _own(problem: Any, name: str = "adaptive:own") -> InfluenceNetwork:
    with opened(problem) as source:
        network = declared_network(source)
    if network is None:
        raise ValueError(f"network: got {name!r:.60}, but the problem has no network; want adaptive")
    return network.static


def _complete(source: Any) -> InfluenceNetwork:
    network = declared_network(source)
    n, m = network.static.shape if network is not None else (len(ActionSpace.of(source.action_space)), 1)
    return InfluenceNetwork.complete(n, m)


def _individual(source: Any) -> InfluenceNetwork | None:
    """Return the diagonal of a problem's network; None (the full network) if there is no such diagonal."""
    network = declared_network(source)
    if network is None or network.static.factorisation is not None:
        return None
    matrix = network.static.to_dense()
    n, m = matrix.shape
    if n != m or not matrix.diagonal().all():
        return None
    return InfluenceNetwork.identity(n).relabel(network.static.actions, network.static.targets)
