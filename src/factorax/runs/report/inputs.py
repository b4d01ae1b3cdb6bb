"""Inputs of a report, which are not trusted: run folders and discovery files."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..._checks import listed, path_of
from ...discovery.result import Discovery
from ..folder import read_config, read_evaluation, read_versions, read_warnings
from .curves import RunCurves, read_curves

MAX_SOURCES = 2000


@dataclass(frozen=True)
class RunInput:
    """The readable contents of a run folder."""

    path: Path
    config: dict[str, Any]
    """The result of `read_config`."""
    curves: RunCurves | None
    """None if there are no metrics, or they are damaged."""
    notes: tuple[str, ...] = ()
    """Sentences on what is missing or wrong."""
    versions: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    evaluation: tuple[float, ...] = ()
    """The returns of the episodes with which the final policy was evaluated; empty if it was not."""

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.config["config"]["seed"])

    @property
    def is_finished(self) -> bool:
        """Whether the run has made all of its steps."""
        steps = [] if self.curves is None else self.curves.steps
        return len(steps) > 0 and steps[-1] >= self.config["config"]["total_timesteps"]

    @property
    def checkpoints(self) -> list[Path]:
        """The existing checkpoints, the last one first."""
        files = (self.path / "checkpoints" / f"{name}.safetensors" for name in ("last", "previous"))
        return [file for file in files if file.is_file()]


@dataclass(frozen=True)
class DiscoveryInput:
    """A file that `factorax discover --out` has written."""

    path: Path
    discovery: Discovery


Source = RunInput | DiscoveryInput


@contextmanager
def errors_as_notes(notes: list[str], what: str) -> Iterator[None]:
    """Add a note instead of raising, so that the rest of a report can be shown."""
    try:
        # Warnings are those of training again, which the report shows from the folder.
        with warnings.catch_warnings(action="ignore"):
            yield
    # Code of users and of plug-ins runs in this block, and may raise anything.
    except Exception as error:
        notes.append(f"{what}: {error}")


def read_inputs(paths: Iterable[Any]) -> list[Source]:
    """Read folders and files; a folder that contains run folders stands for all of them.

    Raises FileNotFoundError or ValueError for anything else.
    """
    want = "folders of runs, or files of discoveries"
    arguments = [path_of("what", each, want) for each in listed("what", paths, want)]
    if not arguments:
        raise ValueError(f"what: got an empty list, want {want}")
    expanded = [path for argument in arguments for path in _expand(argument)]
    if len(expanded) > MAX_SOURCES:
        raise ValueError(f"what: got {len(expanded):,} runs, want at most {MAX_SOURCES:,}")
    # A run may be named directly and through a folder that contains it, or through a link.
    unique = list({path.resolve(): path for path in expanded}.values())
    return [_read(path) for path in unique]


def _expand(path: Path) -> list[Path]:
    """Return a run or a file itself; for any other folder, the runs inside it, up to two levels deep."""
    if path.is_file() or (path / "config.json").exists():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"what: no {str(path)!r}; want the folder of a run, or a file of a discovery")
    # Two levels, as `train --networks` writes them: a deeper search could walk through a whole home directory.
    inside = sorted(file.parent for depth in ("*", "*/*") for file in path.glob(f"{depth}/config.json"))
    if not inside:
        raise ValueError(
            f"what: {str(path)!r} is not a run and contains none (no config.json); want the folder of a run, such as "
            "factorax train writes"
        )
    return inside


def _read(path: Path) -> Source:
    if path.is_file():
        if path.suffix != ".safetensors":
            raise ValueError(f"what: got the file {path.name!r}, want a file of factorax discover --out, .safetensors")
        return DiscoveryInput(path, Discovery.load(path))
    return _run(path)


def _run(path: Path) -> RunInput:
    config = read_config(path)
    curves, notes, evaluation = None, [], ()
    # A run with damaged metrics still has settings and a network to show.
    try:
        curves = read_curves(path)
    except FileNotFoundError:
        notes.append("has no metrics yet: no update was made")
    except ValueError as error:
        notes.append(f"its metrics cannot be read: {error}")
    if curves is not None:
        total = config["config"]["total_timesteps"]
        reached = int(curves.steps[-1]) if len(curves.steps) else 0
        evaluation = read_evaluation(path, reached)
        if reached < total:  # which of the two it is, only its process knows
            notes.append(f"has made {reached:,} of {total:,} steps: it is still training, or was stopped")
        if curves.not_finite:
            notes.append(f"{curves.not_finite:,} values in its metrics are not finite numbers and are left out")
        if not curves.updates:
            notes.append("its metrics are empty: no update was made")
    return RunInput(
        path=path,
        config=config,
        curves=curves,
        notes=tuple(notes),
        versions=read_versions(path),
        warnings=tuple(read_warnings(path)),
        evaluation=evaluation,
    )
