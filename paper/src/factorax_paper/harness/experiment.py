"""The definition of an experiment, and how it is run: settings, data, summary with intervals, figure."""

import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
from rich.console import Console

from factorax._files import read_json, remove_leftovers, write_json, write_whole
from factorax.runs.training import versions

from .claims import Claim
from .parts import Arrays, Part, run_parts
from .table import Table, read_csv, write_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = 1  # of config.json and the files next to it


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper. `S` below is its dataclass of settings."""

    name: str
    """Name on the command line."""
    title: str
    """A one-line description."""
    paper: str
    """The figure or table of the paper."""
    budgets: Mapping[str, Any]
    """Settings by name: ``"quick"`` and ``"paper"``."""
    parts: Callable[[Any, int], Sequence[Part]]
    """Returns the parts of the work for (S, seed)."""
    tabulate: Callable[[Any, int, list[Arrays]], Table]
    """Maps (S, seed, results of the parts) to the rows of ``data.csv``."""
    summarise: Callable[[Any, Table], dict[str, Any]]
    """Maps (S, data) to the results with intervals, for ``summary.json``."""
    draw: Callable[[Any, Table, dict[str, Any]], "Figure"]
    """Maps (S, data, summary) to the figure."""
    claims: Callable[[Any, dict[str, Any]], list[Claim]]
    """Maps (S, summary) to the claims with verdicts."""
    table: Callable[[dict[str, Any]], Any] | None = None
    """Maps a summary to a table to print, if the paper has one."""
    alone: bool = False
    """Whether its parts must run one at a time, because it measures time."""
    missing: Callable[[Any, int, Table, Path], Sequence[Part]] | None = None
    """Maps (S, seed, data, folder) to parts that measure values missing in the data, as far as this machine can. Their
    results replace values of the data: ``"rows"`` contains row indices, and each other array the new values of a column
    in these rows."""

    @classmethod
    def of(cls, module: str, **fields: Any) -> "Experiment":
        """Return the experiment of a module, with its name and its functions ``parts``, ``tabulate``, …"""
        functions = vars(sys.modules[module])
        steps = {step: functions[step] for step in ("parts", "tabulate", "summarise", "draw", "claims")}
        return cls(name=module.rpartition(".")[2].replace("_", "-"), **steps | fields)


def reproduce(
    experiment: Experiment,
    *,
    budget: str = "quick",
    seed: int = 0,
    out: Path,
    plot_only: bool = False,
    workers: int | None = None,
    settings: Any = None,
    change: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Run an experiment in the folder `out`, or resume it there; return the summary.

    The folder then contains ``config.json``, ``data.csv``, ``summary.json``, ``figure.png`` and ``figure.pdf``, and
    ``parts/`` while it runs. A folder with other files raises FileExistsError.

    - `budget`: a key of ``experiment.budgets``, unless `settings` are given.
    - `change`: settings that differ from those of the budget.
    - `plot_only`: only summarise and plot existing data.
    - `workers`: number of parts to run in parallel; by default one per core, or one on a GPU.

    An experiment that was run where something could not be measured, such as scores in SUMO, is completed by the same
    command where it can be measured (`Experiment.missing`).
    """
    console = console or Console()
    out = Path(out)
    data = out / "data.csv"
    if plot_only:
        if not data.exists():
            raise FileNotFoundError(f"out: no data.csv in {str(out)!r} to draw; run the experiment first")
        stored = _read_config(out)
        if stored["experiment"] == experiment.name:  # its settings are those of the data
            budget, seed = stored["budget"], stored["seed"]
            kind = type(next(iter(experiment.budgets.values())))
            settings = kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in stored["settings"].items()})
    elif settings is not None:
        budget = "custom"
    if settings is None:
        if budget not in experiment.budgets:
            raise ValueError(f"budget: got {budget!r}, want one of {', '.join(experiment.budgets)}")
        settings = experiment.budgets[budget]
        if change:
            unknown = change.keys() - {field.name for field in dataclasses.fields(settings)}
            if unknown:
                name = min(unknown)
                raise ValueError(
                    f"{name}: got {change[name]!r}, and the experiment {experiment.name} has no such setting; leave it "
                    "out"
                )
            settings = dataclasses.replace(settings, **change)
    request = {"experiment": experiment.name, "budget": budget, "seed": seed, "settings": dataclasses.asdict(settings)}
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed: got {seed}, want a number from 0 to 2³² − 1")
    if workers is not None and experiment.alone:
        raise ValueError(
            f"workers: got {workers}, and {experiment.name} measures time, one part at a time; leave it out"
        )
    parts = experiment.parts(settings, seed)  # before anything is written: settings may be wrong
    _claim_folder(out, request)
    if not data.exists():
        side_by_side = 1 if experiment.alone or jax.default_backend() != "cpu" else os.cpu_count() or 1
        started = time.monotonic()
        results = run_parts(
            parts, out / "parts", workers=workers or side_by_side, console=console, title=experiment.name
        )
        write_csv(data, experiment.tabulate(settings, seed, results))
        console.print(f"{experiment.name}: {time.monotonic() - started:.0f} s")
    shutil.rmtree(out / "parts", ignore_errors=True)
    if experiment.missing is not None and not plot_only:
        _complete(experiment.name, experiment.missing(settings, seed, read_csv(data), out), out, workers, console)
    table = read_csv(data)
    summary = experiment.summarise(settings, table)
    known = budget in experiment.budgets
    command = f"factorax reproduce {experiment.name} " + (
        " ".join([f"--budget {budget} --seed {seed}", *_set(change or {})]) if known else "(own settings)"
    )
    rows = [dataclasses.replace(claim, command=command).as_dict() for claim in experiment.claims(settings, summary)]
    write_json(out / "summary.json", {"experiment": experiment.name, "figures": summary, "claims": rows})
    _save_figure(experiment.draw(settings, table, summary), out)
    return summary


