"""Run folders: settings, metrics and checkpoints; a run that was stopped or killed is resumed from them."""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._files import remove_leftovers, write_json, write_whole
from ..learning.config import WHO_STEPS, Config
from ..learning.factored_ppo import FactoredPPO
from ..learning.logger import configure
from ..learning.metrics import Metrics
from ..learning.named_networks import is_file
from ..learning.stored import NETWORK_COPY, network_of_run
from ..problems.registry import runs_code
from ..structure import InfluenceNetwork
from .lock import LOCK, held
from .recorder import Recorder, room

FORMAT = 1
SCORE = "evaluation.json"
"""Scores of the current policy: that of the settings in ``config.json`` after the steps that the file names."""


def train(
    problem: str,
    config: Config,
    out: Path,
    *,
    network: str = "own",
    force: bool = False,
    progress_bar: bool = True,
    loggers: Sequence[str] = (),
) -> FactoredPPO:
    """Trains into the folder `out`, or resumes the run there; returns the trained model.

    `problem` and `network` are names, as for `find_problem` and `find_network`; a network that is a file is copied into
    the folder.

    `loggers` names other formats for the metrics, as `factorax.learning.configure` knows them; they go to ``logs/``.

    The folder holds ``config.json``, ``metrics.jsonl`` (one line per update) and ``checkpoints/`` with the last state
    and the one before it. With `force` changed settings are accepted, as long as the shapes still fit.
    """
    out = Path(out)
    model = make_model(problem, network, dataclasses.asdict(config))
    with opened(out, model, problem=problem, config=config, network=network, force=force) as has_last:
        recorder = Recorder(out, model, has_last=has_last)
        if loggers:
            model.set_logger(configure(out / "logs", loggers))

        def after(model: FactoredPPO, metrics: Metrics) -> None:
            recorder.write(metrics)
            if recorder.due:
                recorder.keep()

        try:
            steps = max(config.total_timesteps - model.num_timesteps, 0)
            model.learn(steps, after, reset_num_timesteps=False, progress_bar=progress_bar)
        finally:
            model.close()
            model.logger.close()
            recorder.keep()
    return model


@contextmanager
def opened(
    out: Path, model: FactoredPPO, *, problem: str, config: Config, network: str = "own", force: bool = False
) -> Iterator[bool]:
    """Locks the folder of a run and restores the model from its last checkpoint; yields whether ``last`` was intact."""
    out.mkdir(parents=True, exist_ok=True)
    with held(out):
        requested = {"format": FORMAT, "problem": problem, "network": network, "config": dataclasses.asdict(config)}
        remove_leftovers(out, "config.json", "metrics.jsonl", SCORE, NETWORK_COPY)
        remove_leftovers(out / "checkpoints", "new.safetensors")
        _check_settings(out, requested, force)
        _check_network(model.spec.network.static, out / NETWORK_COPY, force)
        has_last = _resume(model, out) == out / "checkpoints" / "last.safetensors"
        # Written only now: settings that fit no checkpoint must leave the folder unchanged.
        with room(out, model.num_timesteps):
            if force:
                (out / SCORE).unlink(missing_ok=True)
            write_json(out / "config.json", requested)
            if is_file(network):
                model.spec.network.static.save(out / NETWORK_COPY)
            (out / "checkpoints").mkdir(exist_ok=True)
        yield has_last


def load(run: Path, *, trusted: str | None = None) -> FactoredPPO:
    """Returns the model of a run folder, as of its last checkpoint.

    A folder may come from a stranger. If its problem is a ``package.module:function``, or of a family that was added
    with `register`, that code is run only if its name is given again, as `trusted`.
    """
    config = read_config(Path(run))
    problem, network = config["problem"], config["network"]
    if runs_code(problem) and problem != trusted:
        raise ValueError(
            f"{run}: was trained on {problem!r}, which is code to be run; if you trust it, say so with "
            f"--problem {problem}"
        )
    model = make_model(problem, network_of_run(Path(run), network), config["config"])
    if not _restore(model, Path(run) / "checkpoints"):
        raise FileNotFoundError(f"{run}: no checkpoint yet; train it first")
    return model


