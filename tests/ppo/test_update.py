"""An update of factored PPO: passes, minibatches, the step of the optimizer, and when it stops."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.ppo import FactoredPPO
from factorax.problems import contextual_bandit
from ppo.ppo_cases import (
    NET,
    SPACES,
    assert_close,
    loss_gradient,
    make_agent,
    make_rollout,
    make_update,
    metrics_of,
    samples_of,
)


@eqx.filter_jit
def learn(update, agent, rollout):
    """The agent after an update from a new state of the optimizer, and metrics."""
    state = update.method.optimiser(update.config.hyper).init(eqx.filter(agent, eqx.is_array))
    agent, _, _, metrics = update.learn(agent, state, rollout, key=jax.random.key(0))
    return agent, metrics


@pytest.mark.slow
def test_an_update_uses_all_samples():
    """One minibatch, one epoch, no clipping: the step of Adam is the sign of the whole rollout's gradient."""
    update = make_update(SPACES["box"], n_epochs=1, learning_rate=1e-3, max_grad_norm=1e9)
    agent = make_agent(update, hidden=())
    rollout = make_rollout(update, agent)
    new, metrics = learn(update, agent, rollout)
    g = loss_gradient(update, agent, samples_of(update, agent, rollout, NET))
    want = jax.tree.map(lambda x, g: x - 1e-3 * g / (jnp.abs(g) + 1e-5), agent, g)
    assert_close(new, want, rtol=1e-4, atol=1e-5)
    length = np.sqrt(sum((np.asarray(x) ** 2).sum() for x in jax.tree.leaves(g)))
    np.testing.assert_allclose(metrics["train/grad_norm"], length, rtol=1e-4)


def test_the_learning_rate_is_the_length_of_a_step():
    """Adam moves every parameter by the rate in its first step, whatever the gradient."""
    update = make_update(SPACES["box"])
    optimiser = update.method.optimiser(update.config.hyper._replace(learning_rate=0.25))
    step, _ = jax.jit(lambda x: optimiser.update(x, optimiser.init(x)))(np.ones(1, np.float32))
    np.testing.assert_allclose(step, [-0.25], rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["factored", "ppo"])
def test_an_update_stops_before_the_first_minibatch_beyond_the_limit(method):
    """With whole rollouts as minibatches: the update is one of fewer epochs, after which the divergence of the joint
    action is beyond the limit for the first time."""
    settings = {"method": method, "learning_rate": 3e-2}
    free = make_update(SPACES["box"], n_epochs=6, **settings)
    agent = make_agent(free)
    rollout = make_rollout(free, agent)
    agents = [learn(make_update(SPACES["box"], n_epochs=n, **settings), agent, rollout)[0] for n in range(1, 6)]
    samples = samples_of(free, agent, rollout)

    def divergence(other):
        log_ratio = free.log_prob(other.policy(samples.obs, None), samples.action) - samples.log_prob
        joint = log_ratio.sum(axis=-1)
        return (jnp.expm1(joint) - joint).mean()

    far = [float(eqx.filter_jit(divergence)(other)) for other in agents]
    limit = (max(far[:2]) + far[2]) / 2
    assert max(far[:2]) < limit < far[2]
    limited = make_update(SPACES["box"], n_epochs=6, target_kl=limit / 1.5, **settings)
    new, metrics = learn(limited, agent, rollout)
    assert metrics["train/n_minibatches"] == 3
    assert_close(new, agents[2], rtol=1e-5)
    if method == "ppo":  # as in Stable-Baselines3, it is `approx_kl` itself
        np.testing.assert_allclose(metrics_of(free, agent, new, samples)["train/approx_kl"], far[2], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["factored", "ppo"])
def test_target_kl_limits_an_update(method):
    """Without a limit all forty minibatches are learnt from; with one, fewer."""
    settings = {"n_envs": 8, "n_steps": 16, "batch_size": 32, "learning_rate": 1e-2, "hidden": (8,), "method": method}
    far, near, free = (
        FactoredPPO(contextual_bandit(4), target_kl=limit, **settings).learn(128, progress_bar=False).history[0]
        for limit in (1e3, 0.01, None)
    )
    assert far["train/n_minibatches"] == free["train/n_minibatches"] == 40
    assert 0 < near["train/n_minibatches"] < 40
    assert near["train/kl"] < far["train/kl"]
    np.testing.assert_allclose(far["train/loss"], free["train/loss"], rtol=1e-5)