def _set(change: Mapping[str, Any]) -> list[str]:
    """Return the option of the command line that changes settings."""
    texts = {key: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for key, v in change.items()}
    return ["--set", *(f"{key}={text}" for key, text in texts.items())] if texts else []


def _complete(name: str, missing: Sequence[Part], out: Path, workers: int | None, console: Console) -> None:
    """Measure missing values and write them into the data."""
    if not missing:
        return
    folder = out / "missing"
    results = run_parts(missing, folder, workers=workers or os.cpu_count() or 1, console=console, title=name)
    table = read_csv(out / "data.csv")
    for result in results:
        rows = result.pop("rows")
        for column, values in result.items():
            table[column][rows] = values
    write_csv(out / "data.csv", table)
    shutil.rmtree(folder, ignore_errors=True)


def _claim_folder(out: Path, request: dict[str, Any]) -> None:
    """Create the folder, or check that it contains this experiment."""
    config = out / "config.json"
    if out.exists() and not out.is_dir():
        raise FileExistsError(f"out: {str(out)!r} is a file; want a folder")
    if not config.exists():
        # A process that was killed while it wrote its first file has left a temporary one.
        if out.exists() and not all(path.name.startswith(f".{config.name}.") for path in out.iterdir()):
            raise FileExistsError(
                f"out: {str(out)!r} contains files that do not belong to an experiment; want another folder"
            )
        out.mkdir(parents=True, exist_ok=True)
        remove_leftovers(out, config.name)
        write_json(config, {"format": FORMAT} | request | {"made_with": versions()})
        return
    stored = _read_config(out)
    requested = json.loads(json.dumps({"format": FORMAT} | request))
    for key in requested:
        if stored[key] != requested[key]:
            detail = "" if key == "experiment" else f" with {key} {_short(stored[key])}, not {_short(requested[key])}"
            raise FileExistsError(
                f"out: {str(out)!r} holds {stored['experiment']}{detail}; nothing was changed. "
                "Give another folder, or remove this one"
            )


def _read_config(out: Path) -> dict[str, Any]:
    path = out / "config.json"
    try:
        content = read_json(path)
        return {key: content[key] for key in ("format", "experiment", "budget", "seed", "settings")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"out: {path} is damaged ({error}); want another folder") from error


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _save_figure(figure: "Figure", out: Path) -> None:
    # The dates in the files are left out: the same data gives the same file.
    write_whole(out / "figure.png", lambda file: figure.savefig(file, format="png", dpi=160))
    write_whole(out / "figure.pdf", lambda file: figure.savefig(file, format="pdf", metadata={"CreationDate": None}))
