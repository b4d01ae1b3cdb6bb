"""`factorax evaluate`, `plot`, `compare` and `report`: evaluate, compare and show runs."""

import json
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._checks import Count, Seed
from .._text import counted, printable
from ..plugins import controller_names, families, family_of, imported
from .arguments import MAX_PATH, Switch, check_output, command


@command
def evaluate(
    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    episodes: Count = 10,
    sampled: Switch = False,
    seed: Seed = 0,
    problem: str = "own",
    sim: str = "own",
    json_: Annotated[Switch, tyro.conf.arg(name="json")] = False,
) -> None:
    """Evaluate the policy of a run, or a controller of a family of problems, over full episodes.

    Args:
        run: Folder of the run, or the name of a controller of a family of problems, such as every-20 of traffic.
        episodes: Number of episodes.
        sampled: Sample actions from the policy instead of taking the most probable ones.
        seed: Random seed of the environments.
        problem: Problem to evaluate on if it differs from the training problem, such as queues:6x6 for a shared
            policy. Also required to load a problem whose name refers to code or files; repeat the name only if you
            trust it.
        sim: Simulator: own (that of the problem), or another one that its family has, such as sumo of traffic.
        json_: Print the result as JSON.
    """
    from ..ppo import FactoredPPO
    from ..problems.registry import find_problem, in_simulator
    from ..runs import read_config

    targets: dict[str, float] = {}
    if str(run) in controller_names() and not run.exists():
        if sampled:
            raise ValueError(
                f"sampled: got --sampled with the controller {run}, which is deterministic; want it only with the "
                "folder of a run"
            )
        family = next(each for each in families().values() if str(run) in each.controllers)
        name = (family.example or family.prefix) if problem == "own" else problem
        name = name if sim == "own" else in_simulator(name, sim)
        returns = _returns_of_controller(str(run), name, episodes, seed)
        title = f"{name}: {run}"
    else:
        stored = read_config(run)["problem"]  # raises first if this is not a run
        model = FactoredPPO.load(run, trusted=problem)
        title = name = stored if problem == "own" else problem
        if sim != "own":
            title = name = in_simulator(name, sim)
        if (problem, sim) != ("own", "own"):
            model = model.on(find_problem(name))
        result = model.evaluate(episodes, deterministic=not sampled, seed=seed)
        returns = result["episodes"]
        targets = dict(zip(model.spec.network.static.targets, result["targets"].tolist(), strict=True))
    mean, error = float(returns.mean()), float(returns.std(ddof=1) / episodes**0.5) if episodes > 1 else 0.0
    if json_:
        score = {"problem": name, "return": mean, "error": error, "episodes": returns.tolist()}
        print(json.dumps(score | ({"targets": [*targets.values()]} if targets else {})))
        return
    print(f"{printable(title)}: return {mean:.5g} ± {error:.2g} (standard error, {counted(episodes, 'episode')})")
    if 1 < len(targets) <= 40:
        for target, value in targets.items():
            print(f"  {printable(target):<12} {value:.4g}")


def _returns_of_controller(controller: str, problem: str, episodes: int, seed: int) -> Any:
    """Return the return of each episode that a controller plays."""
    family = family_of(problem)
    if family is None or family.returns is None:
        raise ValueError(f"problem: got {problem!r:.60}, which has no controllers; want the folder of a run instead")
    returns = imported(family.returns)(controller, problem, episodes=episodes, seed=seed)
    if returns is None:
        raise ValueError(f"problem: got {problem!r:.60}, for which there is no controller {controller}")
    return returns


@command
def plot(
    runs_: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")],
    /,
    *,
    out: Path = Path("curves.png"),
) -> None:
    """Plot the learning curves of runs.

    Runs that differ only in their seed form one curve with a band.

    Args:
        runs_: Folders of the runs.
        out: Output file: png, pdf or svg.
    """
    check_output("out", out, ".png", ".pdf", ".svg")
    from ..runs import draw_curves, group_runs, plots

    plots.save(draw_curves(group_runs(runs_)), out)
    print(f"drew {printable(out, limit=MAX_PATH)}")


