"""A policy that rollout workers evaluate with JAX: a picklable function of its arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..observations import ObservationSpace
from ..rollouts.jax_policy import ModuleArrays
from ..spec import Spec
from .config import Config
from .policies import Policy
from .state import RunningMoments


@dataclass(frozen=True, eq=False)
class WorkerNetwork:
    """Maps the leaves of a policy and of the moments of observations, and observations, to the policy's output."""

    template: tuple[Policy, RunningMoments | None]
    """Defines the structure; its arrays are not used."""
    observations: ObservationSpace
    factors: np.ndarray | None
    """The factor of each component, ``(c,)``; None if each component is a factor."""

    @classmethod
    def of(cls, spec: Spec, config: Config, policy: Policy) -> "WorkerNetwork":
        """Create the function for policies of this structure."""
        moments = RunningMoments.of((spec.n_inputs,)) if config.normalize_obs else None
        template = jax.tree.map(lambda x: np.zeros(np.shape(x), x.dtype), (policy, moments))
        return cls(template, spec.observations, spec.factors)

    def __call__(self, leaves: Sequence[Any], rows: Any, memory: Any, local: Any) -> tuple[Any, Any]:
        """Return parameters ``(B, c, width)`` and memory for rows of observations ``(B, d)``."""
        policy, moments = jax.tree.unflatten(jax.tree.structure(self.template), leaves)
        obs = rows if moments is None else moments.normalised(rows, self.observations.measured)
        local_obs = None
        if local is not None:
            local_obs = jnp.asarray(
                local(obs if self.observations.is_plain else self.observations.structured(obs, jnp))
            )
            local_obs = local_obs if self.factors is None else local_obs[..., self.factors, :]
        (parameters, _), memory = policy.step(obs, local_obs, memory)
        return parameters, memory


def module_arrays(policy: Policy, moments: RunningMoments | None) -> ModuleArrays:
    """Return the arrays of a policy, in the order of its leaves, for workers."""
    log_std, colour = policy.spread_in_numpy()
    return ModuleArrays(tuple(np.asarray(leaf) for leaf in jax.tree.leaves((policy, moments))), log_std, colour)
