"""`factorax train`, `evaluate`, `watch`, `plot` and `compare`: runs, and what came of them."""

import json
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .._files import write_json
from ..learning.config import Config

if TYPE_CHECKING:
    from ..learning.factored_ppo import FactoredPPO


def train(
    problem: tyro.conf.Positional[str],
    /,
    *,
    config: tyro.conf.OmitArgPrefixes[Config] = Config(),  # noqa: B008 (frozen)
    network: str = "own",
    out: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    seeds: int = 1,
    force: bool = False,
    tensorboard: bool = False,
) -> None:
    """Train with factored PPO, or go on with a run that was stopped.

    Args:
        problem: traffic:3x3, sumo:3x3, queues:4x4, chain:16, contextual-bandit:8, rddl:UAV_ippc2023/4,
            a Gymnasium name such as CartPole-v1, or package.module:function.
        config: How to train.
        network: own (the problem's), complete (all edges), a file of an influence network, or for traffic one of
            in, incident, n-level:2, corridor, decay:0.5, travel (by lag). adaptive re-estimates it while it
            trains, from all edges on, or from adaptive:own, adaptive:incident, adaptive:FILE.
        out: The folder of the run; runs/PROBLEM-ESTIMATOR-SEED if left out, with the network if it is not its own.
            With several seeds, the folder of their folders.
        seeds: How many, from --seed on, side by side as one program; for JAX problems.
        force: Go on although settings have changed.
        tensorboard: Write events for TensorBoard, too.
    """
    from ..learning import runs

    name = problem.replace("/", "-").replace(":", "-") + f"-{config.estimator}{_suffix(network)}"
    console = Console()
    if seeds != 1:
        first = Path("runs") / name if out is None else out / "seed"
        _train_seeds(console, problem, config, seeds, first, network, force)
        return
    out = out or Path("runs") / f"{name}-{config.seed}"
    model = runs.train(
        problem,
        config,
        out,
        network=network,
        force=force,
        tensorboard=tensorboard,
        progress_bar=console.is_terminal,
    )
    _score(console, model, out, f"{model.timesteps:,} steps; ")


def _train_seeds(
    console: Console, problem: str, config: Config, seeds: int, first: Path, network: str, force: bool
) -> None:
    from ..learning.many import train_seeds

    if seeds < 1:
        raise ValueError(f"seeds: got {seeds}, want at least 1")
    outs = [first.with_name(f"{first.name}-{config.seed + i}") for i in range(seeds)]
    bar = console.is_terminal
    models = train_seeds(problem, config, outs, network=network, force=force, progress_bar=bar)
    for model, out in zip(models, outs, strict=True):
        _score(console, model, out, f"seed {model.config.seed}: ")


def _score(console: Console, model: "FactoredPPO", out: Path, what: str) -> None:
    """Say the final policy's return over ten episodes, and write it, and that of drawn actions, beside the run."""
    from ..learning.runs import SCORE

    path = out / SCORE
    found = _scored(path, model.timesteps)
    if found is None:
        result, sampled = model.evaluate(10), model.evaluate(10, deterministic=False)
        found = {"timesteps": model.timesteps, "return": result["return"], "episodes": result["episodes"].tolist()}
        found |= {"sampled": sampled["return"]}
        write_json(path, found)
    error = stdev(found["episodes"]) / len(found["episodes"]) ** 0.5
    console.print(
        f"{what}return of 10 episodes {found['return']:.4g} ± {error:.2g}; the run is in {escape(str(out))}",
        soft_wrap=True,
        highlight=False,
    )


def _scored(path: Path, timesteps: int) -> Any:
    """What was found of the policy as it is; None if it has learnt since, or was never scored."""
    try:
        found = json.loads(path.read_bytes())
        return found if found["timesteps"] == timesteps and len(found["episodes"]) > 1 else None
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _suffix(network: str) -> str:
    return "" if network == "own" else f"-{Path(network).stem.replace(':', '-')}"


