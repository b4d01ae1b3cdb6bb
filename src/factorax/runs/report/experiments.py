"""Results of `factorax reproduce` and `factorax discover` in a report."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...structure.labels import counted
from ..statistics import normal_mean
from .curves import numbers
from .sources import DiscoverySource, ExperimentSource
from .verdict import Verdict

_X = ("step", "steps", "timesteps", "time", "n", "samples", "lights", "step_size", "size")
"""Columns that can be the x-axis of a chart, in order of preference."""
_REPEATED = ("seed", "seeds", "repeat", "trial", "run")
"""Columns that distinguish repetitions, over which intervals are computed."""
_MOST_SERIES = 24
_MOST_ROWS = 200
_VERDICTS = {
    "holds": ("holds", "hold"),
    "holds in part": ("holds in part", "hold in part"),
    "does not hold": ("does not hold", "do not hold"),
}


def experiment_verdict(source: ExperimentSource) -> Verdict:
    """Return two sentences on the claims that an experiment decides."""
    name, budget = str(source.config["experiment"]), str(source.config.get("budget", ""))
    verdicts = Counter(claim["verdict"] for claim in source.claims)
    said = ", ".join(
        f"{verdicts[verdict]} {one if verdicts[verdict] == 1 else many}"
        for verdict, (one, many) in _VERDICTS.items()
        if verdicts[verdict]
    )
    seed = source.config.get("seed", "")
    rows = counted(len(source.rows), "row")
    first = f"The experiment {name} ran with the budget {budget} and seed {seed}, and has {rows} of data."
    second = f"Of {counted(len(source.claims), 'claim')} that it decides, {said or 'none is decided yet'}."
    return Verdict(name, (first, second))


def experiment_section(source: ExperimentSource) -> dict[str, Any]:
    """Return the figure, the claims, the chart and the data of an experiment."""
    return {
        "name": str(source.config["experiment"]),
        "figure": source.figure,
        "claims": [*source.claims],
        "columns": [*source.columns],
        "rows": [*source.rows[:_MOST_ROWS]],
        "n_rows": len(source.rows),
        "chart": data_chart(source.columns, source.rows),
        "settings": [{"name": str(k), "value": str(v)} for k, v in _pairs(source.config.get("settings"))],
        "versions": [{str(k): str(v) for k, v in _pairs(source.config.get("made_with"))}],
        "command": _command(source),
        "path": str(source.path),
    }


def data_chart(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Any] | None:
    """Return curves of the last numeric column over a step or size, one per combination of the other columns.

    None if the data have no such columns.
    """
    table = {name: _numeric([row[k] for row in rows]) for k, name in enumerate(columns)}
    x_name = next((name for name in _X if table.get(name) is not None), None)
    measured = [name for name in columns if table[name] is not None and name not in (x_name, *_REPEATED)]
    if x_name is None or not measured or len(rows) < 2:
        return None
    y_name = measured[-1]
    place = {name: k for k, name in enumerate(columns)}
    kinds = [name for name in columns if name not in (x_name, y_name, *_REPEATED) and _is_kind(rows, place[name])]
    x, y = table[x_name], table[y_name]
    assert x is not None
    assert y is not None
    groups: dict[str, dict[float, list[float]]] = {}
    for k, row in enumerate(rows):
        name = ", ".join(row[place[kind]] if table[kind] is None else f"{kind} {row[place[kind]]}" for kind in kinds)
        if math.isfinite(x[k]) and math.isfinite(y[k]):
            groups.setdefault(name or y_name, {}).setdefault(float(x[k]), []).append(float(y[k]))
    series = []
    for name, points in list(groups.items())[:_MOST_SERIES]:
        order = sorted(points)
        intervals = [normal_mean(points[each]) for each in order]
        repeated = any(len(points[each]) > 1 for each in order)
        low, high = ([getattr(each, end) for each in intervals] for end in ("low", "high"))
        series.append(
            {"name": name, "x": {"x": numbers(order)}, "y": numbers([each.mean for each in intervals])}
            | {"low": numbers(low) if repeated else None, "high": numbers(high) if repeated else None}
        )
    if not any(len(each["y"]) > 1 for each in series):
        return None
    positive = [value for each in series for value in each["x"]["x"]]
    return {
        "axes": {"x": x_name.replace("_", " ")},
        "y": y_name.replace("_", " "),
        "series": series,
        "log_x": min(positive) > 0 and max(positive) / min(positive) > 100 and _spaced(positive),
        "left_out": max(0, len(groups) - _MOST_SERIES),
    }


def discovery_verdict(source: DiscoverySource) -> Verdict:
    """Return what a discovery found, and its guarantee."""
    about, edges, *more = (line for line in str(source.discovery).split("\n") if line)
    promise = next((line for line in more if line.startswith("What it says")), "")
    sentences = (f"Discovery, {about}: {edges}.", *([promise] if promise else []))
    return Verdict(source.path.name, sentences, more=tuple(line for line in more if line != promise))


def _command(source: ExperimentSource) -> str:
    config = source.config
    commands = {claim["command"] for claim in source.claims if claim["command"]}
    if commands:
        return sorted(commands)[0]
    return f"factorax reproduce {config['experiment']} --budget {config.get('budget')} --seed {config.get('seed')}"


def _numeric(values: Sequence[str]) -> np.ndarray | None:
    try:
        return np.array([float(value) for value in values]) if values else None
    except ValueError:
        return None


def _is_kind(rows: Sequence[Sequence[str]], column: int) -> bool:
    """Return whether a column has few values, and therefore distinguishes series."""
    return 1 < len({row[column] for row in rows}) <= 20


def _spaced(values: Sequence[float]) -> bool:
    """Return whether numbers grow by factors rather than in equal steps."""
    unique = sorted(set(values))
    gaps = [b - a for a, b in pairwise(unique)]
    return len(gaps) > 1 and max(gaps) > 10 * min(gaps)


def _pairs(content: Any) -> list[tuple[Any, Any]]:
    return list(content.items()) if isinstance(content, dict) else []
