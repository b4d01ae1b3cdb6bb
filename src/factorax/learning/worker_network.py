"""A policy as rollout workers compute it with JAX, where NumPy does not serve: a function of its arrays, to be sent."""

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
    """From the leaves of a policy and of the moments of observations to what they make of observations."""

    template: tuple[Policy, RunningMoments | None]
    """Has the structure; its arrays do not matter."""
    observations: ObservationSpace
    factors: np.ndarray | None
    """The factor of every component, ``(c,)``; None: each is its own."""

    @classmethod
    def of(cls, spec: Spec, config: Config, policy: Policy) -> "WorkerNetwork":
        """For policies of the same structure."""
        moments = RunningMoments.of((spec.n_inputs,)) if config.normalize_obs else None
        template = jax.tree.map(lambda x: np.zeros(np.shape(x), x.dtype), (policy, moments))
        return cls(template, spec.observations, spec.factors)

    def __call__(self, leaves: Sequence[Any], rows: Any, memory: Any, local: Any) -> tuple[Any, Any]:
        """Return parameters ``(B, c, width)`` and memory for rows of observations ``(B, d)``."""
        policy, moments = jax.tree.unflatten(jax.tree.structure(self.template), leaves)
        obs = rows if moments is None else moments.normalised(rows, self.observations.measured)
        seen = None
        if local is not None:
            seen = jnp.asarray(local(obs if self.observations.is_plain else self.observations.structured(obs, jnp)))
            seen = seen if self.factors is None else seen[..., self.factors, :]
        (parameters, _), memory = policy.step(obs, seen, memory)
        return parameters, memory


def module_arrays(policy: Policy, moments: RunningMoments | None) -> ModuleArrays:
    """Return the arrays of a policy, in the order of its leaves, for workers."""
    log_std, colour = policy.spread_in_numpy()
    return ModuleArrays(tuple(np.asarray(leaf) for leaf in jax.tree.leaves((policy, moments))), log_std, colour)
