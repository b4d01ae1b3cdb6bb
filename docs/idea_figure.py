"""Draw the picture of the idea, `docs/images/idea.png`: who is credited with what, and what it does to the gradient.

    python docs/idea_figure.py

The right panel shows measured gradients: one component, from batches of 32 samples, of a problem in which each of
twenty actions has a target of its own. The vanilla gradient has a value baseline, too.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.stats import gaussian_kde

PICTURE = Path(__file__).parent / "images" / "idea.png"
VANILLA, FACTORED, INK = "#D55E00", "#0072B2", "#1b1f24"
N = 4


def draw_network(ax: Axes, edges: np.ndarray, colour: str, title: str, caption: str) -> None:
    """Draw actions above, targets below, and an arrow for every credit."""
    ax.set(xlim=(-0.6, N - 0.4), ylim=(-0.75, 1.75))
    ax.axis("off")
    for i, j in np.argwhere(edges):
        style = {"arrowstyle": "-|>", "color": colour, "lw": 1.6, "shrinkA": 13, "shrinkB": 13, "alpha": 0.85}
        ax.annotate("", xy=(j, 0), xytext=(i, 1), arrowprops=style)
    for k in range(N):
        for y, symbol in ((1, "a"), (0, r"\psi")):
            face = "#e3f0fa" if y else "#eef0f2"
            ax.plot(k, y, "o", ms=25, mfc=face, mec=INK, mew=1.1)
            ax.text(k, y, f"${symbol}_{k + 1}$", ha="center", va="center", fontsize=13, color=INK)
    ax.text((N - 1) / 2, 1.62, title, ha="center", va="center", fontsize=13, weight="bold", color=colour)
    ax.text((N - 1) / 2, -0.62, caption, ha="center", va="center", fontsize=10.5, color=INK)


def gradients(batches: int = 4000, samples: int = 32, actions: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Return the first component of vanilla and factored gradients, one per batch: ψ_j = −|a_j − 1|, μ = 0, σ = 1."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((batches, samples, actions))
    psi = -np.abs(a - 1)
    psi -= psi.mean(axis=(0, 1))
    score = a[..., 0]
    return (score * psi.sum(axis=-1)).mean(axis=-1), (score * psi[..., 0]).mean(axis=-1)


def main() -> None:
    """Draw the picture."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.5), width_ratios=(1, 1, 1.15), layout="constrained")
    draw_network(axes[0], np.ones((N, N)), VANILLA, "Policy gradient", "every action is credited with every target")
    draw_network(axes[1], np.eye(N), FACTORED, "Factored policy gradient", "… only with targets that it influences: K")
    x = np.linspace(-2.2, 3.6, 400)
    for values, colour, name in zip(gradients(), (VANILLA, FACTORED), ("vanilla", "factored"), strict=True):
        density = gaussian_kde(values)(x)
        axes[2].fill_between(x, density, color=colour, alpha=0.25, lw=0)
        axes[2].plot(x, density, color=colour, label=name)
    axes[2].set(yticks=[], xlabel="gradient of one action, 20 actions, batches of 32")
    axes[2].spines[["left", "top", "right"]].set_visible(False)
    axes[2].set_title("The same gradient, less noise", fontsize=13, weight="bold", color=INK)
    axes[2].legend(frameon=False)
    figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    main()
