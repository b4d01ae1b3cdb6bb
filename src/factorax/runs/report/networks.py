"""Influence networks of runs and discoveries: edges, evidence, changes during training, positions on a map."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...discovery.result import Discovery
from ...plugins import family_of, imported
from ...ppo import checkpoints
from ...ppo.adaptive import AdaptiveNetwork
from ...ppo.missing_edges import MissingEdges, last_look, missing, p_values
from ...ppo.model_files import check_trusted, network_of_run
from ...ppo.named_networks import find_network
from ...problems.registry import find_problem
from ...spec import Spec, declared_network, opened
from ...structure import InfluenceNetwork
from ...structure.labels import custom_labels, edge_label
from .curves import numbers
from .inputs import RunInput

MAX_PAIRS = 250_000
"""Maximum number of pairs (action, target) of a network that is drawn."""
MAX_EDGES = 40_000
_STAGES = 13
"""Points of training at which a scheduled network is shown."""


def spec_of(run: RunInput, trusted: str | None = None) -> Spec:
    """Return the specification of a run's problem, without its policy.

    Raises if the name refers to code or files and is not trusted, or if the problem cannot be created here.
    """
    name, settings = run.config["problem"], run.config["config"]
    check_trusted(name, trusted, f"{run.path}:")
    problem = find_problem(name)
    network = find_network(problem, network_of_run(run.path, run.config["network"]), steps=settings["total_timesteps"])
    options: dict[str, Any] = {"distribution": settings["distribution"]}
    if network == "adaptive":
        declared = Spec.of(problem, **options)
        return declared.with_network(AdaptiveNetwork.from_complete(declared.network.static))
    return Spec.of(problem, _with_labels(network, problem), **options)


def _with_labels(network: Any, problem: Any) -> Any:
    """Return a network without labels, such as the complete one, with the labels of the problem's own network."""
    if not isinstance(network, InfluenceNetwork):
        return network
    if (
        custom_labels(network.actions, "a")
        or custom_labels(network.targets, "psi")
        or network.factorisation is not None
    ):
        return network
    with opened(problem) as source:
        declared = declared_network(source)
    if declared is None or declared.static.shape != network.shape:
        return network
    return network.relabel(declared.static.actions, declared.static.targets)


def run_network(name: str, run: RunInput, spec: Spec) -> dict[str, Any]:
    """Return the network of a run for the page, with its changes during training."""
    static = spec.network.static
    view = _view(name, static)
    steps = int(run.curves.steps[-1]) if run.curves is not None and len(run.curves.steps) else 0
    view["last_step"] = steps
    if "edges" not in view:
        return view
    if run.curves is not None and run.curves.events:
        view["events"] = _events_by_index(run.curves.events, static)
    elif not spec.network.is_fixed:
        view["events"] = _events_of_schedule(spec, run.config["config"]["total_timesteps"], view)
    if spec.network.is_fixed:
        view["suspects"] = _suspects(run, spec)
    family = family_of(run.config["problem"])
    if family is not None and family.layout is not None:  # where actions are drawn, as points, and targets, as lines
        view["layout"] = imported(family.layout)(run.config["problem"], static)
    return view


def discovered_network(name: str, discovery: Discovery) -> dict[str, Any]:
    """Return the network of a discovery for the page, with its evidence."""
    threshold = None if discovery.tested or discovery.method == "gated" else float(np.nanmax(discovery.effect)) / 2
    network = discovery.network(threshold=threshold)
    view = _view(name, network)
    if "edges" in view:
        view["evidence"] = evidence(discovery)
    return view


