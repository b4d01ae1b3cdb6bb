"""Run folders: settings, metrics and checkpoints. A run that was stopped or killed resumes from its folder."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .._checks import check_type, checked, path_of
from .._files import (
    MIB,
    check_not_linked,
    parse_json,
    read_json,
    read_lines,
    remove_leftovers,
    sync_folder,
    write_json,
    write_whole,
)
from .._text import shown
from ..ppo import checkpoints
from ..ppo.config import WHO_STEPS, Config
from ..ppo.logger import check_installed, checked_formats, configure
from ..ppo.metrics import Metrics
from ..ppo.model import FactoredPPO
from ..ppo.model_files import (
    LARGEST_CONFIG,
    NETWORK_COPY,
    first_intact,
)
from ..ppo.named_networks import CURRICULUM, is_file
from ..structure import InfluenceNetwork
from .interrupts import Interrupts
from .lock import LOCK, held
from .provenance import MADE_WITH, WARNINGS, WarningRecord, write_made_with
from .recorder import Recorder, room

FORMAT = 1
METRICS = "metrics.jsonl"
STEPS, RETURN = "time/total_timesteps", "rollout/ep_rew_mean"
_LARGEST_METRICS = 2**30
_MOST_VALUES = 30_000_000
"""Maximum number of values of metrics that are in memory at once."""
SCORE = "evaluation.json"
"""File with the scores of the policy at the step that the file names."""
_WRITTEN = ("config.json", METRICS, SCORE, NETWORK_COPY, MADE_WITH, WARNINGS)


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
    """Train in the folder `out`, or resume the run there; return the trained model.

    `problem` and `network` are names, as for `find_problem` and `find_network`; a network file is copied into the
    folder.

    `loggers` names additional formats for the metrics, as in `factorax.ppo.configure`; they are written to
    ``logs/``.

    The folder contains ``config.json``, ``metrics.jsonl`` (one line per update), ``made_with.json`` (versions),
    ``warnings.jsonl`` (if there were any) and ``checkpoints/`` with the last two states. With `force`, changed settings
    are accepted as long as the shapes still fit.
    """
    check_training(problem, config, [out], network=network, force=force, progress_bar=progress_bar)
    loggers = checked_formats(loggers, "loggers")
    for name in loggers:
        check_installed(name)  # before anything is written
    out = Path(out)
    with ExitStack() as stack:
        record = stack.enter_context(WarningRecord())
        model = FactoredPPO(problem, network, **dataclasses.asdict(config))
        run = opened(out, model, problem=problem, config=config, network=network, force=force)
        has_last = stack.enter_context(run)
        record.write_to([out])
        recorder = Recorder(out, model, has_last=has_last)
        if loggers:
            model.set_logger(configure(out / "logs", loggers))

        try:
            with Interrupts() as interrupts:

                def after(model: FactoredPPO, metrics: Metrics) -> None:
                    recorder.write(metrics)
                    if recorder.due:
                        recorder.keep()
                    interrupts.check()

                try:
                    steps = max(config.total_timesteps - model.num_timesteps, 0)
                    with interrupts.allowed:
                        model.learn(steps, after, reset_num_timesteps=False, progress_bar=progress_bar)
                finally:
                    recorder.finish()
        finally:  # last, because environments may fail to close, or hang
            try:
                model.close()
            finally:
                model.logger.close()
    return model


@contextmanager
def opened(
    out: Path, model: FactoredPPO, *, problem: str, config: Config, network: str = "own", force: bool = False
) -> Iterator[bool]:
    """Lock the folder of a run and restore the model from its last checkpoint; yield whether ``last`` was intact."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out: got {shown(str(out))}, cannot create it ({error.strerror}); want a folder") from None
    _check_folder(out)  # before anything is written, including the lock
    with held(out):
        requested = {"format": FORMAT, "problem": problem, "network": network, "config": dataclasses.asdict(config)}
        _check_folder(out)
        remove_leftovers(out, *_WRITTEN)
        remove_leftovers(out / "checkpoints", "new.safetensors")
        _check_settings(out, requested, force)
        stored = out / NETWORK_COPY
        if stored.exists() and not force and InfluenceNetwork.load(stored) != model.spec.network.static:
            raise FileExistsError(
                f"network: has changed since the run in {str(out)!r} started; want another folder, or --force to "
                "continue with the new network"
            )
        has_last = _restore(model, out / "checkpoints") == out / "checkpoints" / "last.safetensors"
        _cut_metrics(model, out)
        # Written only now: settings that do not fit the checkpoint must leave the folder unchanged.
        with room(out, model.num_timesteps):
            if force:
                (out / SCORE).unlink(missing_ok=True)
            write_json(out / "config.json", requested)
            write_made_with(out)
            if is_file(network):
                model.spec.network.static.save(stored)
            (out / "checkpoints").mkdir(exist_ok=True)
            sync_folder(out)
            sync_folder(out.parent)
        yield has_last


