"""A score test for missing edges of the network, on the data of training.

If factor i does not influence target j, E[zᵢ h Aⱼ] = 0 for each feature h of the state: 1, and the inputs of the
policy's last layer. With S the sum of zᵢ h Aⱼ over all samples so far and Q the sum of their squares, S / √Q is
standard normal if there is no edge, even though the policy changes: given the past, each zᵢ is independent of what
follows and has mean zero.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arrays import zeros
from .._false_discovery import discoveries
from .._text import counted, some, warn
from ..spec import Spec
from ..structure import InfluenceNetwork
from ..structure.labels import edge_label

LARGEST = 2 * 10**6
"""Maximum size of the sums.

If all features would take more, only the feature 1 is used; beyond that nothing is tested.
"""
LEVEL = 0.01
"""The total false-discovery rate of all looks."""
_FIRST = 8  # looks at doubling intervals: few of them, so that each keeps much of the level


class MissingEdges(NamedTuple):
    """Sums over all samples so far, for c components, p features and m targets: ``(c, p, m)`` each."""

    product: jax.Array
    squares: jax.Array

    @classmethod
    def start(cls, c: int, p: int, m: int) -> "MissingEdges | None":
        """Return empty sums; None if there are too many pairs to test."""
        if c * m > LARGEST:
            return None
        shape = c, p if c * p * m <= LARGEST else 1, m
        return cls(zeros(shape), zeros(shape))

    def updated(self, scores: jax.Array, features: jax.Array, advantage: jax.Array) -> "MissingEdges":
        """Return the sums with N more samples: scores ``(N, c)``, features ``(N, c or 1, p − 1)``, advantages ``(N,
        m)``."""
        shape = self.product.shape
        if shape[1] > 1:
            scores = jnp.concatenate([scores[..., None], scores[..., None] * features], axis=-1)
        z = scores.reshape(len(scores), -1)
        return MissingEdges(
            self.product + (z.T @ advantage).reshape(shape), self.squares + (z.T**2 @ advantage**2).reshape(shape)
        )


def p_values(sums: MissingEdges, present: np.ndarray) -> np.ndarray:
    """Return the p-value of each pair of a component and a target without an edge, ``(c, m)``; NaN if not tested.

    - `present`: which pairs have an edge, booleans ``(c, m)``.
    """
    from scipy import special  # takes 60 ms, which every training would wait for

    product, squares = (np.asarray(x, float) for x in sums)
    t = np.abs(product) / np.sqrt(np.maximum(squares, 1e-300))
    tested = ~present & (squares > 0).all(axis=1)  # a target that never varied shows nothing
    if not tested.any():
        return np.full(present.shape, np.nan)
    bound = product.shape[1] * special.erfc(t.max(axis=1) / np.sqrt(2))  # Bonferroni over the p features
    return np.where(tested, bound, np.nan)


def last_look(rollouts: int) -> int:
    """Return the number of the last look at or before this rollout; 0 if there was none. Looks are at 8, 16, 32, …

    >>> last_look(7), last_look(8), last_look(31)
    (0, 1, 2)
    """
    return (rollouts // _FIRST).bit_length()


def missing(sums: MissingEdges, present: np.ndarray, number: int) -> list[tuple[int, int]]:
    """Return pairs of components and targets for which the data show a missing edge, the most significant first.

    Uses the Benjamini–Hochberg procedure at level `LEVEL` / (k (k + 1)) in the k-th look.
    """
    p_value = p_values(sums, present)
    if np.isnan(p_value).all():
        return []
    pairs = np.argwhere(discoveries(p_value, LEVEL / (number * (number + 1))))  # Σ 1 / (k (k + 1)) = 1
    return [(int(i), int(j)) for i, j in sorted(pairs, key=lambda pair: p_value[*pair])]


def warn_if_missing(spec: Spec, sums: MissingEdges | None, before: int, rollouts: int) -> bool:
    """Warn if the data show missing edges, at a look between two numbers of rollouts; return whether it was issued."""
    number = last_look(rollouts)
    if sums is None or number == last_look(before):
        return False
    edges = spec.network.static.to_dense() > 0
    pairs = missing(sums, edges if spec.factors is None else edges[spec.factors], number)
    if pairs:
        _warn(pairs, spec.network.static, spec.factors)
    return bool(pairs)


def _warn(pairs: list[tuple[int, int]], network: InfluenceNetwork, factors: np.ndarray | None) -> None:
    rows = range(network.shape[0]) if factors is None else factors
    names = list(dict.fromkeys(edge_label(network.actions[rows[i]], network.targets[j]) for i, j in pairs))
    count = counted(len(names), "edge is", "edges are")
    warn(
        f"network: the data show that {count} missing, most significantly {some(names)}; without them the "
        "gradient is biased. Add them (fx.discover finds such edges), or set check_network=False to leave them out on "
        "purpose, for less variance"
    )