def evidence(discovery: Discovery) -> dict[str, Any]:
    """Return the evidence of a discovery for each pair: effect, p-value, confidence and samples."""
    n, m = discovery.shape
    pairs = np.argwhere(np.ones((n, m), bool) if n * m <= MAX_EDGES else discovery.confidence > 0.5)[:MAX_EDGES]
    rows, columns = pairs.T
    return {
        "method": f"{discovery.method}, {discovery.name}",
        "unit": discovery.effect_unit,
        "pairs": pairs.tolist(),
        "effect": numbers(discovery.effect[rows, columns], 4),
        "p_value": numbers(discovery.p_value[rows, columns], 3),
        "confidence": numbers(discovery.confidence[rows, columns], 5) if discovery.tested else None,
        "samples": discovery.samples[rows, columns].tolist(),
    }


def fits(view: Mapping[str, Any], discovery: Discovery) -> bool:
    """Return whether a discovery has the actions and targets of a network."""
    return "edges" in view and view["actions"] == [*discovery.actions] and view["targets"] == [*discovery.targets]


def _view(name: str, network: InfluenceNetwork) -> dict[str, Any]:
    n, m = network.shape
    view: dict[str, Any] = {"name": name, "shape": [n, m], "density": float(f"{network.density:.4g}")}
    view["n_edges"] = round(network.density * n * m)
    # Before the matrix is made dense: a sparse network may have far more pairs than fit into memory.
    if n * m > MAX_PAIRS or view["n_edges"] > MAX_EDGES:
        return view
    matrix = network.to_dense().astype(float)
    edges = np.argwhere(matrix > 0)
    view |= {"actions": [*network.actions], "targets": [*network.targets], "edges": edges.tolist()}
    view["soft"] = numbers(matrix[tuple(edges.T)], 3) if network.is_soft else None
    return view | {"events": [], "suspects": [], "evidence": None, "layout": None}


def _events_by_index(events: Sequence[Mapping[str, Any]], network: InfluenceNetwork) -> list[dict[str, Any]]:
    """Return changes with indices instead of labels; unknown labels are left out."""
    place = {edge_label(a, t): [i, j] for i, a in enumerate(network.actions) for j, t in enumerate(network.targets)}
    return [
        {"step": event["step"]}
        | {kind: [place[label] for label in event[kind] if label in place] for kind in ("came", "went")}
        for event in events
    ]


def _events_of_schedule(spec: Spec, total: int, view: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the changes of a network that depends only on the step; none for networks that depend on data."""
    steps = np.linspace(0, total - 1, _STAGES).astype(int).tolist()
    try:
        matrices = [spec.network.present(None, step).to_dense() > 0 for step in steps]
    except (AttributeError, TypeError, ValueError):  # the network needs a training state
        return []
    view["edges"], view["soft"] = np.argwhere(matrices[0]).tolist(), None
    events = []
    for step, (before, after) in zip(steps[1:], pairwise(matrices), strict=True):
        if (before != after).any():
            came, went = np.argwhere(after & ~before).tolist(), np.argwhere(before & ~after).tolist()
            events.append({"step": step, "came": came, "went": went})
    return events


def _suspects(run: RunInput, spec: Spec) -> list[list[Any]]:
    """Return pairs without an edge that the missing-edge test suspects, with p-values, smallest first."""
    number = last_look(run.curves.updates) if run.curves is not None else 0
    if not run.checkpoints or not number:
        return []
    try:
        sums = checkpoints.arrays(run.checkpoints[0], ".missing_edges.")
        test = MissingEdges(sums["product"], sums["squares"])  # pyright: ignore[reportArgumentType]
        edges = spec.network.static.to_dense() > 0
        factors = np.arange(len(edges)) if spec.factors is None else spec.factors
        present = edges[factors]
        if test.product.ndim != 3 or (test.product.shape[0], test.product.shape[2]) != present.shape:
            return []
        pairs, p_value = missing(test, present, number), p_values(test, present)
    except (ValueError, KeyError, OSError):
        return []  # no test was made
    suspects: dict[tuple[int, int], float] = {}
    for i, j in pairs:
        pair = int(factors[i]), j
        suspects[pair] = min(suspects.get(pair, 1.0), float(p_value[i, j]))
    return [[i, j, float(f"{p:.3g}")] for (i, j), p in suspects.items()]
