"""The example networks drawn in the paper."""

from .factorisation import as_index
from .network import InfluenceNetwork


def fork() -> InfluenceNetwork:
    """Return the network of one action and two targets (Fig. 1a)."""
    return InfluenceNetwork([[1, 1]])


def collider() -> InfluenceNetwork:
    """Return the network of two actions and one target (Fig. 1b). Its minimum factorisation draws both together."""
    return InfluenceNetwork([[1], [1]])


def fork_collider() -> InfluenceNetwork:
    """Return the network in which a₁ influences both targets and a₂ only the second (Fig. 1c): two factors."""
    return InfluenceNetwork([[1, 1], [0, 1]])


def complete() -> InfluenceNetwork:
    """Return the network of two actions and two targets with every edge (Fig. 1d): one factor."""
    # Not a matrix of ones: training does not warn of a network that is complete on purpose.
    return InfluenceNetwork.complete(2, 2)


def three_actions() -> InfluenceNetwork:
    """Return the network of three actions and the targets ψ₀, ψ₁, ψ₂ (Fig. 2): a₁ and a₂ are twins."""
    return InfluenceNetwork([[1, 1, 0], [1, 1, 0], [0, 1, 1]], targets=["psi0", "psi1", "psi2"])


def search_bandit(n: int, k: int | None = None, norm: int = 1) -> InfluenceNetwork:
    """Return the network in which each aᵢ influences its distance Δᵢ, and the first k also the penalty ζ (App. D).

    By default all n actions share the penalty; with k = 0 there is no penalty. With the distance ‖a − c‖₂ (`norm` 2),
    all actions influence one distance Δ.
    """
    n = as_index(n, "n", least=1)
    k = n if k is None else as_index(k, "k")
    if not 0 <= k <= n:
        raise ValueError(f"k: got {k}, want a number from 0 to n = {n}")
    if isinstance(norm, bool) or norm not in (1, 2):
        raise ValueError(f"norm: got {norm!r}, want 1 or 2")
    distances = [(f"a{i}", f"Delta{i}" if norm == 1 else "Delta") for i in range(1, n + 1)]
    # The penalty comes last, as do its weight and its target in `problems.search_bandit`.
    penalty = [(f"a{i}", "zeta") for i in range(1, k + 1)]
    return InfluenceNetwork.from_edges(distances + penalty)


PAPER = {
    "fork": fork,
    "collider": collider,
    "fork/collider": fork_collider,
    "complete": complete,
    "three actions": three_actions,
    "search bandit": lambda: search_bandit(4),
}
