"""What several tests of learning share."""

import equinox as eqx
import jax
import numpy as np


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
    """A rollout of the policy of this state, compiled as a whole, in less time than its operations one by one."""

    @jax.jit
    def collected(state):
        state, transitions = learner.collect(state)
        return learner.rollout(state, transitions)[0]

    return collected(state)


def credit_of(rule, agent, rollout, k=None):
    """The credit of every factor in a rollout, with the settings of the update."""
    k = rule.network.static if k is None else k
    (_, _), credit = rule.method.credit(rule, (agent, None), rollout, k, rule.config.hyper, jax.random.key(0))
    return credit


def samples_of(rule, agent, rollout, k=None):
    """The samples of a rollout, with its credit."""
    return rule.samples(agent, rollout, credit_of(rule, agent, rollout, k))


def loss_of(rule, agent, samples, hyper=None, length=1):
    """The loss of samples as one minibatch, for recurrent networks of sequences of this length."""
    outputs = rule.method.evaluate(rule, agent, samples, length)
    return rule.method.loss(rule, outputs, samples, rule.config.hyper if hyper is None else hyper)[0]
