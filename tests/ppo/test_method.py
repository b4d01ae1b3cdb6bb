"""The loss of factored PPO: the textbook's with K = 1, the factored gradient at the old policy, and every switch."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import factorax as fx
from ppo import helping
from ppo.ppo_cases import (
    LAM,
    NET,
    SPACES,
    B,
    T,
    advantages,
    assert_close,
    loss_gradient,
    loss_of,
    make_agent,
    make_rollout,
    make_update,
    metrics_of,
    outputs_of,
    perturbed,
    samples_of,
)


def textbook(agent, space, samples, advantage, returns, old, c):
    """PPO as it is printed: one ratio and one advantage a sample. Written out for these three spaces."""
    out = agent.policy.net.net(samples.obs).reshape(len(samples.obs), len(space.kinds), space.width)
    a, std = samples.action, jnp.exp(agent.policy.spread.log_std)
    if isinstance(space.space, spaces.Box):
        log_prob = -0.5 * ((a - out[..., 0]) / std) ** 2 - jnp.log(std) - 0.5 * jnp.log(2 * jnp.pi)
        entropy = jnp.broadcast_to(0.5 * jnp.log(2 * jnp.pi * jnp.e * std**2), log_prob.shape)
    else:
        if isinstance(space.space, spaces.MultiBinary):
            logs = [jnp.stack([jax.nn.log_sigmoid(-out[:, i, 0]), jax.nn.log_sigmoid(out[:, i, 0])]) for i in range(3)]
        else:
            logs = [jax.nn.log_softmax(out[:, i, :n]).T for i, n in enumerate(space.space.nvec)]
        chosen = a.astype(int)
        log_prob = jnp.stack([x[chosen[:, i], jnp.arange(len(a))] for i, x in enumerate(logs)], axis=1)
        entropy = jnp.stack([-(jnp.exp(x) * x).sum(axis=0) for x in logs], axis=1)
    ratio = jnp.exp(log_prob.sum(axis=1) - old)
    if c.normalize_advantage:
        advantage = (advantage - advantage.mean()) / advantage.std(ddof=1)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - c.clip_range, 1 + c.clip_range) * advantage)
    value = agent.critic.net.net(samples.obs)[:, 0]
    value_loss = ((value - returns) ** 2).mean()
    return -gain.mean() + c.vf_coef * value_loss - c.ent_coef * entropy.sum(axis=1).mean()


@pytest.mark.slow
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("name", ["box", "binary", "choices"])
def test_ppo_is_the_textbook(name, normalise):
    settings = {"method": "ppo", "vf_coef": 0.5, "ent_coef": 0.01, "normalize_advantage": normalise}
    one = fx.InfluenceNetwork.complete(1, 1)
    update = make_update(SPACES[name], one, np.ones(1), **settings)
    old = make_agent(update, m=1)
    samples = samples_of(update, old, make_rollout(update, old, m=1), one)
    new = perturbed(old)
    got = loss_gradient(update, new, samples)
    joint = samples.log_prob.sum(axis=1)
    advantage, returns = samples.credit[:, 0], samples.returns[:, 0]
    ratio = jnp.exp(update.log_prob(new.policy(samples.obs, None), samples.action).sum(axis=1) - joint)
    assert (jnp.abs(ratio - 1) > 0.2).any()  # some are clipped …
    assert (jnp.abs(ratio - 1) < 0.2).any()  # … and some are not
    want = eqx.filter_jit(eqx.filter_grad(textbook))(
        new, update.spec.components, samples, advantage, returns, joint, update.config
    )
    assert_close(got, want)


def expected(update, agent, rollout, net, weights):
    """−E Σᵢ ∇log πᵢ [K(λ∘A)]ᵢ, by the estimator of `factorax.gradients`."""
    advantage = advantages(update, agent, rollout)[0]
    policy, taken = agent.policy, {"actions": rollout.action, "obs": rollout.obs, "psi": advantage}

    def log_prob(policy, obs, action):
        return update.log_prob(policy(obs, None), action)

    got = jax.jit(lambda p: fx.gradients.factored(log_prob, p, **taken, net=net, weights=weights))(policy)
    return jax.tree.map(jnp.negative, got)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["factored", "a2c"])
@pytest.mark.parametrize("name", SPACES)
def test_at_the_old_policy_it_is_the_factored_gradient(name, method):
    update = make_update(SPACES[name], method=method)
    agent = make_agent(update)
    rollout = make_rollout(update, agent)
    samples = samples_of(update, agent, rollout, NET)
    got = loss_gradient(update, agent, samples).policy
    assert_close(got, expected(update, agent, rollout, NET, LAM))


@pytest.mark.slow
def test_factors_of_several_components():
    net = fx.InfluenceNetwork([[1, 0], [0, 1], [1, 0]])
    net = net.factor(net.minimum_factorisation())
    assert net.shape == (2, 2)
    update = make_update(SPACES["choices"], net, LAM[:2])
    agent = make_agent(update, m=2)
    rollout = make_rollout(update, agent, m=2)
    samples = samples_of(update, agent, rollout, net)
    by_component = update.spec.components.log_prob(*agent.policy(samples.obs, None), samples.action)
    np.testing.assert_allclose(
        samples.log_prob, np.stack([by_component[:, 0] + by_component[:, 2], by_component[:, 1]], 1), rtol=1e-5
    )
    got = loss_gradient(update, agent, samples).policy
    assert_close(got, expected(update, agent, rollout, net, LAM[:2]))


def still(update, agent, **replaced):
    """Samples of zeros but for these fields, the same in all: parameters of the policy are then its last biases."""
    shapes = eqx.filter_eval_shape(helping.samples_of, update, agent, make_rollout(update, agent))
    samples = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)._replace(acted=np.ones((T * B, 3), np.float32))
    rows = {name: np.broadcast_to(np.float32(x), (T * B, len(x))) for name, x in replaced.items()}
    return samples._replace(**rows)


def last_bias(gradient):
    return gradient.policy.net.net.biases[-1]


@pytest.mark.slow
def test_ratios_are_clipped_factor_by_factor():
    update = make_update(SPACES["binary"])
    agent = make_agent(update, hidden=())
    log_ratio = np.log([1.5, 0.9, 1.5])  # the bias is zero: every choice has probability ½
    samples = still(update, agent, action=np.ones(3), log_prob=np.log(0.5) - log_ratio, credit=[2.0, 3.0, -1.0])
    loss = loss_of(update, agent, samples)
    np.testing.assert_allclose(loss, -(1.2 * 2 + 0.9 * 3 - 1.5), rtol=1e-5)  # min: a loss is never clipped away
    metrics = metrics_of(update, agent, agent, samples)
    np.testing.assert_allclose(metrics["train/policy_gradient_loss"], loss, rtol=1e-6)
    np.testing.assert_allclose(metrics["train/clip_fraction"], 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(metrics["factor/clip_fraction"], [1, 0, 1], rtol=1e-6)
    ratio = np.exp(log_ratio)
    np.testing.assert_allclose(metrics["train/approx_kl"], (ratio - 1 - log_ratio).mean(), rtol=1e-4)
    got = last_bias(loss_gradient(update, agent, samples))
    np.testing.assert_allclose(got, [0, -0.9 * 3 * 0.5, 1.5 * 0.5], rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_one_factor_is_clipped_alone_where_the_joint_ratio_would_clip_none():
    update, joint = make_update(SPACES["binary"]), make_update(SPACES["binary"], method="ppo")
    agent = make_agent(update, hidden=())
    log_ratio = np.log([1.5, 1 / 1.5, 1.0])
    samples = still(update, agent, action=np.ones(3), log_prob=np.log(0.5) - log_ratio, credit=np.ones(3))
    got = last_bias(loss_gradient(update, agent, samples))
    np.testing.assert_allclose(got, [0, -0.5 / 1.5, -0.5], rtol=1e-5, atol=1e-7)
    scalar = samples._replace(credit=samples.credit[:, :1])
    got = last_bias(loss_gradient(joint, agent, scalar))
    np.testing.assert_allclose(got, [-0.5] * 3, rtol=1e-5)


@pytest.mark.parametrize("method", ["factored", "ppo", "mappo", "a2c"])
def test_idle_factors_have_no_gradient(method):
    update = make_update(SPACES["binary"], method=method)
    agent = make_agent(update, hidden=())
    credit = np.ones(1) if method == "ppo" else np.array([1.0, 1e6, 2.0])
    old = [np.log(0.5), -1e30, np.log(0.5)]  # the action of an idle factor may be as improbable as it likes
    samples = still(update, agent, action=np.ones(3), log_prob=old, credit=credit, acted=[1.0, 0.0, 1.0])
    assert np.isfinite(loss_of(update, agent, samples))
    got = last_bias(loss_gradient(update, agent, samples))
    np.testing.assert_allclose(got, [-0.5, 0, -0.5 if method == "ppo" else -1], rtol=1e-5, atol=1e-8)


@pytest.mark.slow
def test_masks_of_all_change_nothing():
    update = make_update(SPACES["box"])
    agent = make_agent(update)
    bare, masked = (
        samples_of(update, agent, make_rollout(update, agent, factor_mask=mask), NET)
        for mask in (None, jnp.ones((T, B, 3), bool))
    )
    new = perturbed(agent)
    got = loss_gradient(update, new, masked)
    assert_close(got, loss_gradient(update, new, bare), rtol=1e-6)


@pytest.mark.slow
def test_credits_are_normalised_by_one_common_scale():
    plain, scaled = make_update(SPACES["box"]), make_update(SPACES["box"], normalize_advantage=True)
    agent = make_agent(plain)
    samples = samples_of(plain, agent, make_rollout(plain, agent), NET)
    mean, scale = samples.credit.mean(), samples.credit.std(ddof=1)
    by_hand = samples._replace(credit=(samples.credit - mean) / scale)
    new = perturbed(agent)
    got = loss_gradient(scaled, new, samples)
    assert_close(got, loss_gradient(plain, new, by_hand))


def test_the_divergence_is_that_of_gaussians():
    update = make_update(SPACES["box"])
    agent = make_agent(update)
    samples = samples_of(update, agent, make_rollout(update, agent), NET)
    new = perturbed(agent)
    mean, other = (np.asarray(outputs_of(a.policy, samples.obs)[0]) for a in (agent, new))
    log_std, new_std = (np.asarray(a.policy.spread.log_std) for a in (agent, new))
    variance, new_variance = np.exp(2 * log_std), np.exp(2 * new_std)
    kl = new_std - log_std + (variance + (mean - other)[..., 0] ** 2) / (2 * new_variance) - 0.5
    metrics = metrics_of(update, agent, new, samples)
    np.testing.assert_allclose(metrics["factor/kl"], kl.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(metrics["train/kl"], kl.mean(), rtol=1e-4)


@pytest.mark.parametrize("clip", [None, 0.1])
def test_the_loss_of_the_critic(clip):
    update = make_update(SPACES["box"], vf_coef=0.7, clip_range_vf=clip)
    agent = make_agent(update)
    rollout = make_rollout(update, agent)
    samples = samples_of(update, agent, rollout, NET)
    returns = np.asarray(samples.returns)
    np.testing.assert_allclose(returns, np.asarray(advantages(update, agent, rollout)[1]).reshape(-1, 3), rtol=1e-5)
    new = dataclasses.replace(agent, critic=perturbed(agent).critic)
    value, old = (np.asarray(outputs_of(a.critic, samples.obs)) for a in (new, agent))
    clipped = value if clip is None else old + np.clip(value - old, -clip, clip)
    metrics = metrics_of(update, agent, new, samples)
    np.testing.assert_allclose(metrics["train/value_loss"], ((returns - clipped) ** 2).mean(), rtol=1e-4)
    total = metrics["train/policy_gradient_loss"] + 0.7 * metrics["train/value_loss"]
    np.testing.assert_allclose(loss_of(update, new, samples), total, rtol=1e-6)
    gradient = loss_gradient(update, new, samples)
    got = gradient.critic.net.net.biases[-1]
    inside = np.ones_like(value, bool) if clip is None else np.abs(value - old) < clip
    want = 0.7 * (2 * (clipped - returns) * inside / value.size).sum(axis=0)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_the_entropy_bonus():
    plain, warm = make_update(SPACES["choices"]), make_update(SPACES["choices"], ent_coef=0.1)
    agent = make_agent(plain)
    samples = samples_of(plain, agent, make_rollout(plain, agent), NET)
    entropy = plain.spec.components.entropy(*agent.policy(samples.obs, None)).sum(axis=1).mean()
    losses = [loss_of(u, agent, samples) for u in (plain, warm)]
    np.testing.assert_allclose(losses[0] - losses[1], 0.1 * entropy, rtol=1e-4)
