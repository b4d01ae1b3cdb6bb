"""`Logger`: collects named numbers during training and passes them to writers: the screen, a CSV file, TensorBoard or
Weights & Biases."""

import contextlib
import csv
import io
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np

from .._checks import Range, checked, listed, path_of
from .._files import append_text, write_whole
from .._text import did_you_mean, printable, shown
from ..structure import InfluenceNetwork

MAX_VECTOR = 256
"""Number of entries of a vector above which it is summarised: by its median here, by its quartiles in run folders."""


class Writer(Protocol):
    """Writes the numbers of an update to one destination."""

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Write the values after this many steps."""
        ...

    def close(self) -> None:
        """Finish writing; does nothing by default."""


class Logger:
    """Numbers recorded since the last `dump`, and the writers that receive them.

    The methods are named as in Stable-Baselines3. A callback may record its own numbers:
    ``model.logger.record("custom/value", 1.0)``.

    >>> logger = Logger()
    >>> logger.record("custom/value", 2)
    >>> logger.name_to_value
    {'custom/value': 2.0}
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, writers: Sequence[Writer] = ()):
        self.dir = None if folder is None else os.fspath(path_of("folder", folder, "a folder"))
        self.writers = listed("writers", writers, "a list of writers")
        for writer in self.writers:
            if not hasattr(writer, "write") or not hasattr(writer, "close"):
                raise TypeError(
                    f"writers: got {shown(writer)}, want objects with write and close; configure() creates them"
                )
        self.name_to_value: dict[str, float] = {}
        self.name_to_excluded: dict[str, Sequence[str]] = {}
        self._means: dict[str, tuple[float, int]] = {}

    def record(self, key: str, value: Any, exclude: str | Sequence[str] | None = None) -> None:
        """Record a number under a name until the next `dump`, replacing an earlier one.

        `exclude`: one or more formats, such as ``"stdout"``, that do not show it.
        """
        if type(key) is not str or not key:
            raise TypeError(f"key: got {shown(key)}, want the name of a figure, such as train/loss")
        try:
            # Text is refused even if it is that of a number: it is a mistake, such as a formatted value.
            self.name_to_value[key] = float("not a number" if isinstance(value, str) else value)
        except (TypeError, ValueError):
            raise TypeError(f"value: got {shown(value)}, want a number") from None
        self.name_to_excluded[key] = (exclude,) if isinstance(exclude, str) else tuple(exclude or ())

    def record_mean(self, key: str, value: Any, exclude: str | Sequence[str] | None = None) -> None:
        """Record one of several numbers whose mean is written at the next `dump`."""
        self.record(key, value, exclude)
        total, count = self._means.get(key, (0.0, 0))
        self._means[key] = total, count = total + self.name_to_value[key], count + 1
        self.name_to_value[key] = total / count

    def dump(self, step: int = 0) -> None:
        """Pass all recorded numbers to the writers and clear them."""
        checked("step", step, Annotated[int, Range(0)])
        for writer in self.writers:
            name = next((name for name, kind in _WRITERS.items() if isinstance(writer, kind)), "")
            # Writers of users have no name, and get everything.
            values = self.name_to_value.items()
            writer.write({key: value for key, value in values if name not in self.name_to_excluded[key]}, step)
        self.name_to_value, self.name_to_excluded, self._means = {}, {}, {}

    def get_dir(self) -> str | None:
        """Return the configured folder, if any."""
        return self.dir

    def close(self) -> None:
        """Close all writers."""
        for writer in self.writers:
            writer.close()


class TableWriter(Writer):
    """Prints a table, grouped by the part of each name before the slash."""

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Print the values."""
        rows: list[tuple[str, str]] = []
        group = None
        for name in sorted(values):
            name, value = printable(name), values[name]
            head, slash, rest = name.partition("/")
            if slash and head != group:
                group = head
                rows.append((f"{head}/", ""))
            rows.append((f"   {rest}" if slash else name, f"{value:.6g}"))
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
        line = "-" * (sum(widths) + 7)
        table = [f"| {name:<{widths[0]}} | {value:<{widths[1]}} |" for name, value in rows]
        print("\n".join([line, *table, line]), flush=True)


class TensorBoardWriter(Writer):
    """Writes TensorBoard events to a folder, with tensorboardX."""

    def __init__(self, folder: str | os.PathLike[str]):
        check_formats(["tensorboard"])  # a model creates this writer without `configure`
        from tensorboardX import SummaryWriter

        # The name of an event file contains the second; a second file in that second would replace the first.
        number = len(list(Path(folder).glob("events.*")))
        # An unpredictable name: nobody can have created a link of this name to another file.
        suffix = f".{number}.{secrets.token_hex(4)}"
        self.events: Any = SummaryWriter(os.fspath(folder), filename_suffix=suffix)

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Add the values as scalars."""
        for name, value in values.items():
            self.events.add_scalar(name, value, step)
        self.events.flush()

    def close(self) -> None:
        """Close the file."""
        self.events.close()


