"""`factorax train`: train one run, or several seeds or networks at once."""

import re
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from .._checks import Range, check_different, path_of
from .._files import write_json
from .._text import printable
from ..ppo.config import Config
from ..ppo.presets import NONE, network_of, preset_for, presets, read_preset, settings_with
from .arguments import MAX_PATH, Switch, command

if TYPE_CHECKING:
    from ..ppo.model import FactoredPPO

OWN = "own"
GROUPS = {
    "problem": ("network", "preset", "total_timesteps", "seed", "seeds", "networks"),
    "policy and networks": ("policy", "critic", "hidden", "activation", "architecture", "distribution"),
    "PPO": ("method", ...),
    "stepping": ("n_envs", "n_steps", "rollouts", "device"),
    "output": ("out", "force", "tensorboard", "wandb", "check_network", "variance_report"),
}
"""The options under each title of the help; ``...`` stands for all settings that are named nowhere."""


@partial(command, config=Config, groups=GROUPS)
def train(
    problem: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROBLEM")],
    /,
    *,
    network: Annotated[str | None, tyro.conf.arg(metavar="STR")] = None,
    preset: str = OWN,
    out: Annotated[str | None, tyro.conf.arg(metavar="FOLDER")] = None,
    seeds: Annotated[int, Range(1, 10_000)] = 1,
    networks: tuple[str, ...] = (),
    force: Switch = False,
    tensorboard: Switch = False,
    wandb: Switch = False,
    **settings: Any,
) -> None:
    """Train with factored PPO, or resume a run that was stopped.

    Args:
        problem: Name of the problem: queues:4x4, chain:16, contextual-bandit:8, rddl:UAV_ippc2023/4, a name of an
            installed plug-in such as traffic:3x3, a Gymnasium id such as CartPole-v1, or package.module:function.
        network: Influence network: own (that of the problem), complete (all edges), a file, or a name that the problem
            has, such as near or lagged of chain:8. The default is that of the method or preset, or else own. adaptive
            re-estimates the network during training, starting from all edges, or from adaptive:own, adaptive:near,
            adaptive:FILE; adaptive-state:0:-0.5,0.5 does so in each bin of entry 0 of the observation.
            curriculum:near,own,complete trains with each network for an equal share of the steps.
        preset: Tuned settings that replace the defaults of all other options: own (the preset of the problem, if any),
            none, or a name such as queues. With a problem, --help says which preset it has.
        out: Folder of the run (default runs/PROBLEM-METHOD-SEED, with the name of the network before the seed if it is
            not the problem's, and that of the preset if it is not the default). With several seeds, the parent folder
            of their runs.
        seeds: Number of seeds, counted from --seed, to train at once in one program. JAX problems only.
        networks: Networks to train with instead of --network, all at once in one program. JAX problems only. Folders
            are OUT/NETWORK/seed-SEED.
        force: Resume even if settings have changed.
        tensorboard: Also write TensorBoard events, to the folder logs of the run.
        wandb: Also log to Weights & Biases (offline unless WANDB_MODE is set), in the same folder.
    """
    loggers = [name for name, wanted in (("tensorboard", tensorboard), ("wandb", wandb)) if wanted]
    together = seeds > 1 or bool(networks)
    if loggers and together:  # one program trains them all, but each logger belongs to one model
        raise ValueError(f"{loggers[0]}: got --{loggers[0]} with several runs, want it with one seed and one network")
    check_different("networks", networks)
    parent = None if out is None else path_of("out", out, "a folder")
    if together:
        _find_devices()
    from .. import runs
    from ..ppo.named_networks import folder_name

    default = preset_for(problem)
    tuning = default if preset == OWN else None if preset == NONE else read_preset(preset)
    name_of_preset = NONE if tuning is None else tuning.name
    settings = settings_with(name_of_preset, settings)
    n_envs = None if "n_envs" in settings else _vector_size(problem)
    config = Config.of(settings if n_envs is None else settings | {"n_envs": n_envs})
    network = network or network_of(name_of_preset, config.method) or OWN

    name = re.sub("[/:,]", "-", f"{problem}-{config.method}")
    if network != (config.method.network_name or OWN):
        name += f"-{folder_name(network)}"
    hint = "" if default is None else f"started with the preset {default.name} resumes with --preset {default.name}"
    if tuning is not None:
        print(f"using the preset {tuning.name}: options override its settings, and --preset {NONE} trains without it")
        hint = f"started without the preset {tuning.name} resumes with --preset {NONE}"
        name += f"-{tuning.name}" if tuning != default else ""

    options: dict[str, Any] = {"force": force, "progress_bar": sys.stdout.isatty()}
    all_seeds = [config.seed + i for i in range(seeds)]
    try:
        if networks:
            folder = parent or Path("runs") / name
            outs = {each: [folder / folder_name(each) / f"seed-{seed}" for seed in all_seeds] for each in networks}
            models = runs.train_networks(problem, config, outs, **options)
            labels = [f"{each}, seed {seed}:" for each in networks for seed in all_seeds]
            _score(models, [path for paths in outs.values() for path in paths], labels)
        elif seeds > 1:
            first = Path("runs") / name if parent is None else parent / "seed"
            paths = [first.with_name(f"{first.name}-{seed}") for seed in all_seeds]
            models = runs.train_seeds(problem, config, paths, network=network, **options)
            _score(models, paths, [f"seed {seed}:" for seed in all_seeds])
        else:
            path = parent or Path("runs") / f"{name}-{config.seed}"
            model = runs.train(problem, config, path, network=network, loggers=loggers, **options)
            _score([model], [path], [f"{model.num_timesteps:,} steps;"])
    except FileExistsError as error:  # of other settings: the difference may be the preset
        raise FileExistsError(f"{error}. A run that was {hint}" if hint else str(error)) from None