@command
def compare(
    runs_: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")],
    /,
    *,
    json_: Annotated[Switch, tyro.conf.arg(name="json")] = False,
) -> None:
    """Compare runs over seeds.

    Shows interquartile means, probabilities of improvement, and the part of a gain over vanilla PPO that comes from the
    influence network K.

    Args:
        runs_: Folders of the runs. To measure the part of K, train with K, with --network complete and with --method
            ppo, all with the same other settings.
        json_: Print the result as JSON.
    """
    from ..runs import compare_groups, group_runs, split_gains
    from ..runs.gain import explain

    groups = group_runs(runs_)
    result: dict[str, Any] = {**compare_groups(groups), "gains": split_gains(groups)}
    if json_:
        print(json.dumps(result, indent=2))
        return
    # With one seed there is neither a mean over seeds nor an interval.
    several = any(row["seeds"] > 1 for row in result["final"].values())
    estimate, interval = (", IQM", ["95 % interval"]) if several else ("", [])
    of = {"evaluation": "evaluation of the final policy", "training": "last tenth of training"}[result["of"]]
    table = Table("runs", "seeds", f"return{estimate} ({of})", *interval, box=None)
    for name, row in result["final"].items():
        table.add_row(_shown(name), str(row["seeds"]), *_cells(row, ".4g")[: 1 + several])
    Console().print(table)
    for name, row in result["improvement"].items():
        print(f"P({printable(name)}) = {row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]")
    parts = {
        "gain": "gain over vanilla",
        "per_factor_ratios": "  per-factor ratios: complete K − vanilla",
        "k": "  K: this − complete K",
    }
    for entry in result["gains"]:
        rows = [(label, entry[part]) for part, label in parts.items() if part in entry]
        if rows:
            table = Table(_shown(entry["factored"]), f"difference{' of IQM' if several else ''}", *interval, box=None)
            for label, row in rows:
                table.add_row(label, *_cells(row, "+.4g")[: 1 + several])
            Console().print(table)
        for line in explain(entry):
            print(printable(line, limit=1000))


def _cells(row: dict[str, Any], digits: str) -> tuple[str, str]:
    """Return an estimate and its interval for a table; a dash for the interval of a single seed."""
    interval = "–" if row["low"] is None else escape(f"[{row['low']:{digits}}, {row['high']:{digits}}]")
    return f"{row['mean']:{digits}}", interval


def _shown(name: str) -> str:
    """Return a name for a table cell, with markup and control characters escaped."""
    return escape(printable(name))


@command
def report(
    what: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER ...")],
    /,
    *,
    out: Path = Path("report.html"),
    play: bool = True,
    open: Switch = False,
    watch: Switch = False,
    problem: str = "own",
) -> None:
    """Write a self-contained HTML report of runs.

    It shows the verdict, learning curves, the influence network, variance reduction by K, targets, the policy in
    action, and how to reproduce the results. It loads nothing and can be shared as one file.

    Args:
        what: Folders of runs (runs that differ only in their seed form one group), folders that contain several of
            these, and files of discover --out, which are shown as evidence for edges.
        out: Output file (.html).
        play: Run policies for films, episodes, scores of reference controllers and variance decompositions. Without it,
            the report uses only files in the folders.
        open: Open the report in a browser.
        watch: Write the report every few seconds until the runs have made all their steps, or until Ctrl-C. The page
            loads itself again.
        problem: Name of the problem of the runs. Required to load a problem whose name refers to code or files; repeat
            the name only if you trust it.
    """
    # Before runs are read and policies played, which takes long.
    check_output("out", out, ".html")
    console = Console()
    from ..runs.report import report as write_report

    def tell(text: str) -> None:
        if console.is_terminal:
            console.print(f"{escape(text)} …", style="dim", highlight=False)

    path = write_report(what, out, play=play, watch=watch, trusted=problem, open_browser=open, tell=tell)
    size = path.stat().st_size / 1000
    print(f"the report is in {printable(path, limit=MAX_PATH)} ({size:,.0f} kB)")
