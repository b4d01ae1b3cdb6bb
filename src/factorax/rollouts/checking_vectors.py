"""`check_problem` for vector environments: find all faults by stepping them."""

from typing import Any

import numpy as np

from ..spec import Spec
from .returned import Misfit
from .vector import Vector


def check_vector(spec: Spec, steps: int, seed: int) -> list[str]:
    """Return the faults of the vector environment of a problem, found in `steps` steps with random actions."""
    make: Any = spec.problem
    env = make()
    try:
        vector = Vector(env, spec.components, spec.n_targets, spec.n_factors)
        return _faults(vector, spec.weights, steps, seed)
    finally:
        env.close()


def _faults(vector: Vector, weights: np.ndarray, steps: int, seed: int) -> list[str]:
    env, seeds, faults = vector.env, [seed + i for i in range(vector.n)], []
    env.action_space.seed(seed)
    try:
        vector.begin(seeds)
    except Misfit as error:
        return [f"{error}, in the reset with seed {seed}"]
    for t in range(steps):
        returned = env.step(env.action_space.sample())
        try:
            got = vector.read(returned)
        except Misfit as error:
            return [*faults, f"{error}, in step {t}"]
        real = np.ones(vector.n, bool) if got.resets is None else ~got.resets
        for name, values in (("observation", got.next_obs), ("targets", got.psi)):
            bad = np.argwhere(~np.isfinite(np.asarray(values, float)) & real[:, None])
            if len(bad):
                i, k = bad[0]
                faults.append(
                    f"{name}: entry {k} of environment {i} is not finite in step {t}; clip it, or end the episode "
                    "earlier"
                )
        faults += _sums(weights, got.psi, returned[1], real, t)
        over = got.terminated | got.truncated
        if over.any() and got.first is None and not vector.skips:
            try:
                vector.reset(over, seeds)
            except Misfit as error:
                return [*faults, f"{error}, in a reset after step {t}"]
    return faults


def _sums(weights: np.ndarray, psi: np.ndarray, reward: Any, real: np.ndarray, t: int) -> list[str]:
    rewards = np.asarray(reward, float)
    if rewards.shape != (len(psi),) or not np.isfinite(psi).all():
        return []
    scalar = psi @ weights
    near = np.isclose(scalar, rewards, rtol=1e-3, atol=1e-3 * max(1.0, np.abs(psi).max()))
    wrong = np.flatnonzero(~near & real)
    return [
        f"reward: got {rewards[i]:.6g} for environment {i} in step {t}, want weights @ vector_reward = "
        f"{scalar[i]:.6g}; the targets must add up to the scalar reward, with the weights of the problem"
        for i in wrong[:1]
    ]
