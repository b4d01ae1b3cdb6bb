"""`factorax evaluate`, `watch`, `plot` and `compare`: evaluate and compare runs."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._checks import Range
from ..structure.labels import counted, printable
from .arguments import Count, Not, OutputFile, RunFolder, Seed


def evaluate(
    run: Annotated[Path, RunFolder(or_controller=True), tyro.conf.Positional],
    /,
    *,
    episodes: Count = 10,
    sampled: bool = False,
    seed: Seed = 0,
    problem: str = "own",
    sim: Literal["own", "sumo"] = "own",
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Evaluate the policy of a run, or a traffic-light controller, over full episodes.

    Args:
        run: Folder of the run, or a controller: always, never, every-10, every-20, fixed-time, actuated, gap-out.
        episodes: Number of episodes.
        sampled: Sample actions from the policy instead of taking the most probable ones.
        seed: Random seed of the environments.
        problem: Problem to evaluate on if it differs from the training problem, such as traffic:2x6 for a shared
        policy.
          Also required to load a problem whose name refers to code or files; repeat the name only if you trust it.
        sim: Simulator: own for that of the problem, sumo for the same traffic in SUMO.
        json_: Print the result as JSON.
    """
    from ..problems.registry import find_problem, in_sumo
    from ..problems.traffic.controllers import CONTROLLERS
    from ..runs import load, read_config

    if str(run) in CONTROLLERS and not run.exists():
        if sampled:
            raise ValueError(
                f"sampled: got --sampled with the controller {run}, which is deterministic; want it only with the "
                "folder of a run"
            )
        _evaluate_controller(str(run), episodes, seed, problem, sim, json_)
        return
    model = load(run, trusted=problem)
    name = read_config(run)["problem"] if problem == "own" else problem
    if sim == "sumo":
        name = in_sumo(name)
    if (problem, sim) != ("own", "own"):
        model = model.on(find_problem(name))
    result = model.evaluate(episodes, deterministic=not sampled, seed=seed)
    if json_:
        score = {"problem": name, "return": result["return"], "error": result["error"]}
        print(json.dumps(score | {"episodes": result["episodes"].tolist(), "targets": result["targets"].tolist()}))
        return
    console = Console()
    console.print(
        f"{printable(name)}: return {result['return']:.5g} ± {result['error']:.2g} (standard error, "
        f"{counted(episodes, 'episode')})",
        highlight=False,
        markup=False,
    )
    targets = model.spec.network.static.targets
    if 1 < len(targets) <= 40:
        for name, value in zip(targets, result["targets"], strict=True):
            console.print(f"  {printable(name):<12} {value:.4g}", highlight=False, markup=False)


def _evaluate_controller(controller: str, episodes: int, seed: int, problem: str, sim: str, json_: bool) -> None:
    """Print the score of a controller in the format of runs."""
    from ..problems.registry import in_sumo
    from ..runs.controllers import controller_returns

    name = "traffic:3x3" if problem == "own" else problem
    returns = controller_returns(controller, name, episodes=episodes, seed=seed, sumo=sim == "sumo")
    name = in_sumo(name) if sim == "sumo" else name
    error = float(returns.std(ddof=1) / episodes**0.5) if episodes > 1 else 0.0
    if json_:
        print(json.dumps({"problem": name, "return": returns.mean(), "error": error, "episodes": returns.tolist()}))
        return
    text = f"{name}: {controller}: return {returns.mean():.5g} ± {error:.2g} (standard error, {episodes} episodes)"
    Console().print(text, highlight=False)


