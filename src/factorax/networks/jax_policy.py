"""Policies that rollout workers evaluate with JAX on the CPU, used for all policies except our own layers.

As with `NumpyPolicy`, the action of an environment depends only on its index, its observation and its random numbers,
bit for bit: observations are padded to tiles of a fixed size, in which an environment always has the same position, and
one compiled program is called per tile.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..observations import ObservationSpace
from ..spaces import ActionSpace
from .numpy_policy import TILE, PolicyArrays, WorkerPolicy


@dataclass(frozen=True, eq=False)
class JaxPolicy(WorkerPolicy):
    """A policy as a function of its arrays, and the distribution of its actions."""

    space: ActionSpace
    factors: np.ndarray | None
    local: Any
    """As in `NumpyPolicy`."""
    observations: ObservationSpace | None
    template: Any
    """A `Policy` that defines the structure; its arrays are not used."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}  # without compiled functions

    @cached_property
    def memory(self) -> int:
        """Size of the memory of a recurrent policy; 0 if it is not recurrent."""
        return self.template.memory

    def playing(self, *arguments: Any, **named: Any) -> "Playing":
        """Return the policy as a function, with the arguments of `Playing`, which are those of `NumpyPolicy.playing`
        and `memory` ``(B, h)`` for recurrent policies."""
        return Playing(self, *arguments, **named)

    @cached_property
    def _compiled(self) -> Any:
        """Maps arrays, rows of observations ``(B, d)`` and the memory ``(B, h)`` or None to the parameters ``(B, c,
        width)`` and the new memory."""
        # Here, because every worker imports this file, and those with a `NumpyPolicy` have no need for JAX.
        import jax
        import jax.numpy as jnp

        def apply(arrays: PolicyArrays, obs: Any, memory: Any) -> Any:
            # Iterations contain arrays only; the structure has come once, with the plan.
            policy = jax.tree.unflatten(jax.tree.structure(self.template), arrays.leaves)
            if arrays.centre is not None:
                obs = self.normalised(obs, arrays.centre, arrays.scale, jnp)
            local = None if self.local is None else self.local_of(obs, jnp)
            (parameters, _), memory = policy.step(obs, local, memory)
            return parameters, memory

        return jax.jit(apply)

    def on_cpu(self) -> Any:
        """Return a context in which JAX runs on the CPU, where all workers get the same results."""
        import jax

        # In the learner's process the default may be an accelerator, which rounds in another way than the workers.
        return jax.default_device(jax.local_devices(backend="cpu")[0])


class Playing:
    """A policy during a fragment: a function from observations ``(B, d)`` to raw actions ``(B, c)``."""

    def __init__(
        self,
        policy: JaxPolicy,
        arrays: PolicyArrays,
        first: int,
        noise: np.ndarray,
        outputs: list[np.ndarray] | None = None,
        memory: np.ndarray | None = None,
    ):
        n_envs = noise.shape[1]
        # The place in a tile depends on the number of the environment alone, not on which worker steps it.
        before = first % TILE
        self.policy, self.outputs, self._steps = policy, outputs, iter(noise)
        self._rows = slice(before, before + n_envs)
        with policy.on_cpu():
            import jax

            self._arrays = jax.device_put(arrays)
        # of no columns for a policy that is not recurrent
        self._memory = np.zeros((-(-(before + n_envs) // TILE) * TILE, policy.memory), np.float32)
        if memory is not None:
            self._memory[self._rows] = memory
        self.memories: list[np.ndarray] = []
        """The memory of each environment before each step, ``(B, h)``."""

    @property
    def memory(self) -> np.ndarray:
        """The current memory of each environment, ``(B, h)``."""
        return self._memory[self._rows].copy()

    def restart(self, i: int) -> None:
        """Clear the memory of environment i, which has started another episode."""
        self._memory[self._rows.start + i] = 0.0

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Choose the actions of one step."""
        self.memories.append(self.memory)
        padded = np.zeros((len(self._memory), obs.shape[-1]), np.float32)
        padded[self._rows] = obs
        outputs = []
        with self.policy.on_cpu():
            for first in range(0, len(padded), TILE):
                rows = slice(first, first + TILE)
                output, self._memory[rows] = self.policy._compiled(self._arrays, padded[rows], self._memory[rows])
                outputs.append(np.asarray(output))
        output = np.concatenate(outputs)[self._rows]
        if self.outputs is not None:
            self.outputs.append(output)
        return self.policy.space.choose(output, next(self._steps))
