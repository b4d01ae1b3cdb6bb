"""Run folders: settings, metrics, checkpoints; a run that was stopped, or killed, goes on where it was."""

import dataclasses
import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._files import remove_leftovers, write_json, write_whole
from ..structure import InfluenceNetwork
from .config import WHO_STEPS, Config
from .factored_ppo import FactoredPPO, Metrics
from .naming import find_network, find_problem, is_file, runs_code
from .recording import Recorder, room

FORMAT = 1
SCORE = "evaluation.json"
"""Of the policy as it is: of the settings in ``config.json`` and the steps that it names."""
_OF_A_FILE = "network.json"


def train(
    problem: str,
    config: Config,
    out: Path,
    *,
    network: str = "own",
    force: bool = False,
    progress_bar: bool = True,
    tensorboard: bool = False,
) -> FactoredPPO:
    """Train into the folder `out`, or go on there; returns the trained model.

    `problem` and `network` are names, as for `find_problem` and `find_network`; of a network that is a file the folder
    gets a copy.

    The folder holds ``config.json``, ``metrics.jsonl`` (one line an update) and ``checkpoints/`` with the last state
    and the one before it. With `force` a changed setting is accepted, where the shapes still fit.
    """
    out = Path(out)
    model = make(problem, network, dataclasses.asdict(config))
    with opened(out, problem, config, model, network=network, force=force) as has_last:
        recorder = Recorder(out, model, has_last=has_last, tensorboard=tensorboard)

        def after(model: FactoredPPO, metrics: Metrics) -> None:
            recorder.write(metrics)
            if recorder.due:
                recorder.keep()

        try:
            model.learn(config.total_timesteps, progress_bar=progress_bar, callback=after)
        finally:
            model.close()
            recorder.keep()
    return model


@contextmanager
def opened(
    out: Path, problem: str, config: Config, model: FactoredPPO, *, network: str = "own", force: bool = False
) -> Iterator[bool]:
    """Hold the folder of a run and bring the model to its last checkpoint; tells whether ``last`` was whole."""
    out.mkdir(parents=True, exist_ok=True)
    with _held(out):
        ours = {"format": FORMAT, "problem": problem, "network": network, "config": dataclasses.asdict(config)}
        remove_leftovers(out, "config.json", "metrics.jsonl", SCORE, _OF_A_FILE)
        remove_leftovers(out / "checkpoints", "new.safetensors")
        _agree(out, ours, force)
        _agree_on_network(model.learner.network_at_start, out / _OF_A_FILE, force)
        has_last = _resume(model, out) == out / "checkpoints" / "last.safetensors"
        # Only now: settings that fit no checkpoint leave the folder as it was.
        with room(out, model.timesteps):
            if force:
                (out / SCORE).unlink(missing_ok=True)
            write_json(out / "config.json", ours)
            if is_file(network):
                model.learner.network_at_start.save(out / _OF_A_FILE)
            (out / "checkpoints").mkdir(exist_ok=True)
        yield has_last


def load(run: Path, *, trusted: str | None = None) -> FactoredPPO:
    """The model of a run folder, as of its last checkpoint.

    A folder may come from a stranger. If its problem is a ``package.module:function``, that code is run only if its
    name is given again, as `trusted`.
    """
    made = read_config(Path(run))
    if runs_code(made["problem"]) and made["problem"] != trusted:
        raise ValueError(
            f"{run}: was trained on {made['problem']!r}, which is code to be run; if you trust it, say so with "
            f"--problem {made['problem']}"
        )
    network = made["network"]
    if is_file(network):
        network = ("adaptive:" if network.startswith("adaptive:") else "") + str(Path(run) / _OF_A_FILE)
    model = make(made["problem"], network, made["config"])
    if not _restore(model, Path(run) / "checkpoints"):
        raise FileNotFoundError(f"{run}: no checkpoint yet; train it first")
    return model


