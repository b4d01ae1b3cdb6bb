"""Simulators that can be replayed from a seed, with the same random numbers and other actions.

Actions are flat, ``(c,)``, in the units of the environment: those of an `ActionSpace` with ``distribution="clip"``. A
*policy* is a function of a JAX key and an observation ``(d,)`` that returns an action; a trained `FactoredPPO` works.
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
"""How often an action sequence leaves its usual value: from constant for long to new in each step."""
REFERENCE_EPISODES = 6
"""Number of episodes from which the spread of targets is estimated."""
OPTIONS = {"horizon": Count, "trials": Count, "groups": bool, "one_step": bool, "seed": Seed}
"""Types of the options of interventions."""


class Simulator(ABC):
    """A simulator with n factors, m targets and episodes of `horizon` steps; `steps` counts simulated steps."""

    network: InfluenceNetwork
    """A network with the right shape and labels; its edges are not used."""
    notes: np.ndarray | None = None
    """Hashes of everything that no action can have touched in the last call of `play` or `play_once`, ``(B, T + 2)``;
    see `factorax.discovery.streams.held_steps`. None if streams cannot shift."""

    tolerance: float = 0.0
    """Default tolerance of `intervene`: none, as only what depends on an action changes in a compiled program."""

    def __init__(self, spec: Spec, horizon: int, policy: ActingFunction | None):
        self.space, self.network = spec.components, spec.network.static
        self.spread = np.zeros(self.network.shape[1])
        """Standard deviation of each target over the steps of a few episodes, ``(m,)``; 0 before `measure_spread`."""
        self.least_change = np.zeros(self.network.shape[1])
        """A target that differs by more than this in a step has moved, ``(m,)``."""
        self.horizon, self.policy, self.steps = horizon, policy, 0
        self.factor_of = np.arange(len(self.space)) if spec.factors is None else spec.factors

    def close(self) -> None:
        """Close the simulator."""
        return

    def watch_streams(self, seed: int, base: np.ndarray) -> Streams:
        """Decide how to detect shifts of random streams: ``"held"`` if they can be detected, otherwise ``"unseen"``."""
        return "held"  # the keys of a step depend only on the seed and the step

    @property
    def watched(self) -> str:
        """What is compared, in words."""
        return "keys"

    def measure_spread(self, seed: int, tolerance: float) -> None:
        """Play a few episodes with other seeds, and set `spread` and `least_change` for this relative tolerance."""
        rng = np.random.default_rng([seed, 7])
        rows = []
        for number in range(REFERENCE_EPISODES):
            actions = [self.sequence(rng, alike=False) for _ in range(2)]
            base = None if self.policy is not None else actions[0]
            psi = self.play(seed + number, base, actions[1], rng.random((1, self.network.shape[0])) < 0.5)[0]
            lasts = 1 + np.flatnonzero(psi.any(axis=1)).max(initial=0)  # all targets are 0 after the end
            rows.append(psi[:lasts][np.isfinite(psi[:lasts]).all(axis=1)].astype(np.float64))
        steps = np.concatenate(rows)
        # Without a finite step there is no spread, and every difference counts.
        if len(steps):
            self.spread = steps.std(axis=0)
            rounding = np.finfo(np.float32).eps * np.abs(steps).max(axis=0)
            self.least_change = np.maximum(tolerance * self.spread, rounding) if tolerance else 0 * self.spread

    @abstractmethod
    def play(self, seed: int, base: np.ndarray | None, forced: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Return targets ``(B, T, m)`` of an episode for each of B sets of factors, booleans ``(B, n)``.

        These factors take the actions `forced`, ``(T, c)``; the others those of `base`, ``(T, c)``, or, if it is None,
        those of the policy. Targets are 0 after the end of the episode.
        """

    @abstractmethod
    def play_once(self, seed: int, base: np.ndarray, forced: np.ndarray, factors: np.ndarray, t: int) -> np.ndarray:
        """Return targets ``(B, T, m)`` of single steps, each from the state that `base` leads to; the first row is
        unforced.

        If states can be stored, all T steps are returned, otherwise only step `t`, T = 1.
        """

    @abstractmethod
    def acted(self, seed: int) -> np.ndarray:
        """Return the actions of the policy in an episode without intervention, ``(T, c)``."""

    def sequence(self, rng: np.random.Generator, *, alike: bool, rates: Sequence[float] = RATES) -> np.ndarray:
        """Return actions ``(T, c)`` of many kinds: constant over the episode, changed occasionally, or new in each
        step.

        There is one draw per component, or the same for all if `alike`, which influence over long distances may need.
        """
        size = 1 if alike else len(self.space)
        mostly, other = (self._draw(rng, (steps, size)) for steps in (1, self.horizon))
        leaves = rng.random((self.horizon, size)) < rng.choice(rates, size)
        return np.where(leaves, other, mostly).astype(np.float32)

    def unlike(self, base: np.ndarray, rng: np.random.Generator, rates: Sequence[float] = RATES) -> np.ndarray:
        """Return actions as from `sequence`, in which each component differs from `base` in at least one step.

        Components draw independently, because equal changes of two components may cancel.
        """
        other = self.sequence(rng, alike=False, rates=rates)
        # A component that happens to repeat its actions would be counted as changed without being so.
        for c in np.flatnonzero((other == base).all(axis=0)):
            choices = int(self.space.choices[c])
            t = rng.integers(len(base))
            if choices > 1:
                other[t, c] = (other[t, c] + rng.integers(1, choices)) % choices
        return other

    def _draw(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        """Return uniform draws over choices and between bounds, and normal ones if there are no bounds.

        For a shape ``(T, 1)`` all components use the same numbers.
        """
        space, normal = self.space, rng.normal(size=shape)
        below, above = np.isfinite(space.low), np.isfinite(space.high)
        low, high = np.where(below, space.low, 0.0), np.where(above, space.high, 0.0)
        free = np.where(below, low + np.abs(normal), np.where(above, high - np.abs(normal), normal))
        drawn = np.where(below & above, low + rng.random(shape) * (high - low), free)
        return np.where(space.discrete, np.floor(rng.random(shape) * space.choices), drawn)

    def _components(self, factors: np.ndarray) -> np.ndarray:
        return np.asarray(factors, bool)[:, self.factor_of]
