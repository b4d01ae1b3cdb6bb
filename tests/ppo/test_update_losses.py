"""The loss of factored PPO: the textbook's with K = 1, the factored gradient at the old policy, and every switch."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import factorax as fx
from ppo.ppo_cases import (
    LAM,
    N_INPUTS,
    NET,
    SPACES,
    B,
    T,
    advantages,
    assert_close,
    estimates_of,
    loss_and_gradient,
    loss_gradient,
    loss_of,
    make_agent,
    make_batch,
    make_update,
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
def test_vanilla_is_the_textbook(name, normalise):
    settings = {"estimator": "vanilla", "vf_coef": 0.5, "ent_coef": 0.01, "normalize_advantage": normalise}
    one = fx.InfluenceNetwork.complete(1, 1)
    update = make_update(SPACES[name], one, np.ones(1), **settings)
    old = make_agent(update, m=1)
    samples = samples_of(update, old, make_batch(update, old, m=1), one)
    new = perturbed(old)
    got = loss_gradient(update, new, samples, old.policy.spread)
    joint = samples.log_prob.sum(axis=1)
    advantage, returns = samples.credit[:, 0], samples.returns[:, 0]
    ratio = jnp.exp(update.log_prob(new.policy(samples.obs, None), samples.action).sum(axis=1) - joint)
    assert (jnp.abs(ratio - 1) > 0.2).any()  # some are clipped …
    assert (jnp.abs(ratio - 1) < 0.2).any()  # … and some are not
    want = eqx.filter_jit(eqx.filter_grad(textbook))(
        new, update.spec.components, samples, advantage, returns, joint, update.config
    )
    assert_close(got, want)


def expected(update, agent, batch, net, weights, advantage):
    """−E Σᵢ ∇log πᵢ [K(λ∘A)]ᵢ, by the estimator of `factorax.gradients`."""
    policy, taken = agent.policy, {"actions": batch.action, "obs": batch.obs, "psi": advantage}

    def log_prob(policy, obs, action):
        return update.log_prob(policy(obs, None), action)

    got = jax.jit(lambda p: fx.gradients.factored(log_prob, p, **taken, net=net, weights=weights))(policy)
    return jax.tree.map(jnp.negative, got)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["ppo", "a2c"])
@pytest.mark.parametrize("name", SPACES)
def test_at_the_old_policy_it_is_the_factored_gradient(name, objective):
    update = make_update(SPACES[name], objective=objective)
    agent = make_agent(update)
    batch = make_batch(update, agent)
    samples = samples_of(update, agent, batch, NET)
    got = loss_gradient(update, agent, samples, agent.policy.spread).policy
    assert_close(got, expected(update, agent, batch, NET, LAM, advantages(update, agent, batch)[0]))


@pytest.mark.slow
def test_factors_of_several_components():
    net = fx.InfluenceNetwork([[1, 0], [0, 1], [1, 0]])
    net = net.factor(net.minimum_factorisation())
    assert net.shape == (2, 2)
    update = make_update(SPACES["choices"], net, LAM[:2])
    agent = make_agent(update, m=2)
    batch = make_batch(update, agent, m=2)
    samples = samples_of(update, agent, batch, net)
    by_component = update.spec.components.log_prob(*agent.policy(samples.obs, None), samples.action)
    np.testing.assert_allclose(
        samples.log_prob, np.stack([by_component[:, 0] + by_component[:, 2], by_component[:, 1]], 1), rtol=1e-5
    )
    got = loss_gradient(update, agent, samples, agent.policy.spread).policy
    assert_close(got, expected(update, agent, batch, net, LAM[:2], advantages(update, agent, batch)[0]))


def still(update, agent, samples, **replaced):
    """All samples alike in what they saw, with what is given instead: parameters are then the last biases."""
    n = len(samples.obs)
    single = {name: np.asarray(x, bool if name == "factor_mask" else np.float32) for name, x in replaced.items()}
    replaced = {name: np.broadcast_to(x, (n, *x.shape)) for name, x in single.items()}
    return samples._replace(obs=np.zeros((n, N_INPUTS), np.float32), **replaced)


@pytest.mark.slow
def test_ratios_are_clipped_factor_by_factor():
    update = make_update(SPACES["binary"])
    agent = make_agent(update, hidden=())
    samples = samples_of(update, agent, make_batch(update, agent), NET)
    log_prob = jnp.log(jnp.full(3, 0.5))  # the bias is zero: every choice has probability ½
    log_ratio = jnp.log(jnp.array([1.5, 0.9, 1.5]))
    samples = still(
        update, agent, samples, action=jnp.ones(3), log_prob=log_prob - log_ratio, credit=jnp.array([2.0, 3.0, -1.0])
    )
    loss, metrics = update.loss(agent, samples, agent.policy.spread, 0.0)
    np.testing.assert_allclose(loss, -(1.2 * 2 + 0.9 * 3 - 1.5), rtol=1e-5)  # min: a loss is never clipped away
    np.testing.assert_allclose(metrics["train/clip_fraction"], 2 / 3, rtol=1e-6)
    ratio = np.exp(log_ratio)
    np.testing.assert_allclose(metrics["train/approx_kl"], (ratio - 1 - log_ratio).mean(), rtol=1e-4)
    got = loss_gradient(update, agent, samples, agent.policy.spread).policy.net.net.biases[-1]
    np.testing.assert_allclose(got, [0, -0.9 * 3 * 0.5, 1.5 * 0.5], rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_one_factor_is_clipped_alone_where_the_joint_ratio_would_clip_none():
    update, joint = make_update(SPACES["binary"]), make_update(SPACES["binary"], estimator="vanilla")
    agent = make_agent(update, hidden=())
    samples = samples_of(update, agent, make_batch(update, agent), NET)
    log_ratio = jnp.log(jnp.array([1.5, 1 / 1.5, 1.0]))
    samples = still(update, agent, samples, action=jnp.ones(3), log_prob=jnp.log(0.5) - log_ratio, credit=jnp.ones(3))
    got = loss_gradient(update, agent, samples, agent.policy.spread).policy.net.net.biases[-1]
    np.testing.assert_allclose(got, [0, -0.5 / 1.5, -0.5], rtol=1e-5, atol=1e-7)
    scalar = samples._replace(credit=samples.credit[:, :1])
    got = loss_gradient(joint, agent, scalar, agent.policy.spread).policy.net.net.biases[-1]
    np.testing.assert_allclose(got, [-0.5] * 3, rtol=1e-5)


@pytest.mark.parametrize("objective", ["ppo", "a2c"])
@pytest.mark.parametrize("estimator", ["factored", "vanilla"])
def test_idle_factors_have_no_gradient(estimator, objective):
    update = make_update(SPACES["binary"], estimator=estimator, objective=objective)
    agent = make_agent(update, hidden=())
    shapes = eqx.filter_eval_shape(update.samples, agent, make_batch(update, agent), NET)
    samples = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
    mask = [True, False, True]
    credit = [1.0, 1e6, 2.0] if estimator == "factored" else np.ones(1)
    old = [np.log(0.5), -1e30, np.log(0.5)]  # what idles may be as improbable as it likes
    samples = still(update, agent, samples, action=np.ones(3), log_prob=old, credit=credit, factor_mask=mask)
    (loss, _), gradient = loss_and_gradient(update, agent, samples, agent.policy.spread)
    assert np.isfinite(loss)
    got = gradient.policy.net.net.biases[-1]
    np.testing.assert_allclose(got, [-0.5, 0, -1 if estimator == "factored" else -0.5], rtol=1e-5, atol=1e-8)


@pytest.mark.slow
def test_masks_of_all_change_nothing():
    update = make_update(SPACES["box"])
    agent = make_agent(update)
    bare, masked = (
        samples_of(update, agent, make_batch(update, agent, factor_mask=mask), NET)
        for mask in (None, jnp.ones((T, B, 3), bool))
    )
    new = perturbed(agent)
    got = loss_gradient(update, new, masked, agent.policy.spread)
    assert_close(got, loss_gradient(update, new, bare, agent.policy.spread), rtol=1e-6)


@pytest.mark.slow
def test_credits_are_normalised_by_one_common_scale():
    plain, scaled = make_update(SPACES["box"]), make_update(SPACES["box"], normalize_advantage=True)
    agent = make_agent(plain)
    samples = samples_of(plain, agent, make_batch(plain, agent), NET)
    mean, scale = samples.credit.mean(), samples.credit.std(ddof=1)
    by_hand = samples._replace(credit=(samples.credit - mean) / scale)
    new = perturbed(agent)
    got = loss_gradient(scaled, new, samples, agent.policy.spread)
    assert_close(got, loss_gradient(plain, new, by_hand, agent.policy.spread))


def test_the_kl_penalty():
    plain, penal = make_update(SPACES["box"]), make_update(SPACES["box"], kl_coef=0.3)
    agent = make_agent(plain)
    samples = samples_of(plain, agent, make_batch(plain, agent), NET)
    new = perturbed(agent)
    mean, other = (np.asarray(outputs_of(a.policy, samples.obs)[0]) for a in (agent, new))
    log_std, new_std = (np.asarray(a.policy.spread.log_std) for a in (agent, new))
    variance, new_variance = np.exp(2 * log_std), np.exp(2 * new_std)
    kl = new_std - log_std + (variance + (mean - other)[..., 0] ** 2) / (2 * new_variance) - 0.5
    without, _ = loss_of(plain, new, samples, agent.policy.spread, 0.3)
    with_it, metrics = loss_of(penal, new, samples, agent.policy.spread, 0.3)
    np.testing.assert_allclose(with_it - without, 0.3 * kl.sum(axis=1).mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["train/kl"], kl.mean(), rtol=1e-4)


@pytest.mark.parametrize("clip", [None, 0.1])
def test_the_loss_of_the_critic(clip):
    update = make_update(SPACES["box"], vf_coef=0.7, clip_range_vf=clip)
    agent = make_agent(update)
    batch = make_batch(update, agent)
    samples = samples_of(update, agent, batch, NET)
    returns = np.asarray(samples.returns)
    np.testing.assert_allclose(returns, np.asarray(advantages(update, agent, batch)[1]).reshape(-1, 3), rtol=1e-5)
    new = dataclasses.replace(agent, critic=perturbed(agent).critic)
    value, old = (np.asarray(outputs_of(a.critic, samples.obs)) for a in (new, agent))
    clipped = value if clip is None else old + np.clip(value - old, -clip, clip)
    (_, metrics), gradient = loss_and_gradient(update, new, samples, agent.policy.spread)
    np.testing.assert_allclose(metrics["train/value_loss"], ((returns - clipped) ** 2).mean(), rtol=1e-4)
    total = metrics["train/policy_gradient_loss"] + 0.7 * metrics["train/value_loss"]
    np.testing.assert_allclose(metrics["train/loss"], total, rtol=1e-6)
    got = gradient.critic.net.net.biases[-1]
    inside = np.ones_like(value, bool) if clip is None else np.abs(value - old) < clip
    want = 0.7 * (2 * (clipped - returns) * inside / value.size).sum(axis=0)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


def test_a_pessimistic_critic_takes_the_larger_error():
    """RLlib's value loss: the larger of the squared errors with and without clipping, sample by sample."""
    update = make_update(SPACES["box"], vf_coef=0.7, clip_range_vf=0.1, pessimistic_vf=True)
    agent = make_agent(update)
    samples = samples_of(update, agent, make_batch(update, agent), NET)
    new = dataclasses.replace(agent, critic=perturbed(agent).critic)
    value, old = (np.asarray(outputs_of(a.critic, samples.obs)) for a in (new, agent))
    returns = np.asarray(samples.returns)
    plain = (returns - value) ** 2
    clipped = (returns - (old + np.clip(value - old, -0.1, 0.1))) ** 2
    assert (plain > clipped).any()
    assert (plain < clipped).any()
    _, metrics = loss_of(update, new, samples, agent.policy.spread)
    np.testing.assert_allclose(metrics["train/value_loss"], np.maximum(plain, clipped).mean(), rtol=1e-4)


