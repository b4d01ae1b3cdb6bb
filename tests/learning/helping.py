"""What several tests of learning share."""

import equinox as eqx
import jax
import numpy as np

from factorax.learning import TrainingBatch


def first_agent(learner, seed=None):
    """The agent with which a learner begins, from one program instead of one for each operation."""
    return eqx.filter_jit(lambda: learner.init(seed).agent)()


def random_network(make, seed=0):
    """The network that a function makes, with matrices drawn by NumPy, for which nothing is compiled, and biases of 0.

    Not for layers with a normalisation, whose scales would be 0 too.
    """
    rng = np.random.default_rng(seed)

    def draw(x):
        matrix = len(x.shape) > 1 and rng.normal(size=x.shape) / np.sqrt(x.shape[-2])
        return jax.device_put(np.broadcast_to(matrix, x.shape).astype(x.dtype))

    arrays, rest = eqx.partition(eqx.filter_eval_shape(make), lambda x: isinstance(x, jax.ShapeDtypeStruct))
    return eqx.combine(jax.tree.map(draw, arrays), rest)


def rollout(learner, state):
    """A batch of the policy of this state."""
    _, _, transitions = learner.collector.collect(learner.behaviour(state), state.environments, state.key)
    return TrainingBatch(
        obs=transitions.obs,
        local=learner.see(transitions.obs),
        action=transitions.action,
        psi=transitions.psi,
        next_obs=transitions.next_obs,
        next_local=learner.see(transitions.next_obs),
        terminated=transitions.terminated,
        truncated=transitions.truncated,
    )
