"""What several tests of learning share."""

import equinox as eqx
import jax
import numpy as np

from factorax.ppo import TrainingBatch


def random_network(make, seed=0):
    """The network that a function makes, with matrices drawn by NumPy, for which nothing is compiled, biases of 0, and
    scales of 1."""
    rng = np.random.default_rng(seed)

    def draw(path, x):
        if len(x.shape) > 1:
            values = rng.normal(size=x.shape) / np.sqrt(x.shape[-2])
        else:
            values = np.full(x.shape, "scales" in jax.tree_util.keystr(path))
        return jax.device_put(values.astype(x.dtype))

    arrays, rest = eqx.partition(eqx.filter_eval_shape(make), lambda x: isinstance(x, jax.ShapeDtypeStruct))
    return eqx.combine(jax.tree_util.tree_map_with_path(draw, arrays), rest)


def rollout(learner, state):
    """A batch of the policy of this state, compiled as a whole, in less time than its operations one by one."""

    @jax.jit
    def batch(state):
        _, _, transitions = learner.collector.collect(learner.behaviour(state), state.environments, state.key)
        return TrainingBatch(
            obs=transitions.obs,
            local=learner.see(transitions.obs),
            action=transitions.action,
            psi=transitions.psi,
            next_obs=transitions.next_obs,
            terminated=transitions.terminated,
            truncated=transitions.truncated,
        )

    return batch(state)
