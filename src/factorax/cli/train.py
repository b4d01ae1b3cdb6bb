"""`factorax train`: train one run, or several seeds or networks at once."""

import io
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from functools import partial, wraps
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from .._checks import Range, check_different, path_of
from .._files import MIB, read_json, write_json
from .._text import printable
from ..ppo.config import Config
from ..ppo.methods import find_method, network_for, settings_for
from ..ppo.presets import NONE, Preset, preset_for, read_preset
from .arguments import MAX_PATH, Switch, command, with_help

if TYPE_CHECKING:
    from ..ppo.model import FactoredPPO

_OWN = "own"


class Flags(Config):
    """The settings as read from the command line, not yet checked: `config` checks them, together."""

    def __post_init__(self) -> None:
        """Skip the checks of `Config`."""

    @property
    def config(self) -> Config:
        """The checked settings."""
        return Config(**vars(self))


with_help(Flags, Config)


def train_with_preset(arguments: Sequence[str]) -> Callable[..., None]:
    """Return `train` with the defaults selected by these command-line arguments: those of the preset and the method.

    For a vector environment, the number of environments is that of the vector. Options thus override the preset, and
    ``--help`` shows the values in effect.
    """

    @wraps(train)
    def selection(problem: str, /, *, preset: str, method: str, **others: Any) -> tuple[str, str, str]:
        return problem, preset, method

    try:
        with redirect_stderr(io.StringIO()):  # the parser prints some errors even without console outputs
            given = [each for each in arguments if each not in ("-h", "--help")]
            problem, name, method = tyro.cli(selection, args=given, console_outputs=False)
        preset = _chosen(problem, name)
        chosen = NONE if preset is None else preset.name
        settings, network = settings_for(chosen, method, {}), network_for(chosen, method)
        n_envs = _own_size(problem)
    except (SystemExit, ValueError):  # ignored here: the parser or `train` raises it again
        settings, network, n_envs = {}, None, None
    if n_envs is not None:
        settings["n_envs"] = n_envs
    if not settings:
        return train
    return partial(train, settings=Flags(**vars(Config.of(settings))), network=network or _OWN)


@command
def train(
    problem: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROBLEM")],
    /,
    *,
    settings: tyro.conf.OmitArgPrefixes[Flags] = Flags(),  # noqa: B008 (frozen)
    network: str = _OWN,
    preset: str = _OWN,
    method: str = NONE,
    out: Annotated[str | None, tyro.conf.arg(metavar="FOLDER")] = None,
    seeds: Annotated[int, Range(1, 10_000)] = 1,
    networks: tuple[str, ...] = (),
    force: Switch = False,
    tensorboard: Switch = False,
    wandb: Switch = False,
) -> None:
    """Train with factored PPO, or resume a run that was stopped.

    Args:
        problem: Name of the problem: queues:4x4, chain:16, contextual-bandit:8, rddl:UAV_ippc2023/4, a name of an
            installed plug-in such as traffic:3x3, a Gymnasium id such as CartPole-v1, or package.module:function.
        settings: Settings of the algorithm.
        network: Influence network: own (that of the problem), complete (all edges), a file, or a name that the problem
            has, such as near or lagged of chain:8. adaptive re-estimates the network during training, starting from
            all edges, or from adaptive:own, adaptive:near, adaptive:FILE; adaptive-state:0:-0.5,0.5 does so in each
            bin of entry 0 of the observation. curriculum:near,own,complete trains with each network for an equal share
            of the steps.
        preset: Tuned settings that replace the defaults of all other options: own (the preset of the problem, if any),
            none, or a name such as queues.
        method: Credit-assignment method: ppo, ippo, mappo, coma, difference-rewards, complete, factored or adaptive;
            none uses the other options. Replaces estimator, policy, critic and network of the preset.
        out: Folder of the run (default runs/PROBLEM-ESTIMATOR-SEED or runs/PROBLEM-METHOD-SEED, plus the name of the
            network or preset if it is not the default). With several seeds, the parent folder of their runs.
        seeds: Number of seeds, counted from --seed, to train at once in one program. JAX problems only.
        networks: Networks to train with instead of --network, all at once in one program. JAX problems only. Folders
            are OUT/NETWORK/seed-SEED.
        force: Resume even if settings have changed.
        tensorboard: Also write TensorBoard events, to the folder logs of the run.
        wandb: Also log to Weights & Biases (offline unless WANDB_MODE is set), in the same folder.
    """
    loggers = [name for name, wanted in (("tensorboard", tensorboard), ("wandb", wandb)) if wanted]
    if loggers and (seeds > 1 or networks):
        raise ValueError(f"{loggers[0]}: got --{loggers[0]} with several runs, want it with one seed and one network")
    check_different("networks", networks)
    parent = None if out is None else path_of("out", out, "a folder")
    if seeds > 1 or networks:
        _find_devices()
    from .. import runs
    from ..ppo.named_networks import folder_name

    config = settings.config
    used = _chosen(problem, preset)
    if method != NONE:
        find_method(method)
    usual = _OWN if method == NONE else network_for(NONE if used is None else used.name, method) or _OWN
    name = problem.replace("/", "-").replace(":", "-") + f"-{config.estimator if method == NONE else method}"
    if network != _OWN and (network != usual or method == NONE):
        name += f"-{folder_name(network)}"
    if used is not None and used != preset_for(problem):
        name += f"-{used.name}"
    options: dict[str, Any] = {"network": network, "force": force, "progress_bar": sys.stdout.isatty()}
    if used is not None:
        print(f"using the preset {used.name}: options override its settings, and --preset {NONE} trains without it")
    if networks:
        folder = parent or Path("runs") / name
        outs = {
            each: [folder / folder_name(each) / f"seed-{config.seed + i}" for i in range(seeds)] for each in networks
        }
        options.pop("network")
        with _hint_at_presets(problem, used):
            models = runs.train_networks(problem, config, outs, **options)
        folders = [(each, path) for each, paths in outs.items() for path in paths]
        _score_all(models, [path for _, path in folders], [f"{each}, " for each, _ in folders])
        return
    if seeds == 1:
        run = parent or Path("runs") / f"{name}-{config.seed}"
        with _hint_at_presets(problem, used):
            model = runs.train(problem, config, run, loggers=loggers, **options)
        _score(model, run, label=f"{model.num_timesteps:,} steps; ")
        return
    first = Path("runs") / name if parent is None else parent / "seed"
    outs = [first.with_name(f"{first.name}-{config.seed + i}") for i in range(seeds)]
    with _hint_at_presets(problem, used):
        models = runs.train_seeds(problem, config, outs, **options)
    _score_all(models, outs, [""] * len(outs))