def make(problem: str, network: str, settings: dict[str, Any]) -> FactoredPPO:
    """A model that has learnt nothing, from names and settings."""
    made = find_problem(problem)
    return FactoredPPO(made, find_network(made, network), **settings)


def metrics(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run, one entry an update."""
    path = Path(run) / "metrics.jsonl"
    if not path.exists():
        raise FileNotFoundError(f"{path}: no metrics; want the folder of a run")
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        if not all(isinstance(row["time/total_timesteps"], int) for row in rows):
            raise ValueError("steps that are no whole numbers")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: damaged ({error})") from error
    return rows


def _resume(model: FactoredPPO, out: Path) -> Path | None:
    """Back to the last good checkpoint, which is returned, and the metrics back to its step."""
    restored = _restore(model, out / "checkpoints")
    path = out / "metrics.jsonl"
    if path.exists():
        kept = [row for row in metrics(out) if row["time/total_timesteps"] <= model.timesteps]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
        with room(out, model.timesteps):
            write_whole(path, lambda file: file.write(text.encode()))
    return restored


def _restore(model: FactoredPPO, folder: Path) -> Path | None:
    """From the last checkpoint, or, if a crash left none or half of one, from the one before it; says which."""
    problem: Exception | None = None
    for name in ("last", "previous"):
        path = folder / f"{name}.safetensors"
        if path.exists():
            try:
                model.restore(path)
                return path
            except ValueError as error:
                problem = problem or error
    if problem is not None:
        raise problem
    return None


def read_config(run: Path) -> dict[str, Any]:
    """Format, problem and settings of a run."""
    try:
        content = json.loads((run / "config.json").read_bytes())
        found = {key: content[key] for key in ("format", "problem", "network", "config")}
        if found["format"] != FORMAT or not all(isinstance(found[key], str) for key in ("problem", "network")):
            raise ValueError(f"format {found['format']!r:.60}, want {FORMAT}, and names of a problem and a network")
        Config.read(found["config"])
        return found
    except FileNotFoundError:
        raise FileNotFoundError(f"{run}: no config.json; want the folder of a run") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{run / 'config.json'}: damaged ({error})") from error


def _agree(out: Path, ours: dict[str, Any], force: bool) -> None:
    """Compare the settings with those that are there, if any."""
    path = out / "config.json"
    ours = json.loads(json.dumps(ours))
    if path.exists() and not force:
        theirs = read_config(out)
        changed = {key: (theirs[key], ours[key]) for key in ("problem", "network") if theirs[key] != ours[key]}
        for key in sorted(theirs["config"].keys() | ours["config"].keys()):
            a, b = theirs["config"].get(key), ours["config"].get(key)
            longer = key == "total_timesteps" and not ours["config"]["anneal"]  # that is no change of settings
            if a != b and not longer and key not in WHO_STEPS:
                changed[key] = (a, b)
        if changed:
            lines = "\n".join(f"  {key}: {a!r} there, {b!r} asked for" for key, (a, b) in changed.items())
            raise FileExistsError(
                f"out: {str(out)!r} holds a run with other settings:\n{lines}\nGive another folder, or --force to go "
                "on with the new ones"
            )
    elif not path.exists() and any(p.name != ".lock" for p in out.iterdir()):
        raise FileExistsError(f"out: {str(out)!r} holds files that are not a run's; give another folder")


def _agree_on_network(ours: InfluenceNetwork, path: Path, force: bool) -> None:
    """A file may have the name it had and other edges."""
    if path.exists() and not force and InfluenceNetwork.load(path) != ours:
        raise FileExistsError(
            f"network: has changed since the run in {str(path.parent)!r} began; give another folder, or --force to go "
            "on with the new one"
        )


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """One process at a time; the hold ends with the process, however it ends."""
    with (out / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FileExistsError(f"out: {str(out)!r} is in use by another process; give another folder") from None
        yield
