"""What PPO learns from: credits and returns of a batch, by kind of critic and by how episodes end."""

import equinox as eqx
import jax
import numpy as np
import pytest

import factorax as fx
from factorax.ppo import gae
from ppo.ppo_cases import (
    LAM,
    NET,
    SPACES,
    B,
    T,
    advantages,
    make_agent,
    make_batch,
    make_update,
    outputs_of,
    samples_of,
)


def values_of(agent, batch):
    """Values of the observations and of the next ones."""
    return (np.asarray(outputs_of(agent.critic, obs)) for obs in (batch.obs, batch.next_obs))


@jax.jit
def _compiled(psi, values, next_values, terminated, ended):
    return gae(psi, values, next_values, terminated=terminated, ended=ended, gamma=0.99, trace=0.95)[0]


def advantages_of(*arguments, **flags):
    return np.asarray(_compiled(*arguments, **flags))


def test_vanilla_credits_all_with_the_scalar_advantage():
    """The sum of per-target advantages is the advantage of the scalar reward λ·r, under the critic λ·v."""
    total = fx.InfluenceNetwork.complete(1, 3)
    update = make_update(SPACES["box"], total, estimator="vanilla")
    agent = make_agent(update)
    batch = make_batch(update, agent)
    samples = samples_of(update, agent, batch, total)
    scalar = [x @ np.float32(LAM[:, None]) for x in (np.asarray(batch.psi), *values_of(agent, batch))]
    terminated, truncated = (np.asarray(x)[..., None] for x in (batch.terminated, batch.truncated))
    want = advantages_of(*scalar, terminated=terminated, ended=terminated | truncated)
    np.testing.assert_allclose(samples.credit, want.reshape(-1, 1), rtol=1e-4, atol=1e-5)


def test_soft_and_blended_networks_are_applied():
    soft = fx.InfluenceNetwork(np.array([[1.0, 0.3, 0.0], [0.2, 1.0, 0.0], [0.0, 0.5, 1.0]]))
    schedule = fx.NetworkSchedule(NET, fx.InfluenceNetwork.complete(3, 3), steps=100)
    update = make_update(SPACES["box"])
    agent = make_agent(update)
    batch = make_batch(update, agent)
    advantage = np.asarray(advantages(update, agent, batch)[0], float).reshape(-1, 3)
    for net, matrix in ((soft, soft.to_dense()), (schedule.at(40), 0.6 * NET.to_dense() + 0.4)):
        samples = samples_of(update, agent, batch, net)
        np.testing.assert_allclose(samples.credit, (advantage * LAM) @ matrix.T, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_critic_of_factors_gives_the_same_credits_as_one_of_targets():
    """Value heads K(λ∘v) and v: GAE is linear, so it does not matter which comes first."""
    by_target, by_factor = make_update(SPACES["box"]), make_update(SPACES["box"], critic="factor")
    agent = make_agent(by_target, hidden=())
    K = NET.to_dense() * LAM
    weights = agent.critic.net.net.kernels[0] @ K.T
    other = eqx.tree_at(lambda a: a.critic.net.net.kernels[0], agent, weights)
    batch = make_batch(by_target, agent)
    want, got = samples_of(by_target, agent, batch, NET), samples_of(by_factor, other, batch, NET)
    np.testing.assert_allclose(got.credit, want.credit, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got.returns, want.returns @ K.T, rtol=1e-4, atol=1e-5)


def test_a_factor_ends_with_the_last_of_its_targets():
    update = make_update(SPACES["box"], critic="factor", gae_lambda=0.0, gamma=1.0)
    agent = make_agent(update, hidden=())
    stops = np.broadcast_to([True, False, True], (T, B, 3))
    never = np.zeros((T, B), bool)
    batch = make_batch(update, agent, target_terminated=stops)._replace(terminated=never, truncated=never)
    psi, (_, after) = np.asarray(batch.psi), values_of(agent, batch)
    own = fx.InfluenceNetwork.identity(3)
    follows = np.array([False, True, False])
    for net, bootstrap in ((NET, after), (own, follows * after)):  # every row of NET has target 1, which goes on
        got = np.asarray(samples_of(update, agent, batch, net).returns).reshape(T, B, 3)
        np.testing.assert_allclose(got, fx.credit(net, psi, LAM) + bootstrap, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bootstrap", ["auto", "never", "always"])
def test_the_bootstrap_switch(bootstrap):
    update = make_update(SPACES["box"], bootstrap=bootstrap)
    agent = make_agent(update)
    batch = make_batch(update, agent)
    terminated = np.asarray(batch.terminated)
    ended = terminated | np.asarray(batch.truncated)
    assert (ended & ~terminated).any()
    cut = {"auto": terminated, "never": ended, "always": np.zeros_like(ended)}[bootstrap]
    flags = {"terminated": cut[..., None], "ended": ended[..., None]}
    want = advantages_of(batch.psi, *values_of(agent, batch), **flags)
    got = samples_of(update, agent, batch, NET).credit
    np.testing.assert_allclose(got, fx.credit(NET, want, LAM).reshape(-1, 3), rtol=1e-4, atol=1e-5)


def test_never_still_hears_of_targets_that_end_within_an_episode():
    update = make_update(SPACES["box"], bootstrap="never")
    agent = make_agent(update)
    stops = np.random.default_rng(5).random((T, B, 3)) < 0.5
    batch = make_batch(update, agent, target_terminated=stops)
    ended = (np.asarray(batch.terminated) | np.asarray(batch.truncated))[..., None]
    want = advantages_of(batch.psi, *values_of(agent, batch), terminated=stops | ended, ended=ended)
    got = samples_of(update, agent, batch, NET).credit
    np.testing.assert_allclose(got, fx.credit(NET, want, LAM).reshape(-1, 3), rtol=1e-4, atol=1e-5)
