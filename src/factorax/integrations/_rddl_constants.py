"""What an RDDL model computes from non-fluents alone, computed once instead of in every step."""

from collections.abc import Callable
from typing import Any

_KINDS = {"boolean": "logical", "randomvar": "random", "randomvector": "random_vector"}
"""Kinds of expressions whose method of the simulator has another name."""


class Constants:
    """The simulator's `_sample`, with a table of expressions in place of its chain of comparisons.

    pyRDDLGym interprets a tree of expressions in every step. Much of it never changes: bounds, invariants about
    parameters of the model, which objects are controllable. Their values are kept from the first evaluation on. All
    else is evaluated by the simulator's own methods, in its own order, so that results are the same, bit for bit.
    """

    def __init__(self, simulator: Any):
        self._simulator = simulator
        self._methods: dict[int, Callable[[Any, Any], Any]] = {}
        self._values: dict[int, Any] = {}
        self._expressions: list[Any] = []
        """Those in the tables, so that no other expression gets the same address."""
        simulator._sample = self.sample

    def sample(self, expr: Any, subs: Any) -> Any:
        """In place of the simulator's `_sample`."""
        place = id(expr)
        method = self._methods.get(place)
        if method is not None:
            return method(expr, subs)
        if place in self._values:
            return self._values[place]
        self._expressions.append(expr)
        kind = expr.etype[0]
        method = getattr(self._simulator, f"_sample_{_KINDS.get(kind, kind)}", None)
        if method is None:  # which it explains itself
            return type(self._simulator)._sample(self._simulator, expr, subs)
        if self._simulator.rddl.is_non_fluent_expression(expr):
            value = self._values[place] = method(expr, subs)
            return value
        self._methods[place] = method
        return method(expr, subs)
