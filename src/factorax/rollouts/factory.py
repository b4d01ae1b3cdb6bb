"""Collectors and environments for any problem: in JAX, or on the host."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..networks.jax_policy import JaxPolicy
from ..networks.numpy_policy import NumpyPolicy
from ..spec import Spec
from .collector import Collector
from .environments import Environments
from .host_collector import HostCollector
from .in_jax import JaxCollector, JaxEnvironments, SteppedJaxEnvironments
from .settings import Inline, Rollouts
from .transitions import Transition, side_by_side


def collector_for(
    spec: Spec, *, rollouts: Rollouts, n_envs: int, n_steps: int, seed: int, policy: NumpyPolicy | JaxPolicy
) -> Collector:
    """Return the collector for a problem: in the compiled program for a JAX problem, otherwise on the host.

    - `rollouts`: who steps the environments, one of `ROLLOUTS`.
    - `n_envs`, `n_steps`: the size of a rollout; `seed`: the seed of the first episodes on the host.
    - `policy`: the policy that workers evaluate. Only the size of its memory matters for a JAX problem.
    """
    if not spec.is_jax:
        return HostCollector(spec, rollouts=rollouts, n_envs=n_envs, n_steps=n_steps, seed=seed, policy=policy)
    if not isinstance(rollouts, Inline):
        raise ValueError(
            f"rollouts: got {rollouts.name!r} with a JAX problem, which the learner steps on its own devices; want "
            "the default"
        )
    return JaxCollector(spec, n_envs, n_steps, policy.memory)


def environments_for(spec: Spec, n_envs: int) -> Environments | SteppedJaxEnvironments:
    """Create `n_envs` environments of a problem in this process."""
    make: Any = spec.problem
    if spec.is_jax:
        return SteppedJaxEnvironments(make, n_envs, spec.components)
    return Environments(make, n_envs, spec.components, spec.n_targets, n_factors=spec.n_factors)


def play(spec: Spec, act: Callable[[Any, Any], Any], *, n_envs: int, n_steps: int, seed: int) -> Transition:
    """Return `n_steps` transitions of `n_envs` new environments, ``[T, B, ...]``, as NumPy arrays.

    `act` maps a JAX key and raw observations ``(B, d)`` to flat actions ``(B, c)``; JAX traces it for a JAX problem.
    """
    make: Any = spec.problem
    if spec.is_jax:
        environments = JaxEnvironments(make, n_envs, spec.components)
        collect = jax.jit(lambda key: environments.collect(environments.init(key), act, key, n_steps)[1])
        return jax.tree.map(np.asarray, collect(jax.random.key(seed)))
    if spec.one_per_process:  # one after the other
        keys = jax.random.split(jax.random.key(seed), n_envs)
        return side_by_side([_play_on_host(spec, act, 1, n_steps, seed + i, keys[i]) for i in range(n_envs)])
    return _play_on_host(spec, act, n_envs, n_steps, seed, jax.random.key(seed))


def _play_on_host(
    spec: Spec, act: Callable[[Any, Any], Any], n_envs: int, n_steps: int, seed: int, key: jax.Array
) -> Transition:
    environments: Any = environments_for(spec, n_envs)
    try:
        # One for each call: some vectors need two calls per step.
        keys = iter(jax.random.split(key, n_steps * environments.calls_per_step))
        environments.init(seed)
        return environments.collect(lambda obs: np.asarray(act(next(keys), obs)), n_steps)
    finally:
        environments.close()
