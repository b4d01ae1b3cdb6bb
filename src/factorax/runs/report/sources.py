"""Inputs of a report, which are not trusted: run folders, experiment folders and discovery files."""

import base64
import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..._checks import listed, path_of, shown
from ..._files import MIB, read_bytes, read_json
from ...discovery.result import Discovery
from ..folder import SCORE, read_config
from ..provenance import read_made_with, read_warnings
from .curves import RunCurves, read_curves

_MOST_SOURCES = 2000
_LARGEST_FIGURE = 8 * MIB
_LARGEST_TABLE = 64 * MIB
_CLAIM = ("claim", "where", "paper", "ours", "verdict", "note", "command")


@dataclass(frozen=True)
class RunSource:
    """The readable contents of a run folder."""

    path: Path
    config: dict[str, Any]
    """The result of `read_config`."""
    curves: RunCurves | None
    """None if there are no metrics, or they are damaged."""
    notes: tuple[str, ...] = ()
    """Sentences on what is missing or wrong."""
    made_with: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    score: dict[str, Any] | None = None
    """The evaluation of the final policy, if it has one."""

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.config["config"]["seed"])

    @property
    def checkpoints(self) -> list[Path]:
        """The existing checkpoints, the last one first."""
        files = (self.path / "checkpoints" / f"{name}.safetensors" for name in ("last", "previous"))
        return [file for file in files if file.is_file()]


@dataclass(frozen=True)
class ExperimentSource:
    """The folder of an experiment that `factorax reproduce` has written."""

    path: Path
    config: dict[str, Any]
    claims: tuple[dict[str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figure: str
    """The figure as a PNG data URL; empty if there is none."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiscoverySource:
    """A file that `factorax discover --out` has written."""

    path: Path
    discovery: Discovery


Source = RunSource | ExperimentSource | DiscoverySource


def read_sources(paths: Iterable[Any]) -> list[Source]:
    """Read folders and files; a folder that contains run folders stands for all of them.

    Raises FileNotFoundError or ValueError for anything else.
    """
    want = "folders of runs or experiments, or files of discoveries"
    arguments = [path_of("what", each, want) for each in listed("what", paths, want)]
    if not arguments:
        raise ValueError(f"what: got an empty list, want {want}")
    expanded = [path for argument in arguments for path in _expanded(argument)]
    if len(expanded) > _MOST_SOURCES:
        raise ValueError(f"what: got {len(expanded):,} runs, want at most {_MOST_SOURCES:,}")
    unique = list({path.resolve(): path for path in expanded}.values())
    return [_read(path) for path in unique]


def _expanded(path: Path) -> list[Path]:
    """Return a run, experiment or file itself; for any other folder, those inside it, up to two levels deep."""
    if path.is_file() or (path / "config.json").exists():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(
            f"what: no {str(path)!r}; want the folder of a run or an experiment, or a file of a discovery"
        )
    inside = sorted(file.parent for depth in ("*", "*/*") for file in path.glob(f"{depth}/config.json"))
    if not inside:
        raise ValueError(
            f"what: {str(path)!r} is neither a run nor an experiment, and contains none (no config.json); want the "
            "folder of a run, such as factorax train writes"
        )
    return inside


def _read(path: Path) -> Source:
    if path.is_file():
        if path.suffix != ".safetensors":
            raise ValueError(f"what: got the file {path.name!r}, want a file of factorax discover --out, .safetensors")
        return DiscoverySource(path, Discovery.load(path))
    try:
        content = read_json(path / "config.json", MIB)
    except (OSError, ValueError) as error:
        raise ValueError(f"what: {path / 'config.json'}: damaged ({error})") from error
    if isinstance(content, dict) and isinstance(content.get("experiment"), str):
        return _experiment(path, content)
    return _run(path)


def _run(path: Path) -> RunSource:
    config = read_config(path)
    curves, notes = None, []
    try:
        curves = read_curves(path)
    except FileNotFoundError:
        notes.append("has no metrics yet: no update was made")
    except ValueError as error:
        notes.append(f"its metrics cannot be read: {error}")
    if curves is not None:
        total = config["config"]["total_timesteps"]
        reached = int(curves.steps[-1]) if len(curves.steps) else 0
        if reached < total:
            notes.append(f"has made {reached:,} of {total:,} steps: it is still training, or was stopped")
        if curves.not_finite:
            notes.append(f"{curves.not_finite:,} values in its metrics are not finite numbers and are left out")
        if not curves.updates:
            notes.append("its metrics are empty: no update was made")
    score = _read_score(path)
    if score is not None and curves is not None and len(curves.steps) and score["timesteps"] != curves.steps[-1]:
        score = None  # the score is of an earlier policy
    return RunSource(
        path=path,
        config=config,
        curves=curves,
        notes=tuple(notes),
        made_with=read_made_with(path),
        warnings=tuple(read_warnings(path)),
        score=score,
    )


def _read_score(path: Path) -> dict[str, Any] | None:
    try:
        score = read_json(path / SCORE, MIB)
        episodes = [float(x) for x in score["episodes"]]
        steps = int(score["timesteps"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return {"episodes": episodes, "timesteps": steps} if all(abs(x) < 1e300 for x in episodes) else None


def _experiment(path: Path, config: dict[str, Any]) -> ExperimentSource:
    notes: list[str] = []
    claims: Sequence[dict[str, str]] = ()
    try:
        content = read_json(path / "summary.json")
        claims = [{key: str(row.get(key, "")) for key in _CLAIM} for row in content["claims"]]
    except FileNotFoundError:
        notes.append("has no summary yet: it is still running, or was stopped; run the same command to resume")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        notes.append(f"its summary is damaged ({error})")
    columns, rows = _table(path / "data.csv", notes)
    figure = ""
    try:
        data = read_bytes(path / "figure.png", _LARGEST_FIGURE)
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            figure = "data:image/png;base64," + base64.b64encode(data).decode()
    except (OSError, ValueError):
        pass  # the figure is drawn at the end of an experiment
    return ExperimentSource(
        path=path,
        config=config,
        claims=tuple(claims),
        columns=columns,
        rows=rows,
        figure=figure,
        notes=tuple(notes),
    )


def _table(path: Path, notes: list[str]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    try:
        text = read_bytes(path, _LARGEST_TABLE).decode(errors="replace")
        head, *rows = csv.reader(text.splitlines())
        if any(len(row) != len(head) for row in rows):
            raise ValueError("rows of different lengths")
    except FileNotFoundError:
        return (), ()
    except (ValueError, csv.Error) as error:
        notes.append(f"its data.csv is damaged ({shown(str(error))})")
        return (), ()
    return tuple(head), tuple(map(tuple, rows))
