"""Replacements for methods of the RDDL simulator: random numbers that actions cannot shift, and cached constants."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

_REJECTION_SAMPLERS = frozenset(
    {"poisson", "gamma", "binomial", "negative_binomial", "beta", "geometric", "chisquare", "standard_t", "multinomial"}
)
"""NumPy samplers that consume a number of random bits that depends on their parameters, so that one object of a fluent
would shift the numbers of the next. Each element of these gets its own stream. All other samplers consume a fixed
number."""
_METHODS = {"boolean": "logical", "randomvar": "random", "randomvector": "random_vector"}
"""Kinds of expressions whose method in the simulator has another name."""


class Streams:
    """Draws that depend only on the episode, the step, the random variable and the object.

    pyRDDLGym draws everything from one generator, and skips the branch of an ``if`` that no object takes. The number of
    draws then depends on the actions, and one action shifts the numbers of all fluents sampled later. Here the counter
    of a Philox generator is set before each draw, to the step, the index of the random variable's expression in the
    model, and, for rejection samplers, the index of the element.
    """

    keyed_randomness = True
    """Tells `factorax.discovery` that these generators are set before each use and cannot be shifted."""

    def __init__(self, simulator: Any, timestep: Callable[[], int]):
        self._simulator, self._timestep = simulator, timestep
        self._bits = np.random.Philox(0)
        self._generator = np.random.Generator(self._bits)
        self._state: Any = self._bits.state
        self._draws: dict[int, _Draws] = {}
        simulator._sample_random = partial(self._keyed, simulator._sample_random)
        simulator._sample_random_vector = partial(self._keyed, simulator._sample_random_vector)

    def start(self) -> None:
        """Start an episode; its key is drawn from the simulator's generator, which `reset(seed=…)` seeds."""
        self._state["state"]["key"][:] = self._simulator.rng.integers(0, 2**64, 2, np.uint64)

    def at(self, expression: int, element: int = 0) -> np.random.Generator:
        """Return the generator at the start of the stream of an expression and an element in this step."""
        # Word 0 of the counter starts at 0: it counts blocks of four numbers, 2⁶⁴ before one stream reaches another.
        counter = self._state["state"]["counter"]
        counter[1], counter[2], counter[3] = self._timestep(), expression, element
        self._bits.state = self._state
        return self._generator

    def _keyed(self, sample: Callable[[Any, Any], Any], expr: Any, subs: Any) -> Any:
        """Replace a method of the simulator that samples an expression."""
        simulator = self._simulator
        draws = self._draws.get(expr.id)
        if draws is None:
            draws = self._draws[expr.id] = _Draws(self, expr.id)
        before, simulator.rng = simulator.rng, draws
        try:
            # Parameters may be random themselves: the counter is set by the draw, after they are sampled.
            return sample(expr, subs)
        finally:
            simulator.rng = before


class _Draws:
    """The generator that pyRDDLGym uses while it samples one expression."""

    def __init__(self, streams: Streams, expression: int):
        self._streams, self._expression = streams, expression

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # while copying, before attributes exist
            raise AttributeError(name)
        method = partial(self._by_element if name in _REJECTION_SAMPLERS else self._at_once, name)
        setattr(self, name, method)  # the next lookup does not come here
        return method

    def _at_once(self, name: str, **parameters: Any) -> Any:
        return getattr(self._streams.at(self._expression), name)(**parameters)

    def _by_element(self, name: str, **parameters: Any) -> Any:
        # The last axis of `pvals` belongs to one element of a multinomial; all other parameters are scalars.
        arrays = {key: np.asarray(value) for key, value in parameters.items()}
        split = {key: array.ndim - (key == "pvals") for key, array in arrays.items()}
        shape = np.broadcast_shapes(*(array.shape[: split[key]] for key, array in arrays.items()))
        full = {key: np.broadcast_to(array, shape + array.shape[split[key] :]) for key, array in arrays.items()}
        samples = [
            getattr(self._streams.at(self._expression, k), name)(**{key: each[index] for key, each in full.items()})
            for k, index in enumerate(np.ndindex(shape))
        ]
        return np.reshape(samples, shape + np.shape(samples[0]))[()]


class Constants:
    """A replacement for the simulator's `_sample`, with a table of expressions instead of a chain of comparisons.

    pyRDDLGym interprets a tree of expressions in every step. Much of it never changes: bounds, invariants on
    parameters of the model, and which objects are controllable. These values are cached at the first evaluation.
    Everything else is evaluated by the simulator's own methods, in its own order, so results are bit-identical.
    """

    # Steps of five models of rddlrepository take 1.3 to 1.7 times as long without this class.

    def __init__(self, simulator: Any):
        self._simulator = simulator
        self._table: dict[int, tuple[Any, Callable[[Any, Any], Any]]] = {}
        simulator._sample = self.sample

    def sample(self, expr: Any, subs: Any) -> Any:
        """Replace the simulator's `_sample`."""
        expression, method = self._table.get(id(expr), (None, None))
        # In a deep copy of the simulator, the address of an expression may be one that another had in the original.
        if expression is not expr or method is None:
            method = self._method(expr, subs)
        return method(expr, subs)

    def _method(self, expr: Any, subs: Any) -> Callable[[Any, Any], Any]:
        """Return the method that evaluates an expression, and enter it into the table."""
        kind = expr.etype[0]
        method = getattr(self._simulator, f"_sample_{_METHODS.get(kind, kind)}", None)
        if method is None:  # the simulator raises its own error
            return partial(type(self._simulator)._sample, self._simulator)
        if self._simulator.rddl.is_non_fluent_expression(expr):
            value = method(expr, subs)
            method = lambda expr, subs: value  # noqa: E731
        self._table[id(expr)] = expr, method
        return method
