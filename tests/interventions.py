"""What an action really changes: the same episode twice, with the same random numbers, but for one action.

Random numbers of an RDDL environment depend on the seed, the step and their place in the model alone.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from factorax.spaces import ActionSpace


class _Actor:
    """Flat actions: random ones in open loop, functions of the local observations in closed loop."""

    def __init__(self, env: Any, closed_loop: bool, rng: np.random.Generator):
        self.env, self.space, self.closed_loop = env, ActionSpace.of(env.action_space), closed_loop
        n = env.network.shape[0]
        assert len(self.space) == n
        self.low = np.where(np.isfinite(self.space.low), self.space.low, -1.0)
        self.high = np.where(np.isfinite(self.space.high), self.space.high, 1.0)
        self.whole = self.space.discrete | ((self.space.low == 0) & (self.space.high == 1))
        self.draws = rng.random((env.horizon, n))
        # Where few actions are allowed at a time, mostly so few.
        self.acts = rng.random((env.horizon, n)) < (1.0 if env._limit is None else env._limit / n)
        self.weights = rng.normal(size=env.local(np.zeros(env.observation_space.shape, np.float32)).shape)

    def __call__(self, obs: np.ndarray, t: int, changed: tuple[int, float] | None = None) -> dict[str, Any]:
        share = self.draws[t].copy()
        if self.closed_loop:
            share = (share + np.abs(np.sin(10 * (self.env.local(obs) * self.weights).sum(axis=-1)))) % 1.0
        if changed is not None:
            share[changed[0]] = changed[1]
        flat = np.where(
            self.whole,
            np.floor(self.low + share * (self.high - self.low + 1)),
            self.low + share * (self.high - self.low),
        )
        action = self.space.to_environment(flat.astype(np.float32))
        if self.env._limit is None:
            return action
        doing = self.acts[t].copy()
        if changed is not None:
            doing[changed[0]] = True
        at, few = 0, {}
        for name, value in action.items():
            size = np.size(value)
            acts = doing[at : at + size].reshape(np.shape(value))
            few[name], at = np.where(acts, value, self.env._defaults[name]), at + size
        return few


def _run(env: Any, obs: np.ndarray, act: Callable[..., Any], times: range, changed: Any = None) -> tuple[Any, ...]:
    """The last observation, the targets of every step, and whether a state invariant was broken."""
    psi = []
    for t in times:
        obs, reward, terminated, truncated, info = env.step(act(obs, t, changed))
        changed = None
        psi.append(info["vector_reward"])
        assert np.isclose(reward, env.weights @ psi[-1], equal_nan=True)
        if terminated or truncated:
            return obs, psi, truncated
    return obs, psi, False


def moved(
    env: Any, *, steps: int, trials: int, factors: int, closed_loop: bool = False, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Which target each action was seen to change, in the same step and at all: two boolean arrays ``(n, m)``.

    In every trial each of up to `factors` actions is changed at one random step. Later actions stay as they were, or,
    in closed loop, answer to what their actors read.
    """
    rng = np.random.default_rng(seed)
    n, m = env.network.shape
    at_once, ever = np.zeros((n, m), bool), np.zeros((n, m), bool)
    for trial in range(trials):
        act = _Actor(env, closed_loop, rng)
        at = int(rng.integers(max(1, steps // 2)))
        obs, _ = env.reset(seed=seed + trial)
        obs, before, broken = _run(env, obs, act, range(at))
        if len(before) < at or broken or env.rddl.done:
            continue
        subs = dict(env.rddl.sampler.subs)
        _, base, broken = _run(env, obs, act, range(at, steps))
        for factor in rng.permutation(n)[:factors]:
            env.rddl.sampler.subs, env.rddl.timestep, env.rddl.done = dict(subs), at, False
            _, other, also_broken = _run(env, obs, act, range(at, steps), (factor, rng.random()))
            if broken or also_broken:  # the network takes invariants to hold
                continue
            length = min(len(base), len(other))
            differs = ~np.isclose(base[:length], other[:length], rtol=1e-12, atol=0, equal_nan=True)
            at_once[factor] |= differs[0]
            ever[factor] |= differs.any(axis=0) | (len(base) != len(other))
    return at_once, ever
