"""Discoveries as figures: the darker, the surer."""

import math
from typing import TYPE_CHECKING

import numpy as np

from ..structure import InfluenceNetwork
from ..structure.export import maths
from .result import THRESHOLD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .result import Discovery

_DOUBTFUL = 0.5


def draw(found: "Discovery", style: str = "matrix", *, fdr: float = 0.05, ax: "Axes | None" = None) -> "Axes":
    """Draw a discovery with matplotlib.

    - ``"matrix"``: confidence as grey, a frame around every edge at the false-discovery rate `fdr`, a cross where
      nothing could be tested. Methods without p-values give no confidence, and the effect is shown.
    - ``"bipartite"``: as `factorax.structure.draw`; edges with a confidence of half or more, the thinner the less sure.
      Of gates, their chance of being open stands for confidence.
    """
    if style == "bipartite":
        sure = found.effect if found.method in THRESHOLD else found.confidence
        shown = np.where(sure >= _DOUBTFUL, sure, 0.0)
        return InfluenceNetwork._derive(shown, found.actions, found.targets).draw(ax=ax)
    if style != "matrix":
        raise ValueError(f"style: got {style!r}, want 'matrix' or 'bipartite'")
    from matplotlib import pyplot as plt

    n, m = found.shape
    if ax is None:
        width, height = min(12.0, max(3.0, 0.35 * m + 2.2)), min(9.0, max(2.2, 0.35 * n + 1.2))
        ax = plt.subplots(figsize=(width, height), layout="constrained")[1]
    predicted = not found.tested
    values = found.effect if predicted else found.confidence
    top = max(float(np.nanmax(values)), 1e-12) if predicted and found.method not in THRESHOLD else 1.0
    image = ax.imshow(values, cmap="Greys", vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label=found.effect_unit if predicted else "confidence")
    framed = not predicted or found.method in THRESHOLD
    if framed:
        size = 120 * min(1.0, 12 / max(n, m)) ** 2
        edges, untested = np.argwhere(found.found(fdr)), np.argwhere(np.isnan(found.p_value) & (not predicted))
        ax.scatter(
            edges[:, 1], edges[:, 0], s=size, marker="s", facecolors="none", edgecolors="#D55E00", linewidths=1.2
        )
        ax.scatter(untested[:, 1], untested[:, 0], s=size / 2, marker="x", color="#0072B2", linewidths=1)
    for axis, names in ((ax.xaxis, found.targets), (ax.yaxis, found.actions)):
        step = math.ceil(len(names) / 24)
        texts = [maths(name) or name.replace("$", r"\$") for name in names[::step]]
        axis.set_ticks(range(0, len(names), step), texts)
    ax.tick_params(axis="x", rotation=90 if m > 12 or max(map(len, found.targets)) > 5 else 0)
    rule = f"FDR {fdr:g}" if found.tested else f"above {THRESHOLD.get(found.method)}"
    ax.set_title(f"{found.method}, {found.name}" + (f"; framed: edges, {rule}" if framed else ""), fontsize=10)
    return ax
