"""`factorax discover`: estimate the influence network of a problem."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._checks import Range, Seed
from .._text import printable
from .arguments import Switch, check_output, command


@command
def discover(
    problem: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROBLEM")],
    /,
    *,
    method: Literal["interventional", "score", "dependence", "gated"] = "interventional",
    horizon: int = 100,
    trials: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    samples: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
    fdr: Annotated[float, Range(0, 0.999, open=True)] = 0.05,
    threshold: Annotated[float | None, Range(0), tyro.conf.arg(metavar="FLOAT")] = None,
    streams: Literal["check", "trust", "test"] = "check",
    tolerance: Annotated[float | None, Range(0), tyro.conf.arg(metavar="FLOAT")] = None,
    run: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    seed: Seed = 0,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    network: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    draw: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    json_: Annotated[Switch, tyro.conf.arg(name="json")] = False,
) -> None:
    """Estimate which action influences which target.

    Args:
        problem: Name of the problem, as for train.
        method: interventional replays a deterministic simulator with changed actions; score and dependence test sampled
            data for dependence; gated fits a model to sampled data, without control of false discoveries.
        horizon: Number of steps per episode, or over which targets are summed; 1 estimates the one-step network.
        trials: For interventional: minimum number of episodes in which each pair without an edge is tested (default
            20).
        samples: For the other methods: number of samples to collect (default 10000).
        fdr: False-discovery rate: the expected fraction of reported edges that are false.
        threshold: For gated: minimum probability of an edge that its gate is open (default 0.5).
        streams: For interventional: check compares the random generators of the simulator after each
            step, and tests over many seeds if actions shift them; trust assumes that actions do not shift them; test
            always tests.
        tolerance: For interventional: smallest change of a target that counts, relative to its spread (default 0.001,
            and 0 for JAX problems).
        run: Folder of a trained run to take actions from; by default actions are random.
        seed: Random seed of the problem.
        out: File for the full results (.safetensors).
        network: File for the network (.json or .npz), which train --network can read.
        draw: File for a figure of the network (png, pdf or svg).
        json_: Print the result as JSON.
    """
    # Before the discovery, which may take hours.
    check_output("out", out, ".safetensors")
    check_output("network", network, ".json", ".npz")
    check_output("draw", draw, ".png", ".pdf", ".svg")
    if threshold is not None and method != "gated":
        raise ValueError(f"threshold: got {threshold} with --method {method}, want --method gated")
    from matplotlib import pyplot as plt

    from .. import discovery
    from ..ppo import FactoredPPO
    from ..problems import find_problem
    from ..runs import plots

    policy = None if run is None else FactoredPPO.load(run, trusted=problem)
    # Only what was asked for: each method refuses the options of the others.
    options: dict[str, Any] = {"trials": trials, "samples": samples, "tolerance": tolerance}
    options["streams"] = None if streams == "check" else streams
    options = {name: value for name, value in options.items() if value is not None}
    result = discovery.discover(find_problem(problem), method, horizon=horizon, policy=policy, seed=seed, **options)
    if out is not None:
        result.save(out)
    if network is not None:
        result.network(fdr, threshold=threshold).save(network)
    if draw is not None:
        figure: Any = result.draw(fdr=fdr).figure
        plots.save(figure, draw)
        plt.close(figure)  # pyplot would keep it
    edges = result.as_edges(fdr, threshold=threshold)
    if json_:
        report = {"method": method, "network": result.name, "streams": result.streams, "notes": result.notes}
        print(json.dumps(report | {"edges": edges}, indent=2))
        return
    print(printable(result, keep="\n", limit=10_000))
    table = Table("action", "target", "effect", "confidence", "samples", box=None)
    for edge in edges[:20]:
        names = escape(printable(edge["action"])), escape(printable(edge["target"]))
        table.add_row(*names, f"{edge['effect']:.3g}", f"{edge['confidence']:.4f}", f"{edge['samples']:,}")
    Console().print(table)
    if len(edges) > 20:
        print(f"and {len(edges) - 20} more; --network FILE writes all of them")
