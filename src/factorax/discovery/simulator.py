"""Simulators that can be run again from a seed: the same random numbers, other actions.

Actions are flat, ``(c,)``, in the units of the environment: those of an `ActionSpace` with ``bounded="clip"``. A
*policy* is a function of a JAX key and an observation ``(d,)`` that gives one; a trained `FactoredPPO` will do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._checks import Count, Seed
from ..spec import Spec
from ..structure import InfluenceNetwork
from .streams import Streams

ActingFunction = Callable[[Any, Any], Any]
RATES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""How often an action sequence leaves the value that it mostly has: held for long, or new at every step."""
OPTIONS = {"horizon": Count, "trials": Count, "groups": bool, "one_step": bool, "seed": Seed}
"""What the options of interventions may be."""


class Simulator(ABC):
    """A simulator with n factors, m targets and episodes of `horizon` steps; `steps` counts those simulated."""

    network: InfluenceNetwork
    """A network with the right shape and labels; its edges are not used."""
    notes: np.ndarray | None = None
    """What no action can have touched in the last call of `play` or `play_once`, ``(B, T + 2)``, in the order of the
    runs; see `factorax.discovery.streams.held_steps`. None where streams cannot shift."""

    def __init__(self, spec: Spec, horizon: int, policy: ActingFunction | None):
        self.space, self.network = spec.components, spec.network.static
        self.horizon, self.policy, self.steps = horizon, policy, 0
        self.factor_of = np.arange(len(self.space)) if spec.factors is None else spec.factors

    def close(self) -> None:
        """End what is open."""
        return

    def watch_streams(self, seed: int, base: np.ndarray) -> Streams:
        """Decide how to see whether random streams shift: ``"held"`` if that can be seen, else ``"unseen"``."""
        return "held"  # the keys of a step come from the seed and the step alone

    @property
    def watched(self) -> str:
        """What is compared, in words."""
        return "keys"

    @abstractmethod
    def play(self, seed: int, base: np.ndarray | None, forced: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return targets ``(B, T, m)`` of an episode for each of B sets of factors, booleans ``(B, n)``.

        Those factors do what is `forced`, ``(T, c)``; the others what they did in `base`, ``(T, c)``, or, if that is
        None, what the policy answers. Targets are 0 after the end of the episode.
        """

    @abstractmethod
    def play_once(self, seed: int, base: np.ndarray, forced: np.ndarray, factors: np.ndarray, t: int) -> np.ndarray:
        """Return targets ``(B, T, m)`` of single steps, each from the state that `base` leads to, with and without
        force: of all T steps where states can be kept, else of step `t` alone, T = 1. The first row is without."""

    @abstractmethod
    def acted(self, seed: int) -> np.ndarray:
        """Return the actions of the policy in an episode without intervention, ``(T, c)``."""

    def sequence(self, rng: np.random.Generator, *, alike: bool, rates: Sequence[float] = RATES) -> np.ndarray:
        """Return actions ``(T, c)`` of many kinds: held for the whole episode, changed now and then, or new at every
        step; one draw per component, or the same for all if `alike`, which influence over long distances may need."""
        size = 1 if alike else len(self.space)
        mostly, other = (self._draw(rng, (steps, size)) for steps in (1, self.horizon))
        leaves = rng.random((self.horizon, size)) < rng.choice(rates, size)
        return np.where(leaves, other, mostly).astype(np.float32)

    def unlike(self, base: np.ndarray, rng: np.random.Generator, rates: Sequence[float] = RATES) -> np.ndarray:
        """Return actions as of `sequence`, of which each component differs from `base` in at least one step. Each has
        its own: what two components do alike may cancel."""
        other = self.sequence(rng, alike=False, rates=rates)
        for c in np.flatnonzero((other == base).all(axis=0)):
            choices = int(self.space.choices[c])
            t = rng.integers(len(base))
            if choices > 1:
                other[t, c] = (other[t, c] + rng.integers(1, choices)) % choices
        return other

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Uniform over choices and between bounds; normal where there are none. Of a shape ``(T, 1)`` all components
        are made from the same numbers."""
        space, normal = self.space, rng.normal(size=shape)
        below, above = np.isfinite(space.low), np.isfinite(space.high)
        low, high = np.where(below, space.low, 0.0), np.where(above, space.high, 0.0)
        free = np.where(below, low + np.abs(normal), np.where(above, high - np.abs(normal), normal))
        drawn = np.where(below & above, low + rng.random(shape) * (high - low), free)
        return np.where(space.discrete, np.floor(rng.random(shape) * space.choices), drawn)

    def _components(self, factors: np.ndarray) -> np.ndarray:
        return np.asarray(factors, bool)[:, self.factor_of]
