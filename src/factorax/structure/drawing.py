"""Draw influence networks with matplotlib."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from .._checks import checked, shown
from .checks import as_network
from .export import arrange, maths, place
from .factorisation import Factorisation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch
    from matplotlib.path import Path

    from .network import InfluenceNetwork

_MOST_NODES = 60  # per side of a graph; more are unreadable
_MOST_CELLS = 4_000_000
_INK, _NODE = "0.2", "0.9"
# Vermilion of the Okabe–Ito palette, which colour-blind readers can tell from blue.
_DASHED: dict[str, Any] = {"fill": False, "edgecolor": "#D55E00", "linestyle": "--", "linewidth": 1.4}
_FONT = 0.42  # font size of labels; all lengths in a graph are in diameters of a round node
_SMALL_FONT = 0.32
_ROOM = 0.78  # width of the widest label that fits into a round node


def draw(
    net: "InfluenceNetwork",
    style: str = "bipartite",
    *,
    factorisation: Factorisation | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw an influence network with matplotlib.

    - ``"bipartite"``: actions above, targets below, an arrow for every edge, as in Fig. 1 of the paper. Groups of two
      or more actions of the `factorisation` are drawn next to each other inside a dashed frame.
    - ``"factored"``: one node per policy factor σᵢ, with its actions listed above it, as in Fig. 2b. The default
      `factorisation` is the minimum factorisation.
    - ``"matrix"``: K as an image, for large networks; the rows of a group are framed.

    Soft edges are thinner and paler the smaller their weight. Labels such as ``a1``, ``psi2`` and ``zeta`` are
    rendered as formulas. Graphs scale with their axes, including the labels. Without `ax`, a new figure is created.

    >>> from factorax.structure import gallery
    >>> net = gallery.three_actions()
    >>> ax = draw(net, factorisation=net.minimum_factorisation())
    >>> ax.figure.savefig("network.svg")  # doctest: +SKIP
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    net = as_network(net, "net")
    checked("style", style, Literal["bipartite", "factored", "matrix"])
    if ax is not None and not hasattr(ax, "add_patch"):
        raise TypeError(f"ax: got {shown(ax)}, want the axes of a matplotlib figure")
    if style == "matrix":
        return _draw_matrix(net, factorisation, ax)
    if style == "factored":
        return _draw_factored(net, net.minimum_factorisation() if factorisation is None else factorisation, ax)
    order, groups = arrange(net, factorisation)
    _check_size(net.shape, "actions")
    return _draw_graph(net.matrix, _nodes(net.actions), _nodes(net.targets), order, groups, ax)


# ---- graphs -----------------------------------------------------------------------------------------------


class _Node(NamedTuple):
    label: "Path"
    width: float
    captions: Sequence["Path"] = ()  # lines above the node, the lowest first

    @property
    def slot(self) -> float:
        """The width needed by the node and the text above it."""
        return max([self.width, *(_width(line) for line in self.captions)])


_Placed = tuple[_Node, float, float]  # a node and the x and y of its centre


def _draw_factored(net: "InfluenceNetwork", factorisation: Factorisation, ax: "Axes | None") -> "Axes":
    arrange(net, factorisation)  # only for its checks; factors keep their order because σᵢ is numbered
    _check_size((len(factorisation), net.shape[1]), "factors")
    factors = _nodes([f"sigma{i + 1}" for i in range(len(factorisation))])
    for i, group in enumerate(factorisation.groups):
        lines = reversed(_lines([net.actions[k] for k in group]))
        factors[i] = factors[i]._replace(captions=[_text_path(line, _SMALL_FONT) for line in lines])
    matrix = net.factor(factorisation).matrix
    return _draw_graph(matrix, factors, _nodes(net.targets), range(len(factors)), [], ax)


def _lines(labels: Sequence[str]) -> list[str]:
    """Return the action labels of a factor in lines of about 20 characters, abbreviated if there are many."""
    shown = [*labels[:11], f"… ({len(labels)} in all)"] if len(labels) > 12 else labels
    lines, length = [""], 0
    for label in shown:
        if length and length + len(label) > 20:
            lines[-1] += ","
            lines.append("")
            length = 0
        lines[-1] += (", " if length else "") + _text(label)
        length += len(label) + 2
    return lines


def _draw_graph(
    matrix: sparse.csr_array,
    top: Sequence[_Node],
    bottom: Sequence[_Node],
    order: Sequence[int],
    groups: Sequence[Sequence[int]],
    ax: "Axes | None",
) -> "Axes":
    x_top, x_bottom, height = place(matrix, [node.slot for node in top], [node.slot for node in bottom], order)
    nodes = [(node, float(x), height) for node, x in zip(top, x_top, strict=True)]
    nodes += [(node, float(x), 0.0) for node, x in zip(bottom, x_bottom, strict=True)]
    patches: list[Patch] = [_frame(nodes[group[0]], nodes[group[-1]]) for group in groups]
    coo = matrix.tocoo()
    # smaller arrow heads where many edges meet
    heads = np.sqrt(8 / np.maximum(np.bincount(coo.col, minlength=len(bottom)), 8))
    for i, j, weight in zip(coo.row, coo.col, coo.data, strict=True):
        patches.append(_arrow(nodes[i], nodes[len(top) + j], float(weight), float(heads[j])))
    for node, x, y in nodes:
        patches += _node_patches(node, x, y)
    half = max(abs(x) + node.slot / 2 for node, x, _ in nodes) + 0.3
    lowest, highest = -0.6, height + 0.8 + 0.45 * max(len(node.captions) for node in top)
    if ax is None:
        inch = min(0.45, 10 / half)
        ax = _new_axes(2 * half * inch, (highest - lowest) * inch)
    for patch in patches:
        ax.add_patch(patch)
    ax.set(xlim=(-half, half), ylim=(lowest, highest), aspect="equal")
    ax.set_axis_off()
    return ax


def _nodes(labels: Sequence[str]) -> list[_Node]:
    nodes = []
    for label in labels:
        text = _text(label)
        path = _text_path(text, _FONT)
        # Symbols stay in a circle and long names in a box of limited width: text that is too wide gets a smaller font.
        room = _ROOM if maths(label) else 6.0
        if _width(path) > room:
            path = _text_path(text, _FONT * room / _width(path))
        nodes.append(_Node(path, 1.0 if maths(label) or _width(path) <= _ROOM else _width(path) + 0.5))
    return nodes


def _node_patches(node: _Node, x: float, y: float) -> "list[Patch]":
    from matplotlib.patches import Circle, FancyBboxPatch

    if node.width == 1.0:
        outline = Circle((x, y), 0.5)
    else:
        shape = "round,pad=0,rounding_size=0.5"
        outline = FancyBboxPatch((x - node.width / 2, y - 0.5), node.width, 1.0, boxstyle=shape)
    outline.set(facecolor=_NODE, edgecolor=_INK, linewidth=1.0, zorder=2)
    captions = [_text_patch(line, x, y + 0.68 + 0.45 * k) for k, line in enumerate(node.captions)]
    return [outline, _text_patch(node.label, x, y - 0.3 * _FONT), *captions]


def _frame(first: _Placed, last: _Placed) -> "Patch":
    from matplotlib.patches import FancyBboxPatch

    left, right = first[1] - first[0].width / 2 - 0.2, last[1] + last[0].width / 2 + 0.2
    shape = "round,pad=0,rounding_size=0.6"
    return FancyBboxPatch((left, first[2] - 0.7), right - left, 1.4, boxstyle=shape, zorder=0, **_DASHED)


def _arrow(source: _Placed, sink: _Placed, weight: float, head: float) -> "Patch":
    from matplotlib.patches import FancyArrow

    angle = math.atan2(sink[1] - source[1], source[2] - sink[2])
    (dx, dy), (ex, ey) = _border(source[0].width, angle), _border(sink[0].width, angle)
    x, y = source[1] + dx, source[2] - dy
    x_end, y_end = sink[1] - ex, sink[2] + ey + 0.03  # keep the tip clear of the outline
    arrow = FancyArrow(
        x,
        y,
        x_end - x,
        y_end - y,
        width=0.01 + 0.03 * weight,
        head_width=head * (0.12 + 0.1 * weight),
        head_length=head * (0.15 + 0.12 * weight),
        length_includes_head=True,
    )
    arrow.set(linewidth=0, facecolor=_INK, alpha=0.2 + 0.8 * weight, zorder=1)
    return arrow


def _border(width: float, angle: float) -> tuple[float, float]:
    """Return the point, relative to the centre of a node with round ends, where an edge at this angle leaves it."""
    straight = (width - 1) / 2
    x = width / 2 * math.sin(angle)
    return x, math.sqrt(max(0.0, 0.25 - max(0.0, abs(x) - straight) ** 2))


def _check_size(shape: tuple[int, int], rows: str) -> None:
    if max(shape) > _MOST_NODES:
        raise ValueError(
            f"net: got {shape[0]} {rows} and {shape[1]} targets, want at most {_MOST_NODES} of each for a graph; "
            'use style="matrix", or draw part of the network with net.select()'
        )


# ---- matrix -----------------------------------------------------------------------------------------------


def _draw_matrix(net: "InfluenceNetwork", factorisation: Factorisation | None, ax: "Axes | None") -> "Axes":
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import Rectangle

    order, groups = arrange(net, factorisation)
    n, m = net.shape
    if n * m > _MOST_CELLS:
        raise ValueError(
            f"net: got {n} × {m} cells, want at most {_MOST_CELLS:,}; draw part of the network with net.select()"
        )
    rows, columns = [_text(net.actions[i]) for i in order], [_text(label) for label in net.targets]
    size = FontProperties(size=rcParams["xtick.labelsize"]).get_size_in_points()
    wide_rows, wide_columns = _widest(rows, size), _widest(columns, size)
    if ax is None:
        cell = min(max(25, min(wide_columns, 80)), 500 / max(n, m))
        width, height = max(100, m * cell), max(80, n * cell)
        row_margin = wide_rows + 35 + 60 * net.is_soft
        above = 35 + wide_columns * (wide_columns > max(cell, 3 * size))
        ax = _new_axes((width + row_margin) / 72, (height + above) / 72)
    else:
        box = ax.get_window_extent()
        width, height = box.width * 72 / ax.figure.dpi, box.height * 72 / ax.figure.dpi
    cell_width, cell_height = width / m, height / n
    square = max(n, m) <= 8 * min(n, m)  # a longer strip of square cells would be too thin to see
    if square:
        cell_width = cell_height = min(cell_width, cell_height)
    aspect = "equal" if square else "auto"
    image = ax.imshow(net.to_dense()[order].astype(float), cmap="Blues", vmin=0, vmax=1, aspect=aspect)
    upright = wide_columns > max(cell_width, 3 * size)
    column_step = math.ceil((1.3 * size if upright else wide_columns) / cell_width)
    row_step = math.ceil(1.3 * size / cell_height)
    ax.xaxis.tick_top()
    ax.set_xticks(range(0, m, column_step), columns[::column_step], rotation=90 if upright else 0)
    ax.set_yticks(range(0, n, row_step), rows[::row_step])
    ax.grid(False)
    if min(cell_width, cell_height) >= 4:
        ax.set_xticks(np.arange(m - 1) + 0.5, minor=True)
        ax.set_yticks(np.arange(n - 1) + 0.5, minor=True)
        ax.grid(which="minor", color="0.75", linewidth=0.7)
        ax.tick_params(which="minor", length=0)
    for group in groups:
        # inside the cells, so that frames of adjacent groups do not overlap
        corner = (-0.42, order.index(group[0]) - 0.42)
        ax.add_patch(Rectangle(corner, m - 0.16, len(group) - 0.16, zorder=3, **_DASHED))
    if net.is_soft:
        ax.figure.colorbar(image, ax=ax, label="weight")
    return ax


def _widest(texts: Sequence[str], size: float) -> float:
    """Return the width of the widest text in points, with a margin; measures only the longest, since measuring is
    slow."""
    return max(_width(_text_path(text, size)) for text in sorted(texts, key=len)[-5:]) + size / 2


# ---- text and axes ----------------------------------------------------------------------------------------


def _text(label: str) -> str:
    """Return a label in matplotlib's syntax: as a formula, or as plain text with dollar signs escaped."""
    return maths(label) or " ".join(label.split()).replace("$", r"\$")


def _text_path(text: str, size: float) -> "Path":
    """Return text as outlines, which scale with their node, so that labels fit into axes of any size."""
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    return TextPath((0, 0), text, size=size) if text else Path(np.empty((0, 2)))  # TextPath fails on empty text


def _text_patch(path: "Path", x: float, y: float) -> "Patch":
    """Return a line of text centred at x, its baseline at y."""
    from matplotlib.patches import PathPatch
    from matplotlib.transforms import Affine2D

    centre = path.get_extents().x0 + _width(path) / 2 if _width(path) else 0.0
    moved = path.transformed(Affine2D().translate(x - centre, y))
    return PathPatch(moved, facecolor="black", linewidth=0, zorder=3)


def _width(path: "Path") -> float:
    return path.get_extents().width if np.size(path.vertices) else 0.0


def _new_axes(width: float, height: float) -> "Axes":
    import matplotlib.pyplot as plt

    # layout="constrained" cuts off long tick labels if the aspect ratio is fixed.
    return plt.subplots(figsize=(width, height), layout="compressed")[1]
