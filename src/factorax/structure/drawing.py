"""Draw influence networks with matplotlib: as graphs, and as images of the matrix."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from .._checks import checked
from .._text import counted, shown
from .factorisation import Factorisation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

MAX_NODES = 60
"""Largest number of nodes on each side of a graph; more are unreadable."""
MAX_CELLS = 4_000_000
MAX_TICKS = 40
"""Largest number of labels on each side of a matrix; of more, every second, third, … is shown."""
_INK, _NODE = "0.2", "0.9"
# Vermilion of the Okabe–Ito palette, which colour-blind readers can tell from blue.
_FRAME: dict[str, Any] = {"fill": False, "edgecolor": "#D55E00", "linewidth": 1.4}
# Only letters with a LaTeX command: omicron and the capitals that look Latin have none.
_GREEK = (
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|upsilon|phi|chi|psi|"
    "omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)
_SYMBOL = re.compile(rf"({_GREEK})([0-9]*)|([A-Za-z])([0-9]+)")


def draw(net: Any, style: str, factorisation: Factorisation | None, ax: "Axes | None") -> "Axes":
    """Draw an influence network; see `InfluenceNetwork.draw`, which has the same arguments."""
    checked("style", style, Literal["bipartite", "factored", "matrix"])
    check_axes(ax)
    order, groups = _arrange(net, factorisation)
    if style == "matrix":
        return _draw_network_matrix(net, order, groups, ax)
    if style == "bipartite":
        _check_size(net.shape, "actions")
        return _draw_graph(net.matrix, net.actions, net.targets, order, groups, [""] * net.shape[0], ax)
    sigma = net.minimum_factorisation() if factorisation is None else factorisation
    _check_size((len(sigma), net.shape[1]), "factors")
    names = [f"sigma{i + 1}" for i in range(len(sigma))]
    captions = [_caption([net.actions[k] for k in group]) for group in sigma.groups]
    return _draw_graph(net.factor(sigma).matrix, names, net.targets, range(len(sigma)), [], captions, ax)


def maths(label: str) -> str:
    r"""Return a label in matplotlib's syntax: as a formula if it is a symbol such as ``a1`` or ``zeta``.

    Symbols are a letter with a number, or a Greek letter with or without one.

    >>> maths("a1"), maths("zeta"), maths("bill"), maths("cost in $")
    ('$a_{1}$', '$\\zeta$', 'bill', 'cost in \\$')
    """
    match = _SYMBOL.fullmatch(label)
    if match is None:
        return " ".join(label.split()).replace("$", r"\$")
    name, number = (f"\\{match[1]}", match[2]) if match[1] else (match[3], match[4])
    return f"${name}_{{{number}}}$" if number else f"${name}$"


def check_axes(ax: Any) -> None:
    """Raise TypeError unless `ax` is None or can be drawn on."""
    if ax is not None and not hasattr(ax, "add_patch"):
        raise TypeError(f"ax: got {shown(ax)}, want the axes of a matplotlib figure")


def draw_matrix(
    values: Any,
    actions: Sequence[str],
    targets: Sequence[str],
    *,
    label: str = "",
    title: str = "",
    top: float | None = None,
    edges: np.ndarray | None = None,
    untested: np.ndarray | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw values ``(n, m)`` in blue, with a frame around each edge and a cross at each pair that was not tested.

    - `label`: of the colour bar; without it, there is none.
    - `title`: of the figure.
    - `top`: the value with the darkest colour; by default the largest.
    - `edges`, `untested`: booleans ``(n, m)``; by default none are marked.
    - `ax`: axes to draw on; by default a new figure.
    """
    n, m = values.shape
    if ax is None:
        ax = _new_axes(min(12.0, max(3.0, 0.35 * m + 2.2)), min(9.0, max(2.2, 0.35 * n + 1.2)))
    top = max(float(np.nanmax(values)), 1e-12) if top is None else top
    square = max(n, m) <= 8 * min(n, m)  # a longer strip of square cells would be too thin to see
    options: Any = {"aspect": "equal" if square else "auto", "interpolation": "nearest"}
    image = ax.imshow(values, cmap="Blues", vmin=0, vmax=top, **options)
    if label:
        ax.figure.colorbar(image, ax=ax, label=label)
    size = 120 * min(1.0, 12 / max(n, m)) ** 2
    if edges is not None:
        i, j = np.nonzero(edges)
        ax.scatter(j, i, s=size, marker="s", facecolors="none", edgecolors=_FRAME["edgecolor"], linewidths=1.2)
    if untested is not None:
        i, j = np.nonzero(untested)
        ax.scatter(j, i, s=size / 2, marker="x", color=_INK, linewidths=1)
    for axis, names in ((ax.xaxis, targets), (ax.yaxis, actions)):
        step = math.ceil(len(names) / MAX_TICKS)
        axis.set_ticks(range(0, len(names), step), [maths(name) for name in names[::step]])
    ax.tick_params(axis="x", rotation=90 if m > 12 or max(map(len, targets)) > 5 else 0)
    ax.grid(False)
    ax.set_title(title, fontsize=10)
    return ax


