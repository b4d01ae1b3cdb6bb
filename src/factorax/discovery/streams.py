"""Random streams of a simulator: detection of whether two runs of one seed drew the same random numbers.

If the number of random numbers that a simulator draws depends on the actions, its stream shifts: all later random
numbers differ, and targets change that no action influences. The states of its generators show this.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

Streams = Literal["held", "trusted", "shifted", "unseen"]
"""Whether random numbers were the same in runs that were compared:

- ``"held"``: the generators were in the same state after each step, or the keys of a JAX problem cannot shift;
- ``"trusted"``: not compared, because the caller asserts it;
- ``"shifted"``: actions changed which numbers were drawn;
- ``"unseen"``: the seed matters, but no generator that it seeds can be reached.
"""
Checking = Literal["check", "trust", "test"]
MAX_OBJECTS = 20_000
MAX_DEPTH = 8
_LEAVES = (str, bytes, int, float, complex, bool, type(None), np.ndarray, np.generic, type)
_GLOBAL_NUMPY = "numpy.random"
_GLOBAL_PYTHON = "random"


def generators_of(env: Any) -> dict[str, Any]:
    """Return the random generators reachable from an environment, by path, and the two global ones.

    Attributes, wrapped environments, dictionaries, lists and tuples are followed; no property is called. An object
    with an attribute ``keyed_randomness = True`` is skipped: it sets its generators before each draw.

    >>> import gymnasium as gym
    >>> env = gym.make("CartPole-v1")
    >>> _ = env.reset(seed=0)
    >>> [name for name in generators_of(env) if name.endswith("._np_random")][-1]
    'env.env.env.env._np_random'
    """
    generators: dict[str, Any] = {_GLOBAL_NUMPY: np.random.mtrand._rand, _GLOBAL_PYTHON: random}
    visited = {id(generators[_GLOBAL_NUMPY]), id(np.random), id(random)}
    front: list[tuple[str, Any]] = [("env", env)]
    # Breadth first: generators are near the environment, and large simulators have millions of objects.
    for _ in range(MAX_DEPTH):
        behind: list[tuple[str, Any]] = []
        for name, thing in front:
            if id(thing) in visited or len(visited) > MAX_OBJECTS:
                continue
            visited.add(id(thing))
            if isinstance(thing, random.SystemRandom):
                continue  # has no state to compare
            if isinstance(thing, np.random.Generator | np.random.RandomState | np.random.BitGenerator | random.Random):
                generators[name] = thing
            else:
                behind += _parts(name, thing)
        front = behind
    return generators


def _parts(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    # Properties are not read: they may compute, or start a simulator.
    if isinstance(thing, _LEAVES) or getattr(type(thing), "keyed_randomness", False) is True:
        return
    if isinstance(thing, dict):
        yield from ((f"{name}[{key!r}]", each) for key, each in thing.items() if not isinstance(each, _LEAVES))
    elif isinstance(thing, list | tuple):
        yield from ((f"{name}[{k}]", each) for k, each in enumerate(thing) if not isinstance(each, _LEAVES))
    elif not callable(thing) or hasattr(thing, "step"):
        attributes = getattr(thing, "__dict__", None)
        if isinstance(attributes, dict):
            items = list(attributes.items())
            yield from ((f"{name}.{key}", each) for key, each in items if not isinstance(each, _LEAVES))


def state_of(generator: Any) -> int:
    """Return a hash of the state of a generator, valid within this process."""
    if generator is random or isinstance(generator, random.Random):
        return hash(generator.getstate())
    if isinstance(generator, np.random.RandomState):
        return hash(_frozen(generator.get_state(legacy=False)))
    bits = generator.bit_generator if isinstance(generator, np.random.Generator) else generator
    return hash(_frozen(bits.state))


def _frozen(state: Any) -> Any:
    if isinstance(state, dict):
        return tuple(_frozen(value) for value in state.values())
    return state.tobytes() if isinstance(state, np.ndarray) else state


def _is_new(generator: Any, seed: int) -> bool:
    """Return whether a generator was seeded and has drawn nothing since."""
    if isinstance(generator, np.random.Generator):
        return state_of(generator) == state_of(type(generator.bit_generator)(seed))
    if isinstance(generator, np.random.RandomState):
        return state_of(generator) == state_of(np.random.RandomState(seed))
    return isinstance(generator, random.Random) and state_of(generator) == state_of(random.Random(seed))


class StreamWatch:
    """Records everything that no action can have touched, after the reset and after each step of an episode.

    This is the state of the generators that ``reset(seed=…)`` seeds, and the components `exogenous` of the flat
    observation, which no action touches according to the caller.
    """

    def __init__(self, env: Any, exogenous: Sequence[int] = ()):
        self._env, self._exogenous = env, list(exogenous)
        self._now: dict[str, Any] = {}
        self.names: list[str] = []
        """Paths of the generators whose states are compared; empty until `choose`."""
        self._at_end: list[str] = []

    def reset(self, flat: np.ndarray) -> int:
        """Find the generators of the new episode and record them; `flat` is the observation."""
        self._now = generators_of(self._env)
        return self.note(flat)

    def note(self, flat: np.ndarray) -> int:
        """Return a hash that differs if anything differs that no action can have touched."""
        states = tuple(state_of(self._now[name]) if name in self._now else 0 for name in self.names)
        exogenous = flat[self._exogenous].tobytes() if self._exogenous else b""
        return hash((states, exogenous)) | 1  # not 0, which stands for no step

    def end(self) -> int:
        """Return the same hash for generators that are compared only once, at the end of an episode."""
        return hash(tuple(state_of(self._now[name]) if name in self._now else 0 for name in self._at_end)) | 1

    def states(self) -> dict[str, int]:
        """Return the states of all generators that are reachable now."""
        return {name: state_of(generator) for name, generator in self._now.items()}

    def new(self, seed: int) -> set[str]:
        """Return the generators that were seeded with `seed` and have drawn nothing."""
        return {name for name, generator in self._now.items() if _is_new(generator, seed)}

    def choose(self, first: dict[str, int], again: dict[str, int], last: dict[str, int]) -> set[str]:
        """Decide what to compare, given the states after two resets with one seed and at the end of an episode.

        A generator that differs after both resets is not seeded, and is not used by a deterministic simulator. One
        that is slow to read and did not draw is compared only at the end of an episode. Returns the names of those
        that drew.
        """
        seeded = [name for name in first if again.get(name) == first[name]]
        drew = {name for name in seeded if last.get(name) != first[name]}
        quick = np.random.Generator, np.random.BitGenerator  # others may have a state of hundreds of words
        slow = {name for name in seeded if name not in drew and not isinstance(self._now.get(name), quick)}
        self.names, self._at_end = [name for name in seeded if name not in slow], sorted(slow)
        return drew

    @property
    def described(self) -> str:
        """What is compared, for a message."""
        parts = [*self.names, *self._at_end] + ["exogenous observations"] * bool(self._exogenous)
        return ", ".join(parts[:4]) + (f" and {len(parts) - 4} more" if len(parts) > 4 else "")


def held_steps(first: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the number of leading steps in which each run drew the random numbers of the first, ``(B,)``.

    - `first`: the records of a run, ``(T + 2,)``: after the reset, after each step, at the end; 0 after its last step.
    - `after`: those of other runs, ``(B, T + 2)``.

    >>> held_steps(np.array([7, 8, 9, 5]), np.array([[7, 8, 9, 5], [7, 8, 1, 5], [7, 0, 0, 5], [7, 8, 9, 1]]))
    array([2, 1, 2, 0])
    """
    steps = len(first) - 2
    differs = (after != first) & (after != 0) & (first != 0)
    in_steps = differs[:, 1:-1]
    steps_held = np.where(in_steps.any(axis=1), in_steps.argmax(axis=1), steps)
    # For what is compared only at the end, the step at which it began to differ is unknown.
    return np.where(differs[:, 0] | differs[:, -1], 0, steps_held)
