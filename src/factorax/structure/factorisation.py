"""Policy factorisations: groups of actions that are drawn together (Defs. 3.3 and 4.2 of the paper)."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .._checks import listed, real_array
from .._text import counted, shown, some
from .labels import check_labels, positions
from .partition import PartitionMap, as_index, merge_parts


class Factorisation:
    """An n-fold policy factorisation Σ: disjoint groups of actions that cover all of them.

    π(a|s) = ∏ᵢ πᵢ(σᵢ(a)|s), one factor πᵢ for each group (eq. 5 of the paper).

    **Arguments**

    - `groups`: lists of action indices, counted from 0; each action is in exactly one list.
    - `n_actions`: the number of actions.

    >>> sigma = Factorisation([[0, 1], [2]], 3)
    >>> len(sigma), sigma.groups
    (2, ((0, 1), (2,)))
    >>> sigma.split(("buy", "sell", 9.5))
    (('buy', 'sell'), (9.5,))
    >>> sigma.merge(sigma.split(("buy", "sell", 9.5)))
    ('buy', 'sell', 9.5)
    """

    def __init__(self, groups: Iterable[Iterable[int]], n_actions: int):
        n_actions = as_index(n_actions, "n_actions", least=1)
        numbered = [[as_index(i, "groups") for i in group] for group in _lists(groups, "numbers")]
        if any(not group for group in numbered):
            raise ValueError("groups: got an empty group; want at least one action per group")
        group_of = np.full(n_actions, -1, dtype=np.int64)
        for g, group in enumerate(numbered):
            for i in group:
                if not 0 <= i < n_actions:
                    raise ValueError(f"groups: got action {i}, want numbers from 0 to {n_actions - 1}")
                if group_of[i] >= 0:
                    raise ValueError(f"groups: got action {i} twice, want each action in exactly one group")
                group_of[i] = g
        missing = np.flatnonzero(group_of < 0)
        if missing.size:
            raise ValueError(
                f"groups: action {some([str(i) for i in missing])} is missing; want each action in a group, "
                "which may have one action"
            )
        self.group_of = group_of
        self._size = len(numbered)
        self.__dict__["groups"] = tuple(map(tuple, numbered))  # keep the caller's order
        group_of.setflags(write=False)

    @classmethod
    def from_group_of(cls, group_of: np.ndarray) -> "Factorisation":
        """Create a factorisation from the group number of every action, shape ``(n_actions,)``.

        All numbers from 0 to the number of groups minus 1 must occur.
        """
        numbers = real_array("group_of", group_of)
        if numbers.ndim != 1 or not numbers.size or not np.issubdtype(numbers.dtype, np.integer):
            raise ValueError(f"group_of: got shape {numbers.shape} of {numbers.dtype}, want (n_actions,) whole numbers")
        size = int(numbers.max()) + 1
        if numbers.min() < 0 or np.bincount(numbers, minlength=size).min() == 0:
            raise ValueError(
                f"group_of: got {shown(group_of)}, want every number from 0 to {size - 1} at least once, and none "
                "below 0"
            )
        self = cls.__new__(cls)
        self.group_of = numbers.astype(np.int64)
        self.group_of.setflags(write=False)
        self._size = size
        return self

    @classmethod
    def from_labels(cls, groups: Iterable[Iterable[str]], actions: Sequence[str]) -> "Factorisation":
        """Create a factorisation from groups of action labels.

        >>> Factorisation.from_labels([["heat", "vent"], ["light"]], ["heat", "light", "vent"])
        Factorisation([[0, 2], [1]], 3)
        """
        actions = check_labels(actions, None, "actions")
        named = _lists(groups, "labels")
        if any(not isinstance(name, str) for group in named for name in group):
            raise TypeError("groups: got numbers, want action labels; for numbers use Factorisation(groups, n_actions)")
        numbered = [positions(group, actions, "groups") for group in named]
        missing = sorted(set(actions) - {name for group in named for name in group})
        if missing:
            raise ValueError(
                f"groups: action {some(missing)} is missing; want each action in a group, which may have one action"
            )
        return cls(numbered, len(actions))

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return len(self.group_of)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The action indices of each factor."""
        order = np.argsort(self.group_of, kind="stable")
        bounds = np.cumsum(np.bincount(self.group_of))[:-1]
        return tuple(tuple(part.tolist()) for part in np.split(order, bounds))

    @cached_property
    def partition_maps(self) -> tuple[PartitionMap, ...]:
        """The partition map σᵢ of each factor."""
        return tuple(PartitionMap(group, self.n_actions) for group in self.groups)

    def split(self, action: Any) -> tuple[Any, ...]:
        """Return (σ₁(a), …, σₙ(a)): the part of the action that each factor draws."""
        return tuple(sigma(action) for sigma in self.partition_maps)

    def merge(self, parts: Sequence[Any]) -> Any:
        """Return the action with these parts: ``merge(split(a)) == a``."""
        parts = listed("parts", parts, f"{len(self)} parts, one for each factor")
        if len(parts) != len(self):
            raise ValueError(f"parts: got {len(parts)}, want {len(self)}, one for each factor")
        return merge_parts(parts, self.groups)

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factorisation) and self.groups == other.groups

    def __hash__(self) -> int:
        return hash(self.groups)

    def __repr__(self) -> str:
        if self.n_actions > 20:
            return f"Factorisation({counted(len(self), 'factor')} of {self.n_actions} actions)"
        return f"Factorisation({[list(g) for g in self.groups]}, {self.n_actions})"


def _lists(groups: Any, of: str) -> list[list[Any]]:
    """Return the groups as lists; raise TypeError for a string or for anything that is not a list of lists."""
    want = f"lists of {of}, as in [[…], […]]"
    return [listed("groups", group, want) for group in listed("groups", groups, want)]


def merge_rows(matrix: sparse.csr_array, factorisation: Factorisation) -> sparse.coo_array:
    """Return the union of the rows of each group, shape ``(n_groups, n_targets)``, with the largest of soft weights."""
    coo = matrix.tocoo()
    row, column = factorisation.group_of[coo.row], coo.col
    order = np.lexsort((coo.data, column, row))[::-1]  # the heaviest of several merged edges comes first
    row, column, data = row[order], column[order], coo.data[order]
    first = np.ones(len(row), dtype=bool)
    first[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    shape = (len(factorisation), matrix.shape[1])
    return sparse.coo_array((data[first], (row[first], column[first])), shape)