def check_training(problem: str, config: Config, outs: Sequence[Any], *, network: str, **flags: bool) -> None:
    """Raise if an argument of `train` or `train_seeds` has a wrong type, before anything is created or written."""
    check_type("problem", problem, str, "the name of a problem, such as 'chain:8'")
    check_type("config", config, Config, "a Config")
    check_type("network", network, str, "the name of a network, such as 'own', or a file")
    for out in outs:
        path_of("out", out, "a folder for the run")
    for name, value in flags.items():
        checked(name, value, bool)


def read_metrics(run: Path, wanted: Callable[[str], object] | None = None) -> list[dict[str, Any]]:
    """Return the metrics of a run, one entry per update.

    - `wanted`: says which metrics to return in addition to the step, by their names; None for all. A long run takes
      much less memory without those that are not needed.
    """
    path = path_of("run", run, "the folder of a run") / METRICS
    if not path.exists():
        raise FileNotFoundError(f"{path}: no metrics; want the folder of a run")
    rows, values = [], 0
    for _, row in _metric_rows(path):
        if wanted is not None:
            row = {name: value for name, value in row.items() if name == STEPS or wanted(name)}
        rows.append(row)
        values += 10 + sum(len(value) if isinstance(value, list | dict) else 1 for value in row.values())
        if values > _MOST_VALUES:  # a file from elsewhere; of an own one, all of this is needed
            raise ValueError(f"{path}: has more than {_MOST_VALUES:,} values, which is the limit")
    return rows


def read_evaluation(run: Path, timesteps: int) -> tuple[float, ...]:
    """Return the returns of the episodes with which the policy was evaluated at this step; empty if it was not."""
    try:
        score = read_json(run / SCORE, MIB)
        episodes = score["episodes"] if score["timesteps"] == timesteps else ()
        is_valid = all(type(x) in (int, float) and abs(x) < 1e300 for x in episodes)  # also excludes NaN
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    return tuple(map(float, episodes)) if is_valid else ()