class WandbWriter(Writer):
    """Writes to Weights & Biases; offline unless `mode` or the variable WANDB_MODE is set.

    Offline, the run is a folder inside `folder`, which ``wandb sync`` uploads.
    """

    def __init__(self, folder: str | os.PathLike[str], *, mode: str | None = None, **options: Any):
        import wandb  # pyright: ignore[reportMissingImports]

        Path(folder).mkdir(parents=True, exist_ok=True)
        # Offline by default: nothing leaves the machine unless the user says so.
        mode = mode or os.environ.get("WANDB_MODE", "offline")
        options = {"project": "factorax", "dir": os.fspath(folder), "mode": mode} | options
        self.run: Any = wandb.init(**options)

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Log the values."""
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        """Finish the run."""
        self.run.finish()


class CSVWriter(Writer):
    """Writes one row per update to ``progress.csv``; a new column rewrites the file."""

    def __init__(self, folder: str | os.PathLike[str]):
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.path = Path(folder) / "progress.csv"
        self.columns: list[str] = []

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Append a row."""
        new = [name for name in sorted(values) if name not in self.columns]
        earlier: list[Any] = []
        if new and self.columns:
            with self.path.open(newline="") as file:
                earlier = list(csv.DictReader(file))
        self.columns += new
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, restval="")
        if new:
            writer.writeheader()
        writer.writerows([*earlier, values])
        if new:  # replaced rather than opened, since it may be a link
            write_whole(self.path, lambda file: file.write(text.getvalue().encode()))
        else:
            append_text(self.path, text.getvalue())


_WRITERS: dict[str, Any] = {
    "stdout": TableWriter,
    "tensorboard": TensorBoardWriter,
    "csv": CSVWriter,
    "wandb": WandbWriter,
}
FORMATS = tuple(_WRITERS)
_PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}


def configure(folder: str | os.PathLike[str] | None = None, formats: Sequence[str] = ("stdout",)) -> Logger:
    """Return a logger that writes in these formats to a folder, for `FactoredPPO.set_logger`.

    - `formats`: some of ``"stdout"``, ``"tensorboard"``, ``"csv"`` and ``"wandb"``.
    """
    with contextlib.ExitStack() as stack:  # if one cannot be created, close those before it
        writers: list[Writer] = []
        for name in check_formats(formats):
            if name != "stdout" and folder is None:
                raise ValueError(f"folder: got None for the format {name!r}, want a folder to write to")
            writers.append(_WRITERS[name](*[folder] * (name != "stdout")))
            stack.callback(writers[-1].close)
        stack.pop_all()
    return Logger(folder, writers)


def check_formats(formats: Any, argument: str = "formats") -> list[str]:
    """Return a list of formats; raise ValueError for an unknown one, ImportError for one whose package is missing."""
    names = listed(argument, formats, f"a list with some of {', '.join(FORMATS)}")
    for name in names:
        if name not in FORMATS:
            hint = did_you_mean(name, FORMATS, quoted=True)
            raise ValueError(f"{argument}: got {name!r}, want some of {', '.join(FORMATS)}{hint}")
        if name in _PACKAGES and find_spec(_PACKAGES[name]) is None:
            raise ImportError(f"{name}: needs the package {_PACKAGES[name]}; pip install 'factorax[{name}]'")
    return names


def numbered_folder(parent: str | os.PathLike[str], name: str, *, latest: bool = False) -> Path:
    """Return the folder ``name_1``, ``name_2``, … of a new run below `parent`, as Stable-Baselines3 numbers them.

    - `latest`: return the last one that exists, if there is one.
    """
    parent = Path(parent)
    endings = (path.name.removeprefix(f"{name}_") for path in parent.glob(f"{name}_*"))
    last = max((int(ending) for ending in endings if ending.isdecimal()), default=0)
    return parent / f"{name}_{max(last, 1) if latest else last + 1}"


def scalars(metrics: Mapping[str, Any], network: InfluenceNetwork) -> Iterator[tuple[str, float]]:
    """Yield named numbers: vectors by factor or target labels, long vectors by their median; strings are skipped."""
    for name, value in metrics.items():
        value = np.asarray(value)
        if value.dtype.kind == "U" or name == "network/changed":
            continue
        labels: Iterable[str] = network.actions if name.startswith(("factor/", "variance/")) else network.targets
        if value.ndim == 0:
            yield name, float(value)
        elif value.size > MAX_VECTOR:
            yield f"{name}/median", float(np.median(value))
        else:
            yield from ((f"{name}/{label}", float(x)) for label, x in zip(labels, value, strict=True))
