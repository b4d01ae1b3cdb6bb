"""Common style of figures: a colour-blind-safe palette, and legends next to the axes."""

from pathlib import Path
from typing import Any

from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .._files import write_whole
from .._text import printable

# Okabe–Ito palette.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def canvas(columns: int = 1, width: float = 7.2, height: float = 4.0) -> tuple[Figure, list[Axes]]:
    """Return a figure with a row of axes, without a window, which need not be closed."""
    # Not of pyplot, which wants a display for a window and keeps each figure until it is closed.
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def legend_beside(ax: Axes, **options: Any) -> None:
    """Place a legend to the right of the axes."""
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0, frameon=False, **options)


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the file's suffix (default png); a link at this path is replaced."""
    path = path if path.suffix else path.with_name(f"{path.name}.png")
    write_whole(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=160))


def plain_text(text: str) -> str:
    r"""Return text that Matplotlib draws literally, even if it is long or contains dollar signs or control characters.

    >>> plain_text("a $x$")
    'a \\$x\\$'
    """
    return printable(text).replace("$", r"\$")


def count_ticks(axis: Any) -> None:
    """Label an axis with large numbers such as 200k or 1M."""
    axis.set_major_formatter(ticker.EngFormatter(sep=""))
