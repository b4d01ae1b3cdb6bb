"""Replays of a Gymnasium environment, with checks of its random generators after each step."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from gymnasium.spaces.utils import flatten, flatten_space

from ..problems.vectors import create, is_vector
from ..rollouts.step_checks import checked_reset, checked_step
from ..spaces import ActionSpace
from ..spec import Spec, declared_network
from ..structure import InfluenceNetwork
from .simulator import ActingFunction, Simulator
from .streams import Streams, StreamWatch

_OTHER_SEEDS = 3
"""Number of seeds used to check whether the seed has an effect."""


class HostSimulator(Simulator):
    """A Gymnasium environment that is reset with ``reset(seed=…)`` for each replay."""

    tolerance = 1e-3  # simulators may choose steps or iterations by the whole state, which couples all of it a little

    def __init__(
        self,
        make: Callable[[], Any],
        horizon: int,
        policy: ActingFunction | None,
        exogenous: Sequence[int] = (),
    ):
        self.env = create(make)
        try:
            spec = self._described()
            super().__init__(spec, horizon, policy)
            size = int(np.prod(spec.observation_space.shape or ()))
            if wrong := [each for each in exogenous if each >= size]:
                raise ValueError(
                    f"exogenous: got {wrong[0]}, want indices below {size}, the size of a flat observation"
                )
        except BaseException:  # some simulators refuse another instance until this one is closed
            self.env.close()
            raise
        self._exogenous, self._watch, self._watching = list(exogenous), StreamWatch(self.env, exogenous), False

    def _described(self) -> Spec:
        """Return the specification of the environment; a step counts the targets if it has no network."""
        if is_vector(self.env):
            raise TypeError(
                f"problem: got a function that returns a vector environment, {type(self.env).__name__}, but "
                "interventions replay one episode at a time; want a function that returns one gymnasium.Env"
            )
        space, network = ActionSpace.of(self.env.action_space, distribution="clip"), declared_network(self.env)
        if network is None:
            checked_reset(self.env, seed=0)
            _, reward, *_, info = checked_step(self.env, space.to_environment(np.zeros(len(space), np.float32)))
            network = InfluenceNetwork.complete(len(space), np.size(info.get("vector_reward", reward)))
        observations = flatten_space(self.env.observation_space)  # used only by a policy
        return Spec.of_spaces(observations, self.env.action_space, network, distribution="clip")

    def _flat(self, obs: Any) -> np.ndarray:
        return np.asarray(flatten(self.env.observation_space, obs)) if self._exogenous else np.zeros(0)

    def _episode(self, seed: int, choose: Callable[[int, Any], np.ndarray], steps: int) -> tuple[Any, Any, Any]:
        """Return targets ``(T, m)``, actions ``(T, c)`` and notes ``(T + 2,)`` of an episode."""
        psi = np.zeros((self.horizon, self.network.shape[1]))
        actions = np.zeros((self.horizon, len(self.space)), np.float32)
        notes, watch = np.zeros(self.horizon + 2, np.int64), self._watch if self._watching else None
        obs, _ = checked_reset(self.env, seed=seed)
        if watch is not None:
            notes[0] = watch.reset(self._flat(obs))
        for t in range(steps):
            actions[t] = choose(t, obs)
            action = self.space.to_environment(actions[t].copy())
            obs, reward, terminated, truncated, info = checked_step(self.env, action)
            psi[t] = np.array(info.get("vector_reward", reward), dtype=float)  # a copy: some environments overwrite it
            self.steps += 1
            if watch is not None:
                notes[t + 1] = watch.note(self._flat(obs))
            if terminated or truncated:
                break
        if watch is not None:
            notes[-1] = watch.end()
        return psi, actions, notes

    def _runs(self, seed: int, chosen: list[Callable[[int, Any], np.ndarray]], steps: int) -> np.ndarray:
        runs = [self._episode(seed, choose, steps) for choose in chosen]
        self.notes = np.array([notes for _, _, notes in runs])
        return np.array([psi for psi, _, _ in runs])

    def watch_streams(self, seed: int, base: np.ndarray) -> Streams:
        """Choose the generators to compare: those that `reset` seeds. ``"unseen"`` if the seed matters but none draws.

        The same actions are played twice with one seed and once with a few others.
        """

        def play(seed: int) -> tuple[dict[str, int], set[str], np.ndarray, dict[str, int]]:
            after: list[Any] = []

            def choose(t: int, obs: Any) -> np.ndarray:
                if t == 0:
                    after.extend([self._watch.states(), self._watch.new(seed)])
                return base[t]

            psi = self._episode(seed, choose, self.horizon)[0]
            return after[0], after[1], psi, self._watch.states()

        self._watch.names, self._watching = [], True
        first, new, psi, last = play(seed)
        drew = self._watch.choose(first, play(seed)[0], last)
        others = [play(seed + k) for k in range(1, 1 + _OTHER_SEEDS)]
        if all(np.array_equal(psi, other[2], equal_nan=True) for other in others):
            return "held"  # nothing is random
        by_seed = {name for name in self._watch.names if any(other[0].get(name) != first[name] for other in others)}
        return "held" if self._exogenous or drew or by_seed - new else "unseen"

    @property
    def watched(self) -> str:
        """The generators and observations that are compared, in words."""
        return self._watch.described

    def _answer(self, seed: int, t: int, obs: Any) -> np.ndarray:
        assert self.policy is not None
        return np.asarray(self.policy(jax.random.fold_in(jax.random.key(seed), t), np.asarray(obs, np.float32)))

    def play(self, seed: int, base: np.ndarray | None, forced: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Play the replays one after another."""

        def choose(mask: np.ndarray, t: int, obs: Any) -> np.ndarray:
            return np.where(mask, forced[t], self._answer(seed, t, obs) if base is None else base[t])

        return self._runs(seed, [partial(choose, mask) for mask in self._components(factors)], self.horizon)

    def play_once(self, seed: int, base: np.ndarray, forced: np.ndarray, factors: np.ndarray, t: int) -> np.ndarray:
        """Play only step `t`; each replay must play the steps before it, in which nothing may differ."""

        def choose(mask: np.ndarray, time: int, obs: Any) -> np.ndarray:
            return np.where(mask & (time == t), forced[t], base[time])

        masks = np.vstack([np.zeros((1, len(self.space)), bool), self._components(factors)])
        psi = self._runs(seed, [partial(choose, mask) for mask in masks], t + 1)
        before = psi[:, :t]
        if not np.array_equal(before, np.broadcast_to(before[:1], before.shape), equal_nan=True):
            raise ValueError(
                f"problem: episodes with seed {seed} differ in targets before step {t}, the first in which actions "
                "differ; want a deterministic simulator: does some state survive reset(seed=…)?"
            )
        return psi[:, t : t + 1]

    def acted(self, seed: int) -> np.ndarray:
        """Play an episode without intervention and return its actions."""
        return self._episode(seed, partial(self._answer, seed), self.horizon)[1]

    def close(self) -> None:
        """Close the environment."""
        self.env.close()
