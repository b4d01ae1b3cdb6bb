"""Run folders: settings, metrics, checkpoints; a run that was stopped, or killed, goes on where it was."""

import dataclasses
import fcntl
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from .. import problems
from .._files import write_json, write_whole
from ..problems.problem import Problem
from . import checkpoints
from .config import Config
from .factored_ppo import FactoredPPO, Metrics

FORMAT = 1
_SECONDS_BETWEEN_CHECKPOINTS = 30.0
_JAX_PROBLEMS: dict[str, Callable[..., Problem]] = {
    "contextual-bandit": problems.contextual_bandit,
    "chain": problems.chain,
    "queues": problems.queues,
    "traffic": problems.traffic.lanes,
}


def find_problem(name: str) -> Any:
    """The problem of this name.

    - ``queues:4x4``, ``chain:16``, ``contextual-bandit``: a JAX problem of the library, with its size;
    - ``CartPole-v1``, ``factorax/SearchBandit-v0``: an environment that Gymnasium knows;
    - ``package.module:function``: whatever that function gives, a `Problem` or a Gymnasium environment.

    >>> find_problem("chain:5").network.shape
    (5, 5)
    """
    head, _, size = name.partition(":")
    if head in _JAX_PROBLEMS:
        try:
            return _JAX_PROBLEMS[head](*(int(n) for n in size.split("x")) if size else ())
        except (ValueError, TypeError) as error:
            raise ValueError(f"problem: got the size {size!r} in {name!r}, want numbers, as in {head}:4") from error
    if size:
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())  # as `python -m` does
        try:
            made = getattr(importlib.import_module(head), size)
        except (ImportError, AttributeError) as error:
            raise ValueError(f"problem: cannot import {name!r} ({error})") from error
        first = made()
        if isinstance(first, Problem):
            return first
        first.close()
        return made
    if name in gym.registry:
        return lambda: gym.make(name)
    raise ValueError(
        f"unknown problem {name!r}; want one of {', '.join(_JAX_PROBLEMS)} (with a size, as in queues:4x4), a name "
        "that Gymnasium knows, or package.module:function"
    )


def train(
    problem: str,
    config: Config,
    out: Path,
    *,
    force: bool = False,
    progress_bar: bool = True,
    tensorboard: bool = False,
) -> FactoredPPO:
    """Train into the folder `out`, or go on there; returns the trained model.

    The folder holds ``config.json``, ``metrics.jsonl`` (one line an update) and ``checkpoints/`` with the last state
    and the one before it. With `force` a changed setting is accepted, where the shapes still fit.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with _held(out):
        ours = {"format": FORMAT, "problem": problem, "config": dataclasses.asdict(config)}
        _agree(out, ours, force)
        model = FactoredPPO(find_problem(problem), **dataclasses.asdict(config))
        folder = out / "checkpoints"
        _resume(model, out)
        # Only now: settings that make no model, or fit no checkpoint, leave the folder as it was.
        write_json(out / "config.json", ours)
        folder.mkdir(exist_ok=True)
        writer = _tensorboard(out) if tensorboard else None
        written = time.monotonic()

        def save() -> None:
            last = folder / "last.safetensors"
            if last.exists():
                os.replace(last, folder / "previous.safetensors")
            model.save(last)

        def after(model: FactoredPPO, metrics: Metrics) -> None:
            nonlocal written
            with (out / "metrics.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({name: _json(value) for name, value in metrics.items()}) + "\n")
            if writer is not None:
                for name, value in metrics.items():
                    if np.ndim(value) == 0:
                        writer.add_scalar(name, float(value), model.timesteps)
            if time.monotonic() - written > _SECONDS_BETWEEN_CHECKPOINTS:
                save()
                written = time.monotonic()

        try:
            model.learn(config.total_timesteps, progress_bar=progress_bar, callback=after)
        finally:
            if model.timesteps:
                save()
    return model


def load(run: Path) -> FactoredPPO:
    """The model of a run folder, as of its last checkpoint."""
    made = read_config(Path(run))
    model = FactoredPPO(find_problem(made["problem"]), **made["config"])
    if not _restore(model, Path(run) / "checkpoints"):
        raise FileNotFoundError(f"{run}: no checkpoint yet; train it first")
    return model


def metrics(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run, one entry an update."""
    path = Path(run) / "metrics.jsonl"
    if not path.exists():
        raise FileNotFoundError(f"{path}: no metrics; want the folder of a run")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def _resume(model: FactoredPPO, out: Path) -> None:
    """Back to the last good checkpoint, and the metrics back to its step."""
    _restore(model, out / "checkpoints")
    path = out / "metrics.jsonl"
    if path.exists():
        kept = [row for row in metrics(out) if row["time/total_timesteps"] <= model.timesteps]
        text = "".join(json.dumps(row) + "\n" for row in kept)
        write_whole(path, lambda file: file.write(text.encode()))


def _restore(model: FactoredPPO, folder: Path) -> bool:
    """From the last checkpoint, or, if a crash left none or half of one, from the one before it."""
    problem: Exception | None = None
    for name in ("last", "previous"):
        path = folder / f"{name}.safetensors"
        if path.exists():
            try:
                model.state, _ = checkpoints.load(path, model.state)
                return True
            except ValueError as error:
                problem = problem or error
    if problem is not None:
        raise problem
    return False


def read_config(run: Path) -> dict[str, Any]:
    """Format, problem and settings of a run."""
    try:
        content = json.loads((run / "config.json").read_bytes())
        return {key: content[key] for key in ("format", "problem", "config")}
    except FileNotFoundError:
        raise FileNotFoundError(f"{run}: no config.json; want the folder of a run") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{run / 'config.json'}: damaged ({error})") from error


def _agree(out: Path, ours: dict[str, Any], force: bool) -> None:
    """Compare the settings with those that are there, if any."""
    path = out / "config.json"
    ours = json.loads(json.dumps(ours))
    if path.exists() and not force:
        theirs = read_config(out)
        changed = {"problem": (theirs["problem"], ours["problem"])} if theirs["problem"] != ours["problem"] else {}
        for key in sorted(theirs["config"].keys() | ours["config"].keys()):
            a, b = theirs["config"].get(key), ours["config"].get(key)
            if a != b and key != "total_timesteps":  # going on for longer is no change of settings
                changed[key] = (a, b)
        if changed:
            lines = "\n".join(f"  {key}: {a!r} there, {b!r} asked for" for key, (a, b) in changed.items())
            raise FileExistsError(
                f"out: {str(out)!r} holds a run with other settings:\n{lines}\nGive another folder, or --force to go "
                "on with the new ones"
            )
    elif not path.exists() and any(p.name != ".lock" for p in out.iterdir()):
        raise FileExistsError(f"out: {str(out)!r} holds files that are not a run's; give another folder")


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """One process at a time; the hold ends with the process, however it ends."""
    with (out / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FileExistsError(f"out: {str(out)!r} is in use by another process; give another folder") from None
        yield


def _tensorboard(out: Path) -> Any:
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError("tensorboard: needs the package tensorboardX; pip install 'factorax[tensorboard]'") from None
    return SummaryWriter(str(out / "tensorboard"))


def _json(value: Any) -> Any:
    value = np.asarray(value)
    return value.tolist() if value.ndim else value.item()
