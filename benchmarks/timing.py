"""Ratios of medians within one run: absolute times depend on the machine and its load, ratios hardly do."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One row of the table: our result relative to a named yardstick."""

    name: str
    ours: str
    yardstick: str
    ratio: float
    bound: str  # what was promised, e.g. "≤ 1.10"
    kept: bool


def medians(*functions: Callable[[], Any], repeats: int = 15) -> list[float]:
    """Return the median seconds of each function, called in turn so that noise affects all of them equally."""
    for function in functions:
        function()  # compile, fill caches
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            taken.append(time.perf_counter() - start)
    return [statistics.median(t) for t in times]


def at_most(name: str, ours: float, yardstick: float, what: str, bound: float) -> Row:
    """Return a row whose time may be at most `bound` times that of the yardstick."""
    ratio = ours / yardstick
    return Row(
        name, f"{ours * 1e3:.4g} ms", f"{yardstick * 1e3:.4g} ms {what}", ratio, f"≤ {bound:.2f}×", ratio <= bound
    )


def at_least(name: str, ours: float, yardstick: float, what: str, bound: float, unit: str = "it/s") -> Row:
    """Return a row whose rate must be at least `bound` times that of the yardstick."""
    ratio = ours / yardstick
    return Row(name, f"{ours:,.0f} {unit}", f"{yardstick:,.0f} {unit} {what}", ratio, f"≥ {bound:.2f}×", ratio >= bound)