def evaluate(
    run: tyro.conf.Positional[Path],
    /,
    *,
    episodes: int = 10,
    sampled: bool = False,
    seed: int = 0,
    problem: str = "own",
    sim: Literal["own", "sumo"] = "own",
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Score a run's policy over whole episodes.

    Args:
        run: Its folder.
        episodes: How many.
        sampled: Draw actions from the policy instead of taking the most probable ones.
        seed: Of the environments.
        problem: Another problem than it was trained on, such as traffic:2x6 for a shared policy.
        sim: sumo: the same traffic in SUMO itself.
        json_: For programs.
    """
    from ..learning import naming, runs

    model = runs.load(run, trusted=problem)
    name = runs.read_config(run)["problem"] if problem == "own" else problem
    if sim == "sumo":
        name = naming.in_sumo(name)
    if (problem, sim) != ("own", "own"):
        model = model.on(naming.find_problem(name))
    result = model.evaluate(episodes, deterministic=not sampled, seed=seed)
    if json_:
        found = {"problem": name, "return": result["return"], "error": result["error"]}
        print(json.dumps(found | {"episodes": result["episodes"].tolist(), "targets": result["targets"].tolist()}))
        return
    console = Console()
    console.print(
        f"{name}: return {result['return']:.5g} ± {result['error']:.2g} (standard error, {episodes} episodes)",
        highlight=False,
    )
    targets = model.learner.network_at_start.targets
    if 1 < len(targets) <= 40:
        for name, value in zip(targets, result["targets"], strict=True):
            console.print(f"  {name:<12} {value:.4g}", highlight=False)


def watch(
    what: tyro.conf.Positional[tuple[str, ...]],
    /,
    *,
    out: Path = Path("traffic.gif"),
    grid: str = "",
    seconds: int = 120,
    speed: int = 10,
    sampled: bool = False,
    seed: int = 0,
    gui: bool = False,
) -> None:
    """Make a film of cars and lights in the lane simulator, or show them in SUMO's window.

    Args:
        what: Folders of runs on traffic, or controllers: always, never, every-10, every-20, fixed-time, actuated,
            gap-out. Several are shown side by side.
        out: The film, gif, mp4 or html.
        grid: Its size, as in 3x3; that of the first run if left out, else 3x3. Shared policies may go to another.
        seconds: How long.
        speed: Seconds of traffic in one of the film.
        sampled: Draw actions from policies instead of taking the most probable ones.
        seed: Of the first cars, and of what is drawn.
        gui: Open sumo-gui (extra sumo) instead of writing a film.
    """
    from ..learning import watching

    console = Console()
    if gui:
        if len(what) != 1:
            raise ValueError(f"what: got {len(what)} with --gui, want one")
        returned = watching.in_gui(what[0], grid, seconds, sampled=sampled, seed=seed)
        console.print(f"return {returned:.5g}", highlight=False)
        return
    returns = watching.film(what, out, grid, seconds, speed=speed, sampled=sampled, seed=seed)
    for title, value in returns.items():
        console.print(f"{title}: return {value:.5g}", highlight=False, markup=False)
    console.print(f"the film is in {escape(str(out))}", soft_wrap=True)


def plot(runs_: tyro.conf.Positional[tuple[Path, ...]], /, *, out: Path = Path("curves.png")) -> None:
    """Draw the learning curves of runs, those that differ in their seed alone as one with a band.

    Args:
        runs_: Their folders.
        out: The picture, png or pdf.
    """
    from ..learning import comparing

    comparing.draw(comparing.group(runs_)).savefig(out, dpi=160)
    Console().print(f"drew {escape(str(out))}", soft_wrap=True)


def compare(
    runs_: tyro.conf.Positional[tuple[Path, ...]],
    /,
    *,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Compare runs over their seeds: interquartile means, and how likely each is to beat the others.

    Args:
        runs_: Their folders.
        json_: For programs.
    """
    from ..learning import comparing

    result = comparing.compare(comparing.group(runs_))
    if json_:
        print(json.dumps(result, indent=2, ensure_ascii=False))
        return
    console = Console()
    table = Table("runs", "seeds", "final return, IQM", "95 % interval", box=None)
    for name, row in result["final"].items():
        table.add_row(
            escape(name), str(row["seeds"]), f"{row['mean']:.4g}", escape(f"[{row['low']:.4g}, {row['high']:.4g}]")
        )
    console.print(table)
    for name, row in result["improvement"].items():
        console.print(
            f"P({name}) = {row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]", highlight=False, markup=False
        )
