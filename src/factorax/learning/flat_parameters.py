"""Parameters and optimizer moments as single vectors during minibatches.

Adam on one vector is one loop, and the norm of a gradient one sum, where each takes several operations for every array
of a network. Results are the same, except for the order in which the norm is summed.
"""

from typing import Any

import equinox as eqx
import jax
from jax.flatten_util import ravel_pytree

LARGEST = 2**20
"""Maximum size of a vector. Beyond it the copies would cost more than they save."""


class FlatParameters:
    """Conversion of the trained arrays of a tree to a vector and back."""

    def __init__(self, tree: Any):
        self._learnt, self._rest = eqx.partition(tree, eqx.is_inexact_array)
        self._structure = jax.tree.structure(self._learnt)
        self.vector, self._unravel = ravel_pytree(self._learnt)

    @staticmethod
    def can_hold(tree: Any) -> bool:
        """Return whether the trained arrays of a tree are several, of one type, and small."""
        leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
        return len(leaves) > 1 and len({x.dtype for x in leaves}) == 1 and sum(x.size for x in leaves) <= LARGEST

    def tree(self, vector: jax.Array) -> Any:
        """Return the tree with the entries of a vector."""
        return eqx.combine(self._unravel(vector), self._rest)

    def flat_state(self, state: Any) -> Any:
        """Return an optimizer state with a vector instead of each tree like that of the parameters."""
        flat = lambda part: ravel_pytree(part)[0] if self._is_tree(part) else part  # noqa: E731
        return jax.tree.map(flat, state, is_leaf=self._is_tree)

    def full_state(self, flat: Any, like: Any) -> Any:
        """Return the state from which `flat_state` was computed; `like` has its structure."""
        leaves, structure = jax.tree.flatten(like, is_leaf=self._is_tree)
        vectors = jax.tree.leaves(flat)
        parts = [self._unravel(x) if self._is_tree(y) else x for x, y in zip(vectors, leaves, strict=True)]
        return jax.tree.unflatten(structure, parts)

    def _is_tree(self, part: Any) -> bool:
        return jax.tree.structure(part) == self._structure
