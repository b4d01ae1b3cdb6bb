"""Figures of matrices of evidence."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..structure.export import maths

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_matrix(
    values: np.ndarray,
    actions: Sequence[str],
    targets: Sequence[str],
    *,
    label: str,
    title: str,
    top: float | None = None,
    edges: np.ndarray | None = None,
    untested: np.ndarray | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw values ``(n, m)`` in grey, with a frame around each edge and a cross at each pair that was not tested.

    - `label`, `title`: of the colour bar and of the figure.
    - `top`: the value that is black; by default the largest.
    - `edges`, `untested`: booleans ``(n, m)``; by default none are marked.
    - `ax`: axes to draw on; by default a new figure.
    """
    from matplotlib import pyplot as plt

    n, m = values.shape
    if ax is None:
        width, height = min(12.0, max(3.0, 0.35 * m + 2.2)), min(9.0, max(2.2, 0.35 * n + 1.2))
        ax = plt.subplots(figsize=(width, height), layout="constrained")[1]
    top = max(float(np.nanmax(values)), 1e-12) if top is None else top
    image = ax.imshow(values, cmap="Greys", vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label=label)
    size = 120 * min(1.0, 12 / max(n, m)) ** 2
    if edges is not None:
        i, j = np.nonzero(edges)
        ax.scatter(j, i, s=size, marker="s", facecolors="none", edgecolors="#D55E00", linewidths=1.2)
    if untested is not None:
        i, j = np.nonzero(untested)
        ax.scatter(j, i, s=size / 2, marker="x", color="#0072B2", linewidths=1)
    for axis, names in ((ax.xaxis, targets), (ax.yaxis, actions)):
        step = math.ceil(len(names) / 24)
        texts = [maths(name) or name.replace("$", r"\$") for name in names[::step]]
        axis.set_ticks(range(0, len(names), step), texts)
    ax.tick_params(axis="x", rotation=90 if m > 12 or max(map(len, targets)) > 5 else 0)
    ax.set_title(title, fontsize=10)
    return ax
