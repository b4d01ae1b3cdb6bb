"""Caching of the parts of an RDDL model that depend only on non-fluents."""

from collections.abc import Callable
from typing import Any

_KINDS = {"boolean": "logical", "randomvar": "random", "randomvector": "random_vector"}
"""Kinds of expressions whose method in the simulator has another name."""


class Constants:
    """A replacement for the simulator's `_sample`, with a table of expressions instead of a chain of comparisons.

    pyRDDLGym interprets a tree of expressions in every step. Much of it never changes: bounds, invariants on
    parameters of the model, and which objects are controllable. These values are cached at the first evaluation.
    Everything else is evaluated by the simulator's own methods, in its own order, so results are bit-identical.
    """

    def __init__(self, simulator: Any):
        self._simulator = simulator
        self._methods: dict[int, Callable[[Any, Any], Any]] = {}
        self._values: dict[int, Any] = {}
        self._expressions: list[Any] = []
        """The expressions in the tables, kept alive so that no other expression gets the same address."""
        simulator._sample = self.sample

    def sample(self, expr: Any, subs: Any) -> Any:
        """Replace the simulator's `_sample`."""
        place = id(expr)
        method = self._methods.get(place)
        if method is not None:
            return method(expr, subs)
        if place in self._values:
            return self._values[place]
        self._expressions.append(expr)
        kind = expr.etype[0]
        method = getattr(self._simulator, f"_sample_{_KINDS.get(kind, kind)}", None)
        if method is None:  # let the simulator raise its own error
            return type(self._simulator)._sample(self._simulator, expr, subs)
        if self._simulator.rddl.is_non_fluent_expression(expr):
            value = self._values[place] = method(expr, subs)
            return value
        self._methods[place] = method
        return method(expr, subs)
