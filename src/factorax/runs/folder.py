"""Run folders: what is in them, and how it is read, also from folders of strangers.

A folder has ``config.json``, ``metrics.jsonl`` (one line per update), ``versions.json``, ``warnings.jsonl`` (if there
were any), ``evaluation.json``, ``checkpoints/`` with the last two states, and ``logs/`` if loggers were asked for.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .._checks import path_of
from .._files import MIB, check_not_linked, parse_json, read_bytes, read_json, read_lines
from .._text import shown
from ..ppo.config import Config, different_settings
from ..ppo.model_files import MAX_CONFIG, NETWORK_COPY
from ..ppo.named_networks import CURRICULUM

fcntl: Any = None
msvcrt: Any = None
try:
    import fcntl
except ImportError:
    with suppress(ImportError):  # systems without either module have no processes
        import msvcrt

FORMAT = 1
CONFIG, METRICS, LOCK = "config.json", "metrics.jsonl", ".lock"
VERSIONS, WARNINGS = "versions.json", "warnings.jsonl"
SCORE = "evaluation.json"
"""File with the scores of the policy at the step that the file names."""
FILES = (CONFIG, METRICS, SCORE, NETWORK_COPY, VERSIONS, WARNINGS)
STEPS, RETURN = "time/total_timesteps", "rollout/ep_rew_mean"
MAX_WARNINGS = 100
"""Maximum number of warnings stored per folder: an environment may warn in every step."""
MAX_METRICS = 2**30
"""Maximum size of a file of metrics in bytes."""
MAX_VALUES = 30_000_000
"""Maximum number of values of metrics that are in memory at once."""


def settings_as_json(config: Config) -> dict[str, Any]:
    """Return settings as they are stored in ``config.json``: choices with settings of their own are texts."""
    # Through JSON, where tuples become lists: they are compared with settings that were read from a file.
    return json.loads(json.dumps(config.to_json()))


def read_config(run: Path) -> dict[str, Any]:
    """Return the format, the names of problem and network, and the settings of a run."""
    run = path_of("run", run, "the folder of a run")
    try:
        content = read_json(run / CONFIG, MAX_CONFIG)
        entries = {key: content[key] for key in ("format", "problem", "network", "config")}
        if entries["format"] != FORMAT or not all(isinstance(entries[key], str) for key in ("problem", "network")):
            raise ValueError(f"format {entries['format']!r:.60}, want {FORMAT}, and names of a problem and a network")
        return entries | {"config": settings_as_json(Config.read(entries["config"]))}
    except FileNotFoundError:
        raise FileNotFoundError(f"{run}: no config.json; want the folder of a run") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{run / CONFIG}: damaged ({error})") from error


def read_metrics(run: Path, select: Callable[[str], object] | None = None) -> list[dict[str, Any]]:
    """Return the metrics of a run, one entry per update.

    - `select`: says which metrics to return in addition to the step, by their names; None for all. A long run takes
      much less memory without those that are not needed.
    """
    path = path_of("run", run, "the folder of a run") / METRICS
    if not path.exists():
        raise FileNotFoundError(f"{path}: no metrics; want the folder of a run")
    rows, values = [], 0
    for _, row in metric_rows(path):
        if select is not None:
            row = {name: value for name, value in row.items() if name == STEPS or select(name)}
        rows.append(row)
        values += 10 + sum(len(value) if isinstance(value, list | dict) else 1 for value in row.values())
        if values > MAX_VALUES:  # a stranger's file; all of this is needed of a file that training has written
            raise ValueError(f"{path}: has more than {MAX_VALUES:,} values, which is the limit")
    return rows


def metric_rows(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the whole lines of a file of metrics and their contents; the last line may have been cut off by a crash."""
    before = 0
    try:
        for line in read_lines(path, MAX_METRICS):
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


def read_evaluation(run: Path, timesteps: int) -> tuple[float, ...]:
    """Return the returns of the episodes with which the policy was evaluated at this step; empty if it was not."""
    try:
        score = read_json(run / SCORE, MIB)
        episodes = score["episodes"] if score["timesteps"] == timesteps else ()
        is_valid = all(type(x) in (int, float) and abs(x) < 1e300 for x in episodes)  # also excludes NaN
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    return tuple(map(float, episodes)) if is_valid else ()


