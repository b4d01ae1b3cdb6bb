"""Unions and intersections of two networks over the same actions and targets."""

from typing import Literal

import numpy as np

from .checks import as_network
from .labels import check_same_labels
from .network import InfluenceNetwork


def combine(
    first: InfluenceNetwork, second: InfluenceNetwork, operation: Literal["union", "intersection"]
) -> InfluenceNetwork:
    """Return the union or intersection of two networks: the larger or the smaller entry of the two matrices.

    The result has the labels of `first`. Raises ValueError if shapes or labels differ.
    """
    second = as_network(second, "other")
    if first.shape != second.shape:
        raise ValueError(f"other: got shape {second.shape}, want {first.shape}, the shape of the first network")
    check_same_labels(first.actions, second.actions, "other", "actions")
    check_same_labels(first.targets, second.targets, "other", "targets")
    a, b = first.matrix.astype(np.float64), second.matrix.astype(np.float64)
    matrix = a.maximum(b) if operation == "union" else a.minimum(b)
    network = InfluenceNetwork._derive(matrix, first._actions, first._targets)
    network._warn_of_isolated()
    return network
