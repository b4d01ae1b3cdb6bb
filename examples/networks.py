"""The paper's influence networks, their minimum factorisations, and the variance that structure removes in two bandits.

Draws `out/paper-networks.png` and prints the rest.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
from rich.console import Console

import factorax as fx
from factorax.problems import relu_bandit, search_bandit
from factorax.structure import gallery

SAMPLES = 100_000
console = Console(width=200, highlight=False, soft_wrap=True)


def draw_networks(path: Path) -> None:
    """Draw the six networks of the paper, with the groups of the minimum factorisation framed."""
    mpl.use("Agg")
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    for ax, (name, make) in zip(axes.flat, gallery.PAPER.items(), strict=True):
        net = make()
        net.draw(factorisation=net.minimum_factorisation(), ax=ax)
        ax.set_title(name)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def print_factorisations() -> None:
    """Print for each network its size, its factors, and whether the paper's variance formula is exact for it."""
    console.print(f"[bold]{'network':<16}{'K':>8}  {'minimum factorisation':<28}co-parent condition")
    for name, make in gallery.PAPER.items():
        net = make()
        factors = net.factor(net.minimum_factorisation()).actions
        holds = ", ".join("holds" if h else "fails" for h in net.coparent_condition())
        console.print(f"{name:<16}{f'{net.shape[0]} × {net.shape[1]}':>8}  {' | '.join(factors):<28}{holds}")


def gaussian(mu: jax.Array, obs: None, action: jax.Array) -> jax.Array:
    """Return log N(a; μ, I), one factor per action; only the mean is learned."""
    return jax.scipy.stats.norm.logpdf(action, mu, 1.0)


def print_reports() -> None:
    """Print the exact decomposition of the variance that factoring removes, with standard errors."""
    bandits = {
        "Search bandit, n = 8, penalty 0.5 on the first six actions": search_bandit(8, k=6, penalty=0.5),
        "ReLU bandit, n = 8": relu_bandit(8),
        "ReLU bandit, n = 256": relu_bandit(256),
    }
    for title, bandit in bandits.items():
        mu = jnp.zeros(bandit.n)
        actions = mu + jax.random.normal(jax.random.key(0), (SAMPLES, bandit.n))
        psi = bandit.targets(actions)
        report = fx.variance_report(
            gaussian, mu, actions=actions, psi=psi, net=bandit.network, weights=bandit.weights, disjoint=True
        )
        console.print(f"\n[bold]{title}[/] ({SAMPLES:,} samples, ± standard error)")
        console.print(
            "delta = vanilla − factored = quadratic + linear + covariance: what factoring takes off the variance"
        )
        console.print(str(report), markup=False)


def main() -> None:
    """Draw the figure, then print the tables."""
    picture = Path("out/paper-networks.png")
    draw_networks(picture)
    console.print(f"Drew the paper's influence networks: {picture}\n")
    print_factorisations()
    print_reports()


if __name__ == "__main__":
    main()
