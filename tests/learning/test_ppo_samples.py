"""What PPO learns from: credits and returns of a batch, by kind of critic and by how episodes end."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.learning import gae
from learning.ppo_cases import LAM, NET, SPACES, B, T, advantages, make_agent, make_batch, make_update, samples_of


def test_vanilla_credits_all_with_the_scalar_advantage():
    """The sum of per-target advantages is the advantage of the scalar reward λ·r, under the critic λ·v."""
    total = fx.InfluenceNetwork.complete(1, 3)
    update = make_update(SPACES["box"], total, estimator="vanilla")
    agent = make_agent(update)
    batch = make_batch(update, agent)
    samples = samples_of(update, agent, batch, total)
    scalar = [x @ LAM[:, None] for x in (batch.psi, agent.critic(batch.obs, None), agent.critic(batch.next_obs, None))]
    terminated = batch.terminated[..., None]
    want, _ = gae(*scalar, terminated=terminated, ended=terminated | batch.truncated[..., None], gamma=0.99, trace=0.95)
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
    stops = jnp.broadcast_to(jnp.array([True, False, True]), (T, B, 3))
    never = jnp.zeros((T, B), bool)
    batch = make_batch(update, agent, target_terminated=stops)._replace(terminated=never, truncated=never)
    after = agent.critic(batch.next_obs, None)
    got = samples_of(update, agent, batch, NET).returns.reshape(T, B, 3)  # every row has target 1, which goes on
    np.testing.assert_allclose(got, fx.credit(NET, batch.psi, LAM) + after, rtol=1e-4, atol=1e-5)
    own = fx.InfluenceNetwork.identity(3)
    got = samples_of(update, agent, batch, own).returns.reshape(T, B, 3)
    follows = jnp.array([False, True, False])
    np.testing.assert_allclose(got, fx.credit(own, batch.psi, LAM) + follows * after, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bootstrap", ["auto", "never", "always"])
def test_the_bootstrap_switch(bootstrap):
    update = make_update(SPACES["box"], bootstrap=bootstrap)
    agent = make_agent(update)
    batch = make_batch(update, agent)
    ended = batch.terminated | batch.truncated
    assert (ended & ~batch.terminated).any()
    cut = {"auto": batch.terminated, "never": ended, "always": jnp.zeros_like(ended)}[bootstrap]
    value, after = agent.critic(batch.obs, None), agent.critic(batch.next_obs, None)
    flags = {"terminated": cut[..., None], "ended": ended[..., None]}
    want, _ = gae(batch.psi, value, after, **flags, gamma=0.99, trace=0.95)
    got = samples_of(update, agent, batch, NET).credit
    np.testing.assert_allclose(got, fx.credit(NET, want, LAM).reshape(-1, 3), rtol=1e-4, atol=1e-5)


def test_never_still_hears_of_targets_that_end_within_an_episode():
    update = make_update(SPACES["box"], bootstrap="never")
    agent = make_agent(update)
    stops = jax.random.bernoulli(jax.random.key(5), 0.5, (T, B, 3))
    batch = make_batch(update, agent, target_terminated=stops)
    ended = (batch.terminated | batch.truncated)[..., None]
    value, after = agent.critic(batch.obs, None), agent.critic(batch.next_obs, None)
    want, _ = gae(batch.psi, value, after, terminated=stops | ended, ended=ended, gamma=0.99, trace=0.95)
    got = samples_of(update, agent, batch, NET).credit
    np.testing.assert_allclose(got, fx.credit(NET, want, LAM).reshape(-1, 3), rtol=1e-4, atol=1e-5)
