"""`factorax train`: one run, or several seeds at once."""

import json
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape

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
    """Train with factored PPO, or resume a run that was stopped.

    Args:
        problem: traffic:3x3, sumo:3x3, queues:4x4, chain:16, contextual-bandit:8, rddl:UAV_ippc2023/4,
            a Gymnasium name such as CartPole-v1, or package.module:function.
        config: Settings of the algorithm.
        network: own (the problem's), complete (all edges), a file of an influence network, or for traffic one of
            in, incident, n-level:2, corridor, decay:0.5, travel (by lag). adaptive re-estimates it during training,
            starting from all edges, or from adaptive:own, adaptive:incident, adaptive:FILE.
        out: The folder of the run; runs/PROBLEM-ESTIMATOR-SEED if left out, with the network's name unless it is own.
            With several seeds, the folder that holds theirs.
        seeds: Number of seeds, from --seed on, trained at once as one program; for JAX problems.
        force: Continue with changed settings.
        tensorboard: Also write TensorBoard events.
    """
    from .. import runs

    name = problem.replace("/", "-").replace(":", "-") + f"-{config.estimator}{_suffix(network)}"
    console = Console()
    options: dict[str, Any] = {"network": network, "force": force, "progress_bar": console.is_terminal}
    if seeds < 1:
        raise ValueError(f"seeds: got {seeds}, want at least 1")
    if seeds == 1:
        out = out or Path("runs") / f"{name}-{config.seed}"
        model = runs.train(problem, config, out, tensorboard=tensorboard, **options)
        _score(console, model, out, label=f"{model.timesteps:,} steps; ")
        return
    first = Path("runs") / name if out is None else out / "seed"
    outs = [first.with_name(f"{first.name}-{config.seed + i}") for i in range(seeds)]
    models = runs.train_seeds(problem, config, outs, **options)
    for model, folder in zip(models, outs, strict=True):
        _score(console, model, folder, label=f"seed {model.config.seed}: ")


def _score(console: Console, model: "FactoredPPO", out: Path, *, label: str) -> None:
    """Prints the final policy's return over ten episodes and writes it, with that of sampled actions, into `out`."""
    from ..runs.folder import SCORE

    path = out / SCORE
    score = _read_score(path, model.timesteps)
    if score is None:
        result, sampled = model.evaluate(10), model.evaluate(10, deterministic=False)
        score = {"timesteps": model.timesteps, "return": result["return"], "episodes": result["episodes"].tolist()}
        score |= {"sampled": sampled["return"]}
        write_json(path, score)
    error = stdev(score["episodes"]) / len(score["episodes"]) ** 0.5
    console.print(
        f"{label}return of 10 episodes {score['return']:.4g} ± {error:.2g}; the run is in {escape(str(out))}",
        soft_wrap=True,
        highlight=False,
    )


def _read_score(path: Path, timesteps: int) -> Any:
    """Returns the stored score; None if the policy was never scored, or has learnt since."""
    try:
        score = json.loads(path.read_bytes())
        return score if score["timesteps"] == timesteps and len(score["episodes"]) > 1 else None
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _suffix(network: str) -> str:
    return "" if network == "own" else f"-{Path(network).stem.replace(':', '-')}"