def make_model(problem: str, network: str, settings: dict[str, Any]) -> FactoredPPO:
    """Returns an untrained model, from names and settings."""
    return FactoredPPO(problem, network, **settings)


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Returns the metrics of a run, one entry per update."""
    path = Path(run) / "metrics.jsonl"
    if not path.exists():
        raise FileNotFoundError(f"{path}: no metrics; want the folder of a run")
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
        if not all(isinstance(row["time/total_timesteps"], int) for row in rows):
            raise ValueError("steps that are not whole numbers")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: damaged ({error})") from error
    return rows


def _resume(model: FactoredPPO, out: Path) -> Path | None:
    """Restores the last intact checkpoint, whose path is returned, and cuts the metrics back to its step."""
    restored = _restore(model, out / "checkpoints")
    path = out / "metrics.jsonl"
    if path.exists():
        kept = [row for row in read_metrics(out) if row["time/total_timesteps"] <= model.num_timesteps]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
        with room(out, model.num_timesteps):
            write_whole(path, lambda file: file.write(text.encode()))
    return restored


def _restore(model: FactoredPPO, folder: Path) -> Path | None:
    """Restores the last checkpoint, or the one before it if a crash damaged the last; returns its path."""
    first_error: Exception | None = None
    for name in ("last", "previous"):
        path = folder / f"{name}.safetensors"
        if path.exists():
            try:
                model.restore(path)
                return path
            except ValueError as error:
                first_error = first_error or error
    if first_error is not None:
        raise first_error
    return None


def read_config(run: Path) -> dict[str, Any]:
    """Returns the format, the names of problem and network, and the settings of a run."""
    try:
        content = json.loads((run / "config.json").read_bytes())
        entries = {key: content[key] for key in ("format", "problem", "network", "config")}
        if entries["format"] != FORMAT or not all(isinstance(entries[key], str) for key in ("problem", "network")):
            raise ValueError(f"format {entries['format']!r:.60}, want {FORMAT}, and names of a problem and a network")
        config = dataclasses.asdict(Config.read(entries["config"]))  # with the settings that an earlier version lacks
        return entries | {"config": json.loads(json.dumps(config))}
    except FileNotFoundError:
        raise FileNotFoundError(f"{run}: no config.json; want the folder of a run") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{run / 'config.json'}: damaged ({error})") from error


def _check_settings(out: Path, requested: dict[str, Any], force: bool) -> None:
    """Compares the settings with those of the run in the folder, if there is one."""
    path = out / "config.json"
    requested = json.loads(json.dumps(requested))
    if path.exists() and not force:
        stored = read_config(out)
        changed = {
            key: (stored[key], requested[key]) for key in ("problem", "network") if stored[key] != requested[key]
        }
        for key in sorted(stored["config"].keys() | requested["config"].keys()):
            a, b = stored["config"].get(key), requested["config"].get(key)
            longer = key == "total_timesteps" and not requested["config"]["anneal"]  # not a change of settings
            if a != b and not longer and key not in WHO_STEPS:
                changed[key] = (a, b)
        if changed:
            lines = "\n".join(f"  {key}: {a!r} there, {b!r} asked for" for key, (a, b) in changed.items())
            raise FileExistsError(
                f"out: {str(out)!r} holds a run with other settings:\n{lines}\nGive another folder, or --force to "
                "continue with the new ones"
            )
    elif not path.exists() and any(p.name != LOCK for p in out.iterdir()):
        raise FileExistsError(f"out: {str(out)!r} holds files that are not a run's; give another folder")


def _check_network(network: InfluenceNetwork, path: Path, force: bool) -> None:
    """Compares the edges with those of the copy in the folder: the file of a network may have been changed."""
    if path.exists() and not force and InfluenceNetwork.load(path) != network:
        raise FileExistsError(
            f"network: has changed since the run in {str(path.parent)!r} began; give another folder, or --force to "
            "continue with the new one"
        )