def test_fragments_shorter_than_a_rollout_end_the_sums_of_advantages():
    """With `gae_steps=3`, a rollout of six steps has the advantages of two rollouts of three steps each."""
    whole, half = make_update(SPACES["box"], gae_steps=3), make_update(SPACES["box"], n_steps=3, batch_size=12)
    agent = make_agent(whole)
    batch = make_batch(whole, agent)
    parts = [jax.tree.map(lambda x, start=start: np.asarray(x)[start : start + 3], batch) for start in (0, 3)]
    got = estimates_of(whole, agent, batch, NET, whole.config.hyper)
    want = [estimates_of(half, agent, part, NET, half.config.hyper) for part in parts]
    for name in ("advantage", "returns"):
        both = np.concatenate([getattr(each, name) for each in want])
        np.testing.assert_allclose(getattr(got, name), both, rtol=1e-5, atol=1e-6)
    unbroken = dataclasses.replace(whole, config=dataclasses.replace(whole.config, gae_steps=None))
    other = np.asarray(estimates_of(unbroken, agent, batch, NET, whole.config.hyper).advantage)
    broken = np.asarray(got.advantage)
    assert np.abs(other - broken)[:3].max() > 0.01  # the border matters to the steps before it
    np.testing.assert_allclose(other[3:], broken[3:], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_entropy_bonus():
    plain, warm = make_update(SPACES["choices"]), make_update(SPACES["choices"], ent_coef=0.1)
    agent = make_agent(plain)
    samples = samples_of(plain, agent, make_batch(plain, agent), NET)
    entropy = plain.spec.components.entropy(*agent.policy(samples.obs, None)).sum(axis=1).mean()
    losses = [u.loss(agent, samples, agent.policy.spread, 0.0)[0] for u in (plain, warm)]
    np.testing.assert_allclose(losses[0] - losses[1], 0.1 * entropy, rtol=1e-4)