def _draw_network_matrix(net: Any, order: Sequence[int], groups: Sequence[Sequence[int]], ax: "Axes | None") -> "Axes":
    from matplotlib.patches import Rectangle

    n, m = net.shape
    if n * m > MAX_CELLS:
        raise ValueError(
            f"net: got {n} × {m} cells, want at most {MAX_CELLS:,} for this style; draw part of the network with "
            "net.select()"
        )
    actions, label = [net.actions[i] for i in order], "weight" if net.is_soft else ""
    ax = draw_matrix(net.to_dense()[order].astype(float), actions, net.targets, label=label, top=1.0, ax=ax)
    for group in groups:
        # inside the cells, so that frames of adjacent groups do not overlap
        corner = (-0.42, order.index(group[0]) - 0.42)
        ax.add_patch(Rectangle(corner, m - 0.16, len(group) - 0.16, zorder=3, linestyle="--", **_FRAME))
    return ax


def _arrange(net: Any, factorisation: Factorisation | None) -> tuple[list[int], list[list[int]]]:
    """Return the order in which actions are drawn, and the groups of two or more actions, which are adjacent in it.

    >>> from factorax import InfluenceNetwork
    >>> _arrange(InfluenceNetwork.complete(4, 1), Factorisation([[3], [0, 2], [1]], 4))
    ([0, 2, 1, 3], [[0, 2]])
    """
    n = net.shape[0]
    if factorisation is None:
        return list(range(n)), []
    if not isinstance(factorisation, Factorisation):
        raise TypeError(
            f"factorisation: got {type(factorisation).__name__}, want a Factorisation; create one from groups of "
            "labels with Factorisation.from_labels(groups, net.actions)"
        )
    if factorisation.n_actions != n:
        raise ValueError(
            f"factorisation: got {counted(factorisation.n_actions, 'action')}, want {n}, as in the network"
        )
    groups = sorted(sorted(group) for group in factorisation.groups)
    return [i for group in groups for i in group], [group for group in groups if len(group) > 1]


def _caption(labels: Sequence[str]) -> str:
    """Return the action labels of a factor in lines, abbreviated if there are many."""
    some = [*labels[:11], f"… ({len(labels)} in all)"] if len(labels) > 12 else labels
    return ",\n".join(", ".join(map(maths, some[i : i + 3])) for i in range(0, len(some), 3))