def _find_devices() -> None:
    """Let JAX find its devices in another thread, while this one imports the library: a GPU takes most of a second, and
    the first array on it, for which JAX allocates most of its memory, one or two more."""
    import jax

    def find() -> None:
        with suppress(Exception):  # raised again where devices are used
            jax.device_put(0.0).block_until_ready()

    threading.Thread(target=find, daemon=True).start()


def _own_size(problem: str) -> int | None:
    """Return the number of sub-environments if ``package.module:function`` returns a vector environment, else None."""
    if not re.fullmatch(r"\w+(\.\w+)*:\w+", problem):
        return None
    from ..problems.registry import leads_to

    try:
        if not leads_to(problem):
            return None
        from ..ppo.model import vector_size  # imports JAX, which --help does without

        return vector_size(problem)
    except Exception:  # raised by the user's code, which `train` calls again
        return None


def _chosen(problem: str, preset: str) -> Preset | None:
    """Return the preset selected by a problem and ``--preset``."""
    if preset == NONE:
        return None
    return preset_for(problem) if preset == _OWN else read_preset(preset)


@contextmanager
def _hint_at_presets(problem: str, preset: Preset | None) -> Iterator[None]:
    """Add a hint to the error about changed settings: the difference may be the preset."""
    default = preset_for(problem)
    if preset is not None:
        hint = f"A run that was started without the preset {preset.name} resumes with --preset {NONE}"
    elif default is not None:
        hint = f"A run that was started with the preset {default.name} resumes with --preset {default.name}"
    else:
        hint = ""
    try:
        yield
    except FileExistsError as error:
        raise FileExistsError(f"{error}. {hint}" if hint else str(error)) from None


def _score_all(models: Sequence["FactoredPPO"], outs: Sequence[Path], labels: Sequence[str]) -> None:
    """Score models that were trained together, as `_score` does, with episodes that run in parallel."""
    from ..runs.folder import SCORE
    from ..runs.seeds import evaluate_seeds

    scores = [_read_score(out / SCORE, model.num_timesteps) for model, out in zip(models, outs, strict=True)]
    returns: Sequence[Any] = evaluate_seeds(models) if None in scores else [None] * len(models)
    for model, out, label, played in zip(models, outs, labels, returns, strict=True):
        _score(model, out, label=f"{label}seed {model.config.seed}: ", played=played)


def _score(model: "FactoredPPO", out: Path, *, label: str, played: Any = None) -> None:
    """Evaluate the final policy over ten episodes, print its return, and write the scores to `out`.

    `played`: returns of these episodes, with the most probable actions and with sampled ones, if there are any.
    """
    from ..runs.folder import SCORE

    path = out / SCORE
    score = _read_score(path, model.num_timesteps)
    if score is None:
        if played is None:
            played = [model.evaluate(10, deterministic=most_probable)["episodes"] for most_probable in (True, False)]
        best, sampled = played
        score = {"timesteps": model.num_timesteps, "return": float(best.mean()), "episodes": best.tolist()}
        score |= {"sampled": float(sampled.mean())}
        write_json(path, score)
    error = stdev(score["episodes"]) / len(score["episodes"]) ** 0.5
    result = f"{label}return of 10 episodes {score['return']:.4g} ± {error:.2g}"
    print(f"{result}; the run is in {printable(out, limit=MAX_PATH)}")


def _read_score(path: Path, timesteps: int) -> Any:
    """Return the stored score; None if the policy was never evaluated, or has been trained since."""
    try:
        score = read_json(path, MIB)
        numbers = [score["return"], *score["episodes"]]
        fits = score["timesteps"] == timesteps and len(numbers) > 2
        return score if fits and all(type(x) in (int, float) and abs(x) < 1e300 for x in numbers) else None
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