def read_versions(run: Path) -> dict[str, str]:
    """Return the versions that a run was trained with; empty if the file is missing or damaged."""
    try:
        content = read_json(run / VERSIONS, MIB)
    except (OSError, ValueError):
        return {}
    return {str(k): str(v)[:200] for k, v in content.items()} if isinstance(content, dict) else {}


def read_warnings(run: Path) -> list[str]:
    """Return the distinct warnings of training; empty if the folder has none."""
    try:
        # Not `splitlines`, which also splits at separators that a message may contain.
        lines = read_bytes(run / WARNINGS, MIB).decode(errors="replace").split("\n")
    except (OSError, ValueError):
        return []
    messages = []
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):  # a line cut off by a crash
            messages.append(str(parse_json(line)["message"]))
    return list(dict.fromkeys(messages))[:MAX_WARNINGS]


def check_folder(out: Path) -> None:
    """Raise FileExistsError if a folder contains other files than those of a run, or links to files elsewhere."""
    names = {path.name for path in out.iterdir()} - {LOCK}
    # A crash during the first write leaves temporary files of ours only: such a folder can be used.
    if CONFIG not in names and not all(name.startswith(tuple(f".{file}." for file in FILES)) for name in names):
        raise FileExistsError(f"out: {str(out)!r} contains files that do not belong to a run; want another folder")
    for name in (*FILES, LOCK, "checkpoints", "logs"):
        if (out / name).is_symlink():
            check_not_linked(out / name)
    root = out.resolve()
    for folder in (out / "checkpoints", out / "logs"):
        for parent, folders, files in os.walk(folder):
            for path in (Path(parent) / name for name in (*folders, *files)):
                if path.is_symlink() and (folder.name == "checkpoints" or not path.resolve().is_relative_to(root)):
                    check_not_linked(path)
            if Path(parent) == out / "logs" and "wandb" in folders:
                folders.remove("wandb")  # W&B links to a log in the user's cache, and writes to new folders only


def check_settings(out: Path, requested: dict[str, Any]) -> None:
    """Raise FileExistsError if the settings differ from those of the run in the folder."""
    stored, settings = read_config(out), requested["config"]
    changed = {key: (stored[key], requested[key]) for key in ("problem", "network") if stored[key] != requested[key]}
    # Training longer is not a change of settings, unless something depends on the number of steps.
    scheduled = settings["anneal"] or requested["network"].startswith(CURRICULUM)
    for key in different_settings(stored["config"], settings, () if scheduled else ("total_timesteps",)):
        changed[key] = (stored["config"].get(key), settings.get(key))
    if changed:
        lines = "\n".join(f"  {key}: {a!r} in the folder, {b!r} requested" for key, (a, b) in changed.items())
        raise FileExistsError(
            f"out: {str(out)!r} contains a run with other settings:\n{lines}\nChoose another folder, or use --force to "
            "continue with the new settings"
        )


_locks: set[int] = set()
"""Files that this process has locked."""


@contextmanager
def lock(out: Path) -> Iterator[None]:
    """Lock the folder `out` for this process. The lock ends with the process, however the process ends."""
    path = out / LOCK
    if path.is_symlink():  # a hard link is harmless, since the file is not written to
        check_not_linked(path)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    _locks.add(handle)
    try:
        try:
            # A lock of the operating system: the existence of a file would outlive a killed process.
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            elif msvcrt is not None:
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            # These say that it is locked; any other says that this file system has no locks, and none is assumed.
            if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                raise
            raise FileExistsError(f"out: {shown(str(out))} is in use by another process; want another folder") from None
        yield
    finally:
        if handle in _locks:  # not in a forked child
            _locks.discard(handle)
            os.close(handle)


def _close_in_child() -> None:
    """Close the locked files in a forked process."""
    # A simulator that outlives its parent would hold the lock.
    while _locks:
        os.close(_locks.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