def _draw_graph(
    matrix: sparse.csr_array,
    top: Sequence[str],
    bottom: Sequence[str],
    order: Sequence[int],
    groups: Sequence[Sequence[int]],
    captions: Sequence[str],
    ax: "Axes | None",
) -> "Axes":
    """Draw a graph; all lengths are in diameters of a round node."""
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    widths = [[_width(label) for label in labels] for labels in (top, bottom)]
    slots = [max(width, *map(_width, caption.split("\n"))) for width, caption in zip(widths[0], captions, strict=True)]
    x_top, x_bottom, height = _place(matrix, slots, widths[1], order)
    half = max((abs(x_top) + np.array(slots) / 2).max(), (abs(x_bottom) + np.array(widths[1]) / 2).max()) + 0.3
    lowest, highest = -0.6, height + 0.8 + 0.45 * max(caption.count("\n") + bool(caption) for caption in captions)
    if ax is None:
        inch = min(0.45, 10 / half)
        ax = _new_axes(2 * half * inch, (highest - lowest) * inch)
    ax.set(xlim=(-half, half), ylim=(lowest, highest), aspect="equal")
    ax.set_axis_off()
    # Text and arrows are measured in points, so their size depends on the figure.
    box = ax.get_window_extent()
    unit = min(box.width / (2 * half), box.height / (highest - lowest)) * 72 / ax.figure.dpi  # in points
    places = [*zip(x_top, np.full(len(top), height), strict=True), *zip(x_bottom, np.zeros(len(bottom)), strict=True)]
    nodes: list[Patch] = []
    for (x, y), label, width in zip(places, [*top, *bottom], widths[0] + widths[1], strict=True):
        shape = "round,pad=0,rounding_size=0.5"
        nodes.append(FancyBboxPatch((x - width / 2, y - 0.5), width, 1.0, boxstyle=shape, zorder=2))
        nodes[-1].set(facecolor=_NODE, edgecolor=_INK, linewidth=1.0)
        ax.add_patch(nodes[-1])
        ax.text(x, y, maths(label), ha="center", va="center", fontsize=0.42 * unit, zorder=3)
    for x, caption in zip(x_top, captions, strict=True):
        ax.text(x, height + 0.65, caption, ha="center", va="bottom", fontsize=0.34 * unit)
    coo = matrix.tocoo()
    for i, j, weight in zip(coo.row, coo.col, coo.data.astype(float), strict=True):
        arrow = FancyArrowPatch(places[i], places[len(top) + j], patchA=nodes[i], patchB=nodes[len(top) + j])
        arrow.set_arrowstyle("-|>")
        arrow.set(mutation_scale=0.35 * unit, linewidth=0.3 + weight, color=_INK, alpha=0.2 + 0.8 * weight, zorder=1)
        ax.add_patch(arrow)
    for group in groups:
        left, right = x_top[group[0]] - slots[group[0]] / 2 - 0.2, x_top[group[-1]] + slots[group[-1]] / 2 + 0.2
        shape = "round,pad=0,rounding_size=0.6"
        frame = FancyBboxPatch((left, height - 0.7), right - left, 1.4, boxstyle=shape, zorder=0, **_FRAME)
        frame.set_linestyle("--")
        ax.add_patch(frame)
    return ax


def _width(label: str) -> float:
    """Return the width of a node or of a line of a caption: 1, a round node, for symbols and short labels."""
    return 1.0 if _SYMBOL.fullmatch(label) or len(label) <= 2 else max(1.0, 0.5 + 0.22 * len(label))


def _place(
    matrix: sparse.csr_array, top: Sequence[float], bottom: Sequence[float], order: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the x positions of the nodes of both rows, and the height of the upper row above the lower one.

    `matrix` has shape ``(len(top), len(bottom))``; `top` and `bottom` are the widths of the nodes, `order` lists the
    nodes of the upper row from left to right.
    """
    gap = 1.0 if max(len(top), len(bottom)) <= 12 else 0.6
    span = max(sum(row) + gap * len(row) for row in (top, bottom))

    def spread(widths: Sequence[float]) -> np.ndarray:
        slots = np.asarray(widths) + (span - sum(widths)) / len(widths)
        return np.cumsum(slots) - slots / 2 - span / 2

    x_top = np.empty(len(top))
    x_top[list(order)] = spread([top[i] for i in order])
    x_bottom = spread(bottom)
    coo = matrix.tocoo()
    reach = np.abs(x_top[coo.row] - x_bottom[coo.col]).max(initial=0.0)
    # An edge with a slope below about a third would cross the neighbour of its node.
    return x_top, x_bottom, float(max(2.2, min(0.5 * reach, 6.0), 0.36 * reach))


def _check_size(shape: tuple[int, int], rows: str) -> None:
    if max(shape) > MAX_NODES:
        raise ValueError(
            f"net: got {shape[0]} {rows} and {shape[1]} targets, want at most {MAX_NODES} of each for a graph; "
            'use style="matrix", or draw part of the network with net.select()'
        )


def _new_axes(width: float, height: float) -> "Axes":
    import matplotlib.pyplot as plt

    # layout="constrained" cuts off long tick labels if the aspect ratio is fixed.
    return plt.subplots(figsize=(width, height), layout="compressed")[1]