def _metric_rows(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the whole lines of a file of metrics and their contents; the last line may have been cut off by a crash."""
    before = 0
    try:
        for line in read_lines(path, _LARGEST_METRICS):
            if not line.rstrip(b"\r\n").endswith(b"}"):
                continue
            row = parse_json(line.decode(errors="replace"))
            step = row[STEPS]
            if type(step) is not int or not before <= step < 2**63:
                raise ValueError("steps are not increasing whole numbers")
            before = step
            yield line, row
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: damaged ({error})") from error


def step_back(model: FactoredPPO, out: Path, step: int) -> bool:
    """Make the previous checkpoint the last one and restore it, if it is of this step; return whether it is."""
    last, previous = (out / "checkpoints" / f"{name}.safetensors" for name in ("last", "previous"))
    if not previous.exists() or checkpoints.about(previous).get("timesteps") != step:
        return False
    model.restore(previous)
    with room(out, step):
        os.replace(previous, last)
        sync_folder(last.parent)
    _cut_metrics(model, out)
    return True


def _cut_metrics(model: FactoredPPO, out: Path) -> None:
    """Remove the metrics of updates after the step of the model."""
    path = out / METRICS
    if path.exists():
        with room(out, model.num_timesteps):
            write_whole(
                path,
                lambda file: file.writelines(
                    line for line, row in _metric_rows(path) if row[STEPS] <= model.num_timesteps
                ),
            )


def _restore(model: FactoredPPO, folder: Path) -> Path | None:
    """Restore the last checkpoint, or the previous one if a crash damaged the last; return its path."""
    files = [path for name in ("last", "previous") if (path := folder / f"{name}.safetensors").exists()]

    def restore(path: Path) -> Path:
        model.restore(path)
        return path

    return first_intact(files, restore) if files else None


def read_config(run: Path) -> dict[str, Any]:
    """Return the format, the names of problem and network, and the settings of a run."""
    run = path_of("run", run, "the folder of a run")
    try:
        content = read_json(run / "config.json", LARGEST_CONFIG)
        entries = {key: content[key] for key in ("format", "problem", "network", "config")}
        if entries["format"] != FORMAT or not all(isinstance(entries[key], str) for key in ("problem", "network")):
            raise ValueError(f"format {entries['format']!r:.60}, want {FORMAT}, and names of a problem and a network")
        config = dataclasses.asdict(Config.read(entries["config"]))
        return entries | {"config": json.loads(json.dumps(config))}
    except FileNotFoundError:
        raise FileNotFoundError(f"{run}: no config.json; want the folder of a run") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{run / 'config.json'}: damaged ({error})") from error


def _check_folder(out: Path) -> None:
    """Raise FileExistsError if a folder contains other files than those of a run, or links to files elsewhere."""
    names = {path.name for path in out.iterdir()} - {LOCK}
    if "config.json" not in names and not all(
        name.startswith(tuple(f".{file}." for file in _WRITTEN)) for name in names
    ):
        raise FileExistsError(f"out: {str(out)!r} contains files that do not belong to a run; want another folder")
    for name in (*_WRITTEN, LOCK, "checkpoints", "logs"):
        if (out / name).is_symlink():
            check_not_linked(out / name)
    root = out.resolve()
    for folder in (out / "checkpoints", out / "logs"):
        for parent, folders, files in os.walk(folder):
            for path in (Path(parent) / name for name in (*folders, *files)):
                if path.is_symlink() and (folder.name == "checkpoints" or not path.resolve().is_relative_to(root)):
                    check_not_linked(path)


def _check_settings(out: Path, requested: dict[str, Any], force: bool) -> None:
    """Raise FileExistsError if the settings differ from those of the run in the folder."""
    path = out / "config.json"
    requested = json.loads(json.dumps(requested))
    if path.exists() and not force:
        stored = read_config(out)
        changed = {
            key: (stored[key], requested[key]) for key in ("problem", "network") if stored[key] != requested[key]
        }
        for key in sorted(stored["config"].keys() | requested["config"].keys()):
            a, b = stored["config"].get(key), requested["config"].get(key)
            # depends on the number of steps
            ends = requested["config"]["anneal"] or requested["network"].startswith(CURRICULUM)
            longer = key == "total_timesteps" and not ends  # training longer is not a change of settings
            if a != b and not longer and key not in WHO_STEPS:
                changed[key] = (a, b)
        if changed:
            lines = "\n".join(f"  {key}: {a!r} in the folder, {b!r} requested" for key, (a, b) in changed.items())
            raise FileExistsError(
                f"out: {str(out)!r} contains a run with other settings:\n{lines}\nChoose another folder, or use "
                "--force to "
                "continue with the new settings"
            )
