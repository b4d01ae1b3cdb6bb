"""Every local device: each has its share of the environments and of a minibatch, and all have the parameters.

It is the program of one device; XLA splits it, and adds up the gradients of the shares. So what is learnt agrees with
one device to rounding.
"""

from math import gcd
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .config import Config

if TYPE_CHECKING:
    from .state import TrainState

AXIS = "environments"


def mesh(config: Config) -> Mesh | None:
    """The devices that share the environments: as many as the settings say, or as both `n_envs` and `batch_size` can be
    shared out to evenly. None if it is one."""
    local = jax.local_devices()
    together = gcd(config.n_envs, config.batch_size)
    if config.devices > len(local):
        raise ValueError(f"devices: got {config.devices}, and there are {len(local)} here")
    if config.devices and together % config.devices:
        raise ValueError(
            f"devices: got {config.devices}, want a divisor of both n_envs = {config.n_envs} and "
            f"batch_size = {config.batch_size}"
        )
    count = config.devices or max(n for n in range(1, len(local) + 1) if together % n == 0)
    return None if count == 1 else Mesh(np.array(local[:count]), (AXIS,))


def minibatch(devices: Mesh | None, samples: Any) -> Any:
    """Samples of which every device has a share."""
    if devices is None:
        return samples
    shared = NamedSharding(devices, PartitionSpec(AXIS))
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, shared), samples)


def shardings(devices: Mesh, state: "TrainState", lead: int = 0) -> "TrainState":
    """Where every array of a state is: what belongs to an environment with its share, the rest everywhere.

    `lead` counts axes in front of those, such as that of seeds.
    """
    front = [None] * lead

    def everywhere(tree: Any) -> Any:
        return jax.tree.map(lambda x: NamedSharding(devices, PartitionSpec()) if eqx.is_array(x) else None, tree)

    def first(x: Any) -> NamedSharding:
        return NamedSharding(devices, PartitionSpec(*front, AXIS))

    def last(x: Any) -> NamedSharding:
        return NamedSharding(devices, PartitionSpec(*[None] * (x.ndim - 1), AXIS))

    states, obs, episodes = state.environments
    environments = jax.tree.map(last, states), jax.tree.map(first, obs), jax.tree.map(first, episodes)
    return everywhere(state)._replace(environments=environments, discounted=first(state.discounted))


def place(devices: Mesh | None, state: "TrainState", lead: int = 0) -> "TrainState":
    """The state with every array where it belongs."""
    if devices is None:
        return state
    arrays, rest = eqx.partition(state, eqx.is_array)
    where = shardings(devices, arrays, lead)
    return eqx.combine(jax.tree.map(jax.device_put, arrays, where), rest)
