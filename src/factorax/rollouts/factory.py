"""Choice of the collector for a problem: in JAX, or on the host."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ..spec import Spec
from .collector import Collector
from .in_jax import JaxCollector, JaxEnvironments, SteppedJaxEnvironments
from .on_host import HostCollector, hosts_of
from .player import Hosts
from .transitions import Transition


def collector_for(spec: Spec, settings: Any, policy: Any = None, uses_local: bool = False) -> Collector:
    """Return the collector for a problem: in the compiled program for a JAX problem, otherwise on the host.

    - `settings`: a `factorax.ppo.Config`.
    - `policy`: the policy that workers evaluate, as `factorax.networks.worker_policy` returns it.
    - `uses_local`: whether it uses local observations.
    """
    if not spec.is_jax:
        return HostCollector(spec, settings, policy, uses_local)
    if settings.overlap or settings.rollouts != "inline":
        name = "overlap" if settings.overlap else "rollouts"
        raise ValueError(
            f"{name}: got {getattr(settings, name)!r} with a JAX problem, which the learner steps on its own devices; "
            "want the default"
        )
    return JaxCollector(spec, settings, 0 if policy is None else policy.memory)


def environments_for(spec: Spec, n_envs: int) -> Hosts | SteppedJaxEnvironments:
    """Create `n_envs` environments of a problem in this process."""
    if spec.is_jax:
        make: Any = spec.problem
        return SteppedJaxEnvironments(make, n_envs, spec.components)
    return hosts_of(spec, n_envs)


def play(spec: Spec, act: Callable[[Any, Any], Any], *, n_envs: int, n_steps: int, seed: int) -> Transition:
    """Return `n_steps` transitions of `n_envs` new environments, ``[T, B, ...]``, as NumPy arrays.

    `act` maps a JAX key and raw observations ``(B, d)`` to flat actions ``(B, c)``; JAX traces it for a JAX problem.
    """
    make: Any = spec.problem
    if spec.is_jax:
        environments = JaxEnvironments(make, n_envs, spec.components)
        collect = jax.jit(lambda key: environments.collect(environments.init(key), act, key, n_steps)[1])
        return jax.tree.map(np.asarray, collect(jax.random.key(seed)))
    hosts = hosts_of(spec, n_envs)
    hosts.init(seed)
    keys = iter(jax.random.split(jax.random.key(seed), n_steps))
    try:
        return hosts.collect(lambda obs: np.asarray(act(next(keys), obs)), n_steps)
    finally:
        hosts.close()