def help_text(words: Sequence[str]) -> str | None:
    """Return the start of the help, with the preset that these arguments select; None if they select none."""
    # Found here, because the parser prints the help before it returns anything.
    parts = [part for word in words for part in word.split("=", 1)]
    name = parts[parts.index("--preset") + 1] if "--preset" in parts[:-1] else OWN
    preset = next(filter(None, map(preset_for, words)), None) if name == OWN else presets().get(name)
    if preset is None:
        return None
    settings = ", ".join(f"{name} {value}" for name, value in preset.settings.items())
    return f"Train with factored PPO. The preset {preset.name} changes defaults: {settings}."


def _find_devices() -> None:
    """Let JAX find its devices in another thread, while this one imports the library: a GPU takes most of a second, and
    the first array on it, for which JAX allocates most of its memory, one or two more."""
    import jax

    def find() -> None:
        with suppress(Exception):  # raised again where devices are used
            jax.device_put(0.0).block_until_ready()

    threading.Thread(target=find, daemon=True).start()


def _vector_size(problem: str) -> int | None:
    """Return the number of sub-environments if ``package.module:function`` returns a vector environment, else None."""
    if not re.fullmatch(r"\w+(\.\w+)*:\w+", problem):
        return None
    from ..ppo.model import vector_size
    from ..problems.registry import leads_to

    try:
        return vector_size(problem) if leads_to(problem) else None
    except Exception:  # raised by the user's code, which is called again
        return None


def _score(models: Sequence["FactoredPPO"], outs: Sequence[Path], labels: Sequence[str]) -> None:
    """Evaluate final policies over ten episodes, write the scores to their folders and print them.

    The scores of policies that were not trained since they were evaluated are read.
    """
    from ..runs.folder import SCORE, read_evaluation
    from ..runs.training import evaluate_together

    scores: list[Sequence[float]] = [
        read_evaluation(out, model.num_timesteps) for model, out in zip(models, outs, strict=True)
    ]
    missing = [i for i, score in enumerate(scores) if len(score) < 2]
    returns = evaluate_together([models[i] for i in missing]) if missing else []
    for i, (best, sampled) in zip(missing, returns, strict=True):
        scores[i] = best.tolist()
        score = {"timesteps": models[i].num_timesteps, "return": float(best.mean()), "episodes": scores[i]}
        write_json(outs[i] / SCORE, score | {"sampled": float(sampled.mean())})
    for out, label, score in zip(outs, labels, scores, strict=True):
        mean, error = sum(score) / len(score), stdev(score) / len(score) ** 0.5
        result = f"{label} return of {len(score)} episodes {mean:.4g} ± {error:.2g}"
        print(f"{result}; the run is in {printable(out, limit=MAX_PATH)}")
