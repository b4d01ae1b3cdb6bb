"""Random numbers of an RDDL model that actions cannot shift: each random variable has its own stream."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

_BY_REJECTION = frozenset(
    {"poisson", "gamma", "binomial", "negative_binomial", "beta", "geometric", "chisquare", "standard_t", "multinomial"}
)
"""NumPy samplers that consume a number of random bits that depends on their parameters, so that one object of a fluent
would shift the numbers of the next. Each element of these gets its own stream. All other samplers consume a fixed
number."""


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

    def at(self, place: int, element: int = 0) -> np.random.Generator:
        """Return the generator at the start of the stream of an expression and an element in this step."""
        # Word 0 of the counter starts at 0: it counts blocks of four numbers, 2⁶⁴ before one stream reaches another.
        counter = self._state["state"]["counter"]
        counter[1], counter[2], counter[3] = self._timestep(), place, element
        self._bits.state = self._state
        return self._generator

    def _keyed(self, sample: Callable[[Any, Any], Any], expr: Any, subs: Any) -> Any:
        """Replace a method of the simulator that samples an expression."""
        simulator, place = self._simulator, expr.id
        draws = self._draws.get(place)
        if draws is None:
            draws = self._draws[place] = _Draws(self, place)
        before, simulator.rng = simulator.rng, draws
        try:
            # Parameters may be random themselves: the counter is set by the draw, after they are sampled.
            return sample(expr, subs)
        finally:
            simulator.rng = before


class _Draws:
    """The generator that pyRDDLGym uses while it samples one expression."""

    def __init__(self, streams: Streams, place: int):
        self._streams, self._place = streams, place

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # while copying, before attributes exist
            raise AttributeError(name)
        method = partial(self._elementwise if name in _BY_REJECTION else self._together, name)
        setattr(self, name, method)  # cached for the next lookup
        return method

    def _together(self, name: str, **parameters: Any) -> Any:
        return getattr(self._streams.at(self._place), name)(**parameters)

    def _elementwise(self, name: str, **parameters: Any) -> Any:
        ends = {key: 1 if key == "pvals" else 0 for key in parameters}  # number of axes of one element
        arrays = {key: np.asarray(value) for key, value in parameters.items()}
        shape = np.broadcast_shapes(*(array.shape[: array.ndim - ends[key]] for key, array in arrays.items()))
        rows = {key: np.broadcast_to(array, shape + array.shape[array.ndim - ends[key] :])
                .reshape(-1, *array.shape[array.ndim - ends[key] :]) for key, array in arrays.items()}  # fmt: skip
        drawn = [
            getattr(self._streams.at(self._place, k), name)(**{key: row[k] for key, row in rows.items()})
            for k in range(int(np.prod(shape)))
        ]
        return np.reshape(drawn, shape + np.shape(drawn[0]))[()]
