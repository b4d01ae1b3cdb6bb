"""Milliseconds of an update of one seed, and of eight seeds in one `vmap` distributed over the cores.

A separate program, because JAX must be configured before it starts to treat each core as a device.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from factorax.ppo import Config, Learner
from factorax.problems import queues

from .timing import medians


def main() -> None:
    config = Config(n_envs=8, n_steps=32, batch_size=64, n_epochs=4, policy="joint", critic="target")
    learner = Learner.of(queues(), None, config)
    one = learner.init(0)
    by_seed = NamedSharding(Mesh(np.array(jax.devices()), ("seeds",)), PartitionSpec("seeds"))
    eight = jax.device_put(jax.vmap(learner.init)(jnp.arange(8)), by_seed)
    single, together = jax.jit(learner.update), jax.jit(jax.vmap(learner.update))
    times = medians(
        lambda: jax.block_until_ready(together(eight)[1]), lambda: jax.block_until_ready(single(one)[1]), repeats=21
    )
    print(json.dumps(times))


if __name__ == "__main__":
    main()
