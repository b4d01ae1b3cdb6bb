"""How all figures look: colours that the colour-blind can tell apart, legends beside the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

# Okabe and Ito's palette: warm for VPG, cool for FPG.
COLOURS = {
    "VPG": "#D55E00",
    "VPG b(s)": "#E69F00",
    "VPG b(s,a)": "#CC79A7",
    "FPG": "#0072B2",
    "FPG b(s)": "#009E73",
}
MISSING = "#BBBBBB"


def canvas(columns: int = 1, width: float = 7.2, height: float = 4.0) -> tuple[Figure, list[Axes]]:
    """A figure with a row of axes; it belongs to no window and needs no closing."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def legend_beside(ax: Axes, **options: Any) -> None:
    """A legend to the right of the axes."""
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0, frameon=False, **options)


def heat_map(
    ax: Axes,
    values: np.ndarray,
    notes: np.ndarray,
    *,
    rows: Sequence[float],
    columns: Sequence[float],
    norm: Any,
    cmap: str,
) -> ScalarMappable:
    """One cell for each of ``values[row, column]``, grey where it is not finite, with a note in it."""
    shown = np.ma.masked_invalid(values)
    ax.set_facecolor(MISSING)
    image = ax.imshow(shown, norm=norm, aspect="auto", origin="lower", cmap=cmap)
    ax.set_xticks(range(len(columns)), [f"{c:g}" for c in columns], rotation=60)
    ax.set_yticks(range(len(rows)), [f"{r:g}" for r in rows])
    for (i, j), note in np.ndenumerate(notes):
        if note:
            light = shown.mask is not np.ma.nomask and np.ma.getmaskarray(shown)[i, j]
            colour = "black" if light or image.norm(values[i, j]) > 0.55 else "white"
            ax.text(j, i, note, ha="center", va="center", fontsize=6.5, color=colour)
    ax.set_xlabel("step size η")
    ax.set_ylabel("number of actions n")
    return image


def log_norm(values: np.ndarray) -> LogNorm:
    """A logarithmic colour scale over the finite values."""
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.1, 1.0)
    return LogNorm(low, high if high > low else low * 10)


def plain_log_ticks(axis: Any) -> None:
    """Numbers such as 0.1 and 1000 on a logarithmic axis, not powers of ten."""
    axis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
