"""Random influence networks and factorisations for Hypothesis."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from factorax import Factorisation, InfluenceNetwork
from factorax.structure import StructureWarning

quietly = pytest.mark.filterwarnings("ignore::factorax.structure.StructureWarning")
"""For tests whose random networks have actions or targets without edges."""

AWKWARD = ["", " ", "'", '"', "a\nb", "\\", "ψ₁", "通り", "1", "None", "a+b", "[", "🚦", "\x00", "é", "e\u0301"]
names = st.sampled_from(AWKWARD) | st.text(max_size=6).filter(lambda s: not s.startswith(("a", "psi")))


@st.composite
def matrices(draw: st.DrawFn, soft: bool | None = None, max_size: int = 6) -> np.ndarray:
    """An influence matrix from 1×1 upwards, often with equal rows, zero rows and zero columns."""
    n, m = draw(st.integers(1, max_size)), draw(st.integers(1, max_size))
    if soft is None:
        soft = draw(st.booleans())
    weights = st.sampled_from([0.0, 1.0]) | st.floats(0, 1) if soft else st.booleans()
    distinct = draw(st.lists(st.lists(weights, min_size=m, max_size=m), min_size=1, max_size=n))
    which = draw(st.lists(st.integers(0, len(distinct) - 1), min_size=n, max_size=n))
    return np.array([distinct[k] for k in which])


@st.composite
def networks(
    draw: st.DrawFn, soft: bool | None = None, max_size: int = 6, labelled: bool | None = None
) -> InfluenceNetwork:
    """A network, soft or not, with labels of its own or without; no name is both an action's and a target's."""
    matrix = draw(matrices(soft, max_size))
    n, m = matrix.shape
    labels = draw(st.lists(names, min_size=n + m, max_size=n + m, unique=True))
    actions = labels[:n] if (draw(st.booleans()) if labelled is None else labelled) else None
    targets = labels[n:] if (draw(st.booleans()) if labelled is None else labelled) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StructureWarning)
        return InfluenceNetwork(matrix, actions, targets)


@st.composite
def factorisations(draw: st.DrawFn, n_actions: int) -> Factorisation:
    """Any factorisation of so many actions: groups in any order, actions in any order within them."""
    order: list[int] = draw(st.permutations(range(n_actions)))
    number = draw(st.lists(st.integers(0, n_actions - 1), min_size=n_actions, max_size=n_actions))
    groups: dict[int, list[int]] = {}
    for action, g in zip(order, number, strict=True):
        groups.setdefault(g, []).append(action)
    return Factorisation(groups.values(), n_actions)


@st.composite
def factored_networks(draw: st.DrawFn, **options: Any) -> tuple[InfluenceNetwork, Factorisation]:
    """A network and a factorisation of its actions."""
    net = draw(networks(**options))
    return net, draw(factorisations(net.shape[0]))
