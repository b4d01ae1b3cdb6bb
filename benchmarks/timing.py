"""Ratios of medians within one run: times differ between machines and with their load, ratios hardly do.

A row whose ratio varies from run to run is measured several times (`repeated`): its bound applies to the median of the
ratios, with a tolerance that the table shows.
"""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
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
    limit: float | None = None
    """The number in `bound`."""
    at_least: bool = False
    """Whether the ratio must be above the limit instead of below it."""


def medians(
    *functions: Callable[[], Any], repeats: int = 15, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the median seconds of each function, called in turn so that disturbances affect all of them equally."""
    for function in functions:
        function()  # compile, fill caches
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, taken in zip(functions, times, strict=True):
            start = clock()
            function()
            taken.append(clock() - start)
    return [statistics.median(t) for t in times]


def cpu_medians(*functions: Callable[[], Any], repeats: int = 15) -> list[float]:
    """Return the same as `medians` in processor time of this process, for a machine on which other programs run."""
    return medians(*functions, repeats=repeats, clock=time.process_time)


def repeated(measure: Callable[[], Iterable[Row]], *, runs: int = 3, tolerance: float = 0.05) -> list[Row]:
    """Repeat a measurement and return its rows, each with the median of its ratios.

    A bound is met if the median is within `tolerance` of it; the row shows the tolerance, and the smallest and largest
    ratio.

    >>> ratios = iter([1.0, 1.2, 1.4])
    >>> row, = repeated(lambda: [at_most("sort", next(ratios), 1.0, "copy", 1.15)])
    >>> row.ratio, row.kept, row.bound
    (1.2, True, '≤ 1.15×, within 5 % (1.00 to 1.40 in 3 runs)')
    """
    found = []
    for same in zip(*(list(measure()) for _ in range(runs)), strict=True):
        row = sorted(same, key=lambda row: row.ratio)[len(same) // 2]
        if row.limit is not None:
            sign = 1 if row.at_least else -1
            kept = sign * row.ratio >= sign * row.limit * (1 - sign * tolerance)
            ratios = [each.ratio for each in same]
            scatter = f"within {100 * tolerance:.0f} % ({min(ratios):.2f} to {max(ratios):.2f} in {runs} runs)"
            row = replace(row, kept=kept, bound=f"{row.bound}, {scatter}")
        found.append(row)
    return found


def at_most(name: str, ours: float, yardstick: float, what: str, bound: float) -> Row:
    """Return a row whose time may be at most `bound` times that of the yardstick."""
    ratio = ours / yardstick
    ms = f"{ours * 1e3:.4g} ms", f"{yardstick * 1e3:.4g} ms {what}"
    return Row(name, *ms, ratio, f"≤ {bound:.2f}×", ratio <= bound, bound)


def at_least(name: str, ours: float, yardstick: float, what: str, bound: float, unit: str = "it/s") -> Row:
    """Return a row whose rate must be at least `bound` times that of the yardstick."""
    ratio = ours / yardstick
    rates = f"{ours:,.0f} {unit}", f"{yardstick:,.0f} {unit} {what}"
    return Row(name, *rates, ratio, f"≥ {bound:.2f}×", ratio >= bound, bound, at_least=True)