def watch(
    what: tyro.conf.Positional[tuple[str, ...]],
    /,
    *,
    out: Annotated[Path, OutputFile((".gif", ".mp4", ".html")), Not("gui")] = Path("traffic.gif"),
    grid: str = "",
    seconds: Count = 120,
    speed: Annotated[int, Range(1, 1000), Not("gui")] = 10,
    sampled: bool = False,
    seed: Seed = 0,
    gui: bool = False,
    problem: str = "own",
) -> None:
    """Make a film of traffic in the lane simulator or of a city in SUMO, or show it in the SUMO GUI.

    Args:
        what: Folders of traffic runs, or controllers: always, never, every-10, every-20, fixed-time, actuated, gap-out.
          Several are shown side by side. In cities: runs on resco:cologne8 and others, fixed, greedy, max-pressure,
          actuated, delay-based.
        out: Output file: gif, mp4 or html.
        grid: Rows and columns, as in 3x3; by default those of the first run, or 3x3. Shared policies can be shown on
          other grids than the one they were trained on.
        seconds: Simulated time in seconds.
        speed: Simulated seconds per second of film.
        sampled: Sample actions from policies instead of taking the most probable ones.
        seed: Random seed of the initial cars and of sampled actions.
        gui: Open sumo-gui (extra sumo) instead of writing a film.
        problem: City in which to show controllers, or policies trained in another city, such as resco:cologne8. Also
          required to load a problem whose name refers to code or files; repeat the name only if you trust it.
    """
    from ..runs.city_film import city_of, write_city_film
    from ..runs.film import show_in_gui, write_film

    console = Console()
    city = "" if gui else city_of(what, problem)
    if city:
        delays = write_city_film(
            what, out, city, seconds=seconds, speed=speed, sampled=sampled, seed=seed, trusted=problem
        )
        for title, value in delays.items():
            console.print(f"{printable(title)}: mean delay {value:.4g} s", highlight=False, markup=False)
        console.print(f"the film is in {escape(str(out))}", soft_wrap=True)
        return
    if gui:
        if len(what) != 1:
            raise ValueError(f"what: got {len(what)} names with --gui, want one")
        returned = show_in_gui(what[0], grid=grid, seconds=seconds, sampled=sampled, seed=seed, trusted=problem)
        console.print(f"return {returned:.5g}", highlight=False)
        return
    options: dict[str, Any] = {"grid": grid, "seconds": seconds, "speed": speed, "sampled": sampled, "seed": seed}
    returns = write_film(what, out, **options, trusted=problem)
    for title, value in returns.items():
        console.print(f"{printable(title)}: return {value:.5g}", highlight=False, markup=False)
    console.print(f"the film is in {escape(str(out))}", soft_wrap=True)


def plot(
    runs_: Annotated[tuple[Path, ...], RunFolder(), tyro.conf.Positional],
    /,
    *,
    out: Annotated[Path, OutputFile((".png", ".pdf", ".svg"))] = Path("curves.png"),
) -> None:
    """Plot the learning curves of runs; runs that differ only in their seed form one curve with a band.

    Args:
        runs_: Folders of the runs.
        out: Output file: png, pdf or svg.
    """
    from ..runs import draw_curves, group_runs, plots

    plots.save(draw_curves(group_runs(runs_)), out)
    Console().print(f"drew {escape(str(out))}", soft_wrap=True)


def compare(
    runs_: Annotated[tuple[Path, ...], RunFolder(), tyro.conf.Positional],
    /,
    *,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Compare runs over seeds: interquartile means, probabilities of improvement, and the part of a gain over vanilla
    PPO that comes from K.

    Args:
        runs_: Folders of the runs. To measure the part of K: factored runs with K, factored runs with --network
            complete, and vanilla runs, all with the same settings.
        json_: Print the result as JSON.
    """
    from ..runs import compare_groups, group_runs, split_gains
    from ..runs.gain import explain

    groups = group_runs(runs_)
    result: dict[str, Any] = {**compare_groups(groups), "gains": split_gains(groups)}
    if json_:
        print(json.dumps(result, indent=2))
        return
    console = Console()
    of = {"evaluation": "evaluation of the final policy", "training": "last tenth of training"}[result["of"]]
    table = Table("runs", "seeds", f"return, IQM ({of})", "95 % interval", box=None)
    for name, row in result["final"].items():
        table.add_row(_shown(name), str(row["seeds"]), f"{row['mean']:.4g}", _interval(row, ".4g"))
    console.print(table)
    for name, row in result["improvement"].items():
        console.print(
            f"P({printable(name)}) = {row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
            highlight=False,
            markup=False,
        )
    for entry in result["gains"]:
        parts = {
            "gain": "gain over vanilla",
            "per_factor_ratios": "  per-factor ratios: complete K − vanilla",
            "k": "  K: this − complete K",
        }
        rows = [(label, entry[part]) for part, label in parts.items() if part in entry]
        if rows:
            table = Table(_shown(entry["factored"]), "difference of IQM", "95 % interval", box=None)
            for label, row in rows:
                table.add_row(label, f"{row['mean']:+.4g}", _interval(row, "+.4g"))
            console.print(table)
        for line in explain(entry):
            console.print(printable(line), highlight=False, markup=False, soft_wrap=True)


def _interval(row: dict[str, Any], digits: str) -> str:
    """Return the interval of an estimate for a table cell; a dash for a single seed."""
    return "–" if row["low"] is None else escape(f"[{row['low']:{digits}}, {row['high']:{digits}}]")


def _shown(name: str) -> str:
    """Return a name for a table cell, with markup and control characters escaped."""
    return escape(printable(name))
