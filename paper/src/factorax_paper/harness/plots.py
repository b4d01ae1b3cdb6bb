"""Figures of the experiments: colours of methods, heat maps, and logarithmic axes; with the common style of figures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from factorax.runs.plots import PALETTE as PALETTE
from factorax.runs.plots import canvas as canvas
from factorax.runs.plots import count_ticks as count_ticks
from factorax.runs.plots import legend_beside as legend_beside
from factorax.runs.plots import plain_text as plain_text
from factorax.runs.plots import save as save
from factorax.runs.statistics import Interval

# Okabe–Ito palette: warm colours for VPG, cool colours for FPG.
COLOURS = {
    "VPG": "#D55E00",
    "VPG b(s)": "#E69F00",
    "VPG b(s,a)": "#CC79A7",
    "VPG b(s,a) as printed": "#000000",
    "FPG": "#0072B2",
    "FPG b(s)": "#009E73",
}
MISSING = "#BBBBBB"


def point(ax: Axes, x: float, y: Interval, **style: Any) -> None:
    """Plot a mean with its interval."""
    # An interquartile mean of few seeds may lie outside of its bootstrap interval.
    ends = np.maximum([[y.mean - y.low], [y.high - y.mean]], 0)
    ax.errorbar(x, y.mean, ends, fmt="o", **style)


def heat_maps(
    maps: dict[str, tuple[np.ndarray, np.ndarray]],
    *,
    rows: Sequence[float],
    columns: Sequence[float],
    norm: Any,
    cmap: str,
    label: str,
    extend: str = "neither",
) -> tuple[Figure, Any]:
    """Return heat maps of dimensions × step sizes side by side, and their common colour bar.

    Each entry of `maps` has values of shape ``(rows, columns)``, grey where not finite, and a note for each cell.
    """
    figure, axes = canvas(len(maps), width=11, height=4.4)
    images = []
    for ax, (title, (values, notes)) in zip(axes, maps.items(), strict=True):
        ax.set_facecolor(MISSING)
        image = ax.imshow(np.ma.masked_invalid(values), norm=norm, cmap=cmap, aspect="auto", origin="lower")
        ax.set_xticks(range(len(columns)), [f"{c:g}" for c in columns], rotation=60)
        ax.set_yticks(range(len(rows)), [f"{r:g}" for r in rows])
        ax.set(xlabel="step size η", ylabel="number of actions n", title=title)
        for (i, j), note in np.ndenumerate(notes):
            value = values[i, j]
            red, green, blue, _ = image.cmap(image.norm(value)) if np.isfinite(value) else (1, 1, 1, 1)
            colour = "white" if 0.3 * red + 0.6 * green + 0.1 * blue < 0.5 else "black"
            ax.text(j, i, note, ha="center", va="center", fontsize=6.5, color=colour)
        images.append(image)
    return figure, figure.colorbar(images[0], ax=axes, label=label, extend=extend)


def short(x: float) -> str:
    """Return a number with few digits for a cell of a map, such as 0.035, 860, 1.3k or 4e-5."""
    if x >= 99.5:
        return f"{x:.0f}" if x < 999.5 else f"{x / 1000:.3g}k"
    return f"{x:.2g}" if x >= 0.001 or x == 0 else f"{x:.0e}".replace("e-0", "e-")


def log_norm(values: np.ndarray) -> LogNorm:
    """Return a logarithmic colour scale over the finite values."""
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = (finite.min(), finite.max()) if len(finite) else (0.1, 1.0)
    return LogNorm(low, high if high > low else low * 10)


def plain_log_ticks(axis: Any, multiples: Sequence[int] = (1,)) -> None:
    """Label a logarithmic axis with numbers such as 0.1 and 1000 instead of powers of ten.

    - `multiples`: which multiples of powers of ten are labelled; more than 1 for an axis of less than two decades.
    """
    axis.set_major_locator(ticker.LogLocator(subs=list(multiples)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())
