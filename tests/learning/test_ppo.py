"""The loss of factored PPO: the textbook's with K = 1, the factored gradient at the old policy, and every switch."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from scipy import stats

import factorax as fx
from factorax.learning import ActionSpace, Agent, Batch, Config, Update, gae
from factorax.learning.networks import Critic, Joint, Policy
from factorax.learning.ppo import shuffled

T, B, D = 6, 4, 3
NET = fx.InfluenceNetwork([[1, 1, 0], [0, 1, 0], [0, 1, 1]])
LAM = np.array([0.5, -1.0, 2.0])
SPACES = {
    "box": spaces.Box(-np.inf, np.inf, (3,)),
    "binary": spaces.MultiBinary(3),
    "choices": spaces.MultiDiscrete([3, 2, 4]),
    "mixed": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (1,)), spaces.MultiBinary(1)]),
}
PLAIN = {"n_envs": B, "n_steps": T, "batch_size": T * B, "normalise_advantage": False, "vf_coef": 0.0}


def rule(space, net=NET, weights=LAM, **settings):
    space, of = ActionSpace.of(space), None
    if net.factorisation is not None:
        of = np.empty(net.factorisation.n_actions, int)
        for i, group in enumerate(net.factorisation.groups):
            of[list(group)] = i
    return Update(space, net.shape[0], weights, of, Config(**PLAIN | settings))


def make_agent(update, m=3, hidden=(5,), seed=0):
    one, two = jax.random.split(jax.random.key(seed))
    c, width = len(update.space), update.space.width
    policy = Policy(
        Joint(one, D, (c, width), hidden, 1.0), update.space.spread(0.0)._replace(log_std=jnp.linspace(-0.5, 0.5, c))
    )
    return Agent(policy, Critic(Joint(two, D, (m, 1), hidden, 1.0)))


def make_batch(update, agent, m=3, seed=0, **more):
    """A rollout of random rewards, with episodes that end in both ways."""
    return drawn(update, agent, m, seed)._replace(**more)


@eqx.filter_jit
def drawn(update, agent, m, seed):
    keys = jax.random.split(jax.random.key(seed + 100), 5)
    obs, next_obs = jax.random.normal(keys[0], (2, T, B, D))
    action = update.space.sample(keys[1], *agent.policy(obs, None))
    terminated, truncated = jax.random.bernoulli(keys[2], 0.2, (2, T, B))
    psi = jax.random.normal(keys[3], (T, B, m))
    return Batch(obs, None, action, psi, next_obs, None, terminated, truncated)


def moved(agent, by=0.3, seed=7):
    """Another policy close by, so that ratios are not one."""
    leaves, tree = jax.tree.flatten(agent)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    moves = [x + by * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(tree, moves)


@eqx.filter_jit
def sampled(update, agent, batch, net):
    return update.samples(agent, batch, net)


@eqx.filter_jit
def gradient(update, agent, samples, old):
    return eqx.filter_grad(lambda a: update.loss(a, samples, old, 0.0)[0])(agent)


def assert_close(got, want, rtol=2e-4, atol=2e-6):
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=rtol, atol=atol)


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
    if c.normalise_advantage:
        advantage = (advantage - advantage.mean()) / advantage.std(ddof=1)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - c.clip_range, 1 + c.clip_range) * advantage)
    value = agent.critic.net.net(samples.obs)[:, 0]
    value_loss = ((value - returns) ** 2).mean()
    return -gain.mean() + c.vf_coef * value_loss - c.ent_coef * entropy.sum(axis=1).mean()


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("name", ["box", "binary", "choices"])
def test_vanilla_is_the_textbook(name, normalise):
    settings = {"estimator": "vanilla", "vf_coef": 0.5, "ent_coef": 0.01, "normalise_advantage": normalise}
    one = fx.InfluenceNetwork.complete(1, 1)
    update = rule(SPACES[name], one, np.ones(1), **settings)
    old = make_agent(update, m=1)
    samples = sampled(update, old, make_batch(update, old, m=1), one)
    new = moved(old)
    got = gradient(update, new, samples, old.policy.spread)
    joint = samples.log_prob.sum(axis=1)
    advantage, returns = samples.credit[:, 0], samples.returns[:, 0]
    ratio = jnp.exp(update.log_prob(new.policy(samples.obs, None), samples.action).sum(axis=1) - joint)
    assert (jnp.abs(ratio - 1) > 0.2).any()  # some are clipped …
    assert (jnp.abs(ratio - 1) < 0.2).any()  # … and some are not
    want = eqx.filter_jit(eqx.filter_grad(textbook))(
        new, update.space, samples, advantage, returns, joint, update.config
    )
    assert_close(got, want)


def test_vanilla_credits_all_with_the_scalar_advantage():
    """The sum of per-target advantages is the advantage of the scalar reward λ·r, under the critic λ·v."""
    total = fx.InfluenceNetwork.complete(1, 3)
    update = rule(SPACES["box"], total, estimator="vanilla")
    agent = make_agent(update)
    batch = make_batch(update, agent)
    samples = sampled(update, agent, batch, total)
    scalar = [x @ LAM[:, None] for x in (batch.psi, agent.critic(batch.obs, None), agent.critic(batch.next_obs, None))]
    terminated = batch.terminated[..., None]
    want, _ = gae(
        *scalar, terminated=terminated, ended=terminated | batch.truncated[..., None], discount=0.99, trace=0.95
    )
    np.testing.assert_allclose(samples.credit, want.reshape(-1, 1), rtol=1e-4, atol=1e-5)


def expected(update, agent, batch, net, weights, advantage):
    """−E Σᵢ ∇log πᵢ [K(λ∘A)]ᵢ, by the estimator of `factorax.gradients`."""
    policy, taken = agent.policy, {"actions": batch.action, "obs": batch.obs, "psi": advantage}

    def log_prob(policy, obs, action):
        return update.log_prob(policy(obs, None), action)

    got = jax.jit(lambda p: fx.gradients.factored(log_prob, p, **taken, net=net, weights=weights))(policy)
    return jax.tree.map(jnp.negative, got)


def advantages(update, agent, batch):
    c, terminated = update.config, batch.terminated[..., None]
    value, after = agent.critic(batch.obs, None), agent.critic(batch.next_obs, None)
    ended = terminated | batch.truncated[..., None]
    return gae(batch.psi, value, after, terminated=terminated, ended=ended, discount=c.discount, trace=c.gae_lambda)


@pytest.mark.parametrize("objective", ["ppo", "a2c"])
@pytest.mark.parametrize("name", SPACES)
def test_at_the_old_policy_it_is_the_factored_gradient(name, objective):
    update = rule(SPACES[name], objective=objective)
    agent = make_agent(update)
    batch = make_batch(update, agent)
    samples = sampled(update, agent, batch, NET)
    got = gradient(update, agent, samples, agent.policy.spread).policy
    assert_close(got, expected(update, agent, batch, NET, LAM, advantages(update, agent, batch)[0]))


def test_soft_and_blended_networks_are_applied():
    soft = fx.InfluenceNetwork(np.array([[1.0, 0.3, 0.0], [0.2, 1.0, 0.0], [0.0, 0.5, 1.0]]))
    schedule = fx.NetworkSchedule(NET, fx.InfluenceNetwork.complete(3, 3), steps=100)
    update = rule(SPACES["box"])
    agent = make_agent(update)
    batch = make_batch(update, agent)
    advantage = np.asarray(advantages(update, agent, batch)[0], float).reshape(-1, 3)
    for net, matrix in ((soft, soft.to_dense()), (schedule.at(40), 0.6 * NET.to_dense() + 0.4)):
        samples = sampled(update, agent, batch, net)
        np.testing.assert_allclose(samples.credit, (advantage * LAM) @ matrix.T, rtol=1e-4, atol=1e-5)


def test_factors_of_several_components():
    net = fx.InfluenceNetwork([[1, 0], [0, 1], [1, 0]])
    net = net.factor(net.minimum_factorisation())
    assert net.shape == (2, 2)
    update = rule(SPACES["choices"], net, LAM[:2])
    agent = make_agent(update, m=2)
    batch = make_batch(update, agent, m=2)
    samples = sampled(update, agent, batch, net)
    by_component = update.space.log_prob(*agent.policy(samples.obs, None), samples.action)
    np.testing.assert_allclose(
        samples.log_prob, np.stack([by_component[:, 0] + by_component[:, 2], by_component[:, 1]], 1), rtol=1e-5
    )
    got = gradient(update, agent, samples, agent.policy.spread).policy
    assert_close(got, expected(update, agent, batch, net, LAM[:2], advantages(update, agent, batch)[0]))


def still(update, agent, samples, **replaced):
    """All samples alike in what they saw, with what is given instead: parameters are then the last biases."""
    n = len(samples.obs)
    replaced = {name: jnp.broadcast_to(jnp.asarray(x), (n, *np.shape(x))) for name, x in replaced.items()}
    return samples._replace(obs=jnp.zeros((n, D)), **replaced)


def test_ratios_are_clipped_factor_by_factor():
    update = rule(SPACES["binary"])
    agent = make_agent(update, hidden=())
    samples = sampled(update, agent, make_batch(update, agent), NET)
    log_prob = jnp.log(jnp.full(3, 0.5))  # the bias is nought: every choice has probability ½
    log_ratio = jnp.log(jnp.array([1.5, 0.9, 1.5]))
    samples = still(
        update, agent, samples, action=jnp.ones(3), log_prob=log_prob - log_ratio, credit=jnp.array([2.0, 3.0, -1.0])
    )
    loss, metrics = update.loss(agent, samples, agent.policy.spread, 0.0)
    np.testing.assert_allclose(loss, -(1.2 * 2 + 0.9 * 3 - 1.5), rtol=1e-5)  # min: a loss is never clipped away
    np.testing.assert_allclose(metrics["train/clip_fraction"], 2 / 3, rtol=1e-6)
    ratio = np.exp(log_ratio)
    np.testing.assert_allclose(metrics["train/approx_kl"], (ratio - 1 - log_ratio).mean(), rtol=1e-4)
    got = gradient(update, agent, samples, agent.policy.spread).policy.net.net.biases[-1]
    np.testing.assert_allclose(got, [0, -0.9 * 3 * 0.5, 1.5 * 0.5], rtol=1e-5, atol=1e-7)


def test_one_factor_is_clipped_alone_where_the_joint_ratio_would_clip_none():
    update, joint = rule(SPACES["binary"]), rule(SPACES["binary"], estimator="vanilla")
    agent = make_agent(update, hidden=())
    samples = sampled(update, agent, make_batch(update, agent), NET)
    log_ratio = jnp.log(jnp.array([1.5, 1 / 1.5, 1.0]))
    samples = still(update, agent, samples, action=jnp.ones(3), log_prob=jnp.log(0.5) - log_ratio, credit=jnp.ones(3))
    got = gradient(update, agent, samples, agent.policy.spread).policy.net.net.biases[-1]
    np.testing.assert_allclose(got, [0, -0.5 / 1.5, -0.5], rtol=1e-5, atol=1e-7)
    scalar = samples._replace(credit=samples.credit[:, :1])
    got = gradient(joint, agent, scalar, agent.policy.spread).policy.net.net.biases[-1]
    np.testing.assert_allclose(got, [-0.5] * 3, rtol=1e-5)


@pytest.mark.parametrize("objective", ["ppo", "a2c"])
@pytest.mark.parametrize("estimator", ["factored", "vanilla"])
def test_idle_factors_have_no_gradient(estimator, objective):
    update = rule(SPACES["binary"], estimator=estimator, objective=objective)
    agent = make_agent(update, hidden=())
    samples = sampled(update, agent, make_batch(update, agent), NET)
    mask = jnp.array([True, False, True])
    credit = jnp.array([1.0, 1e6, 2.0]) if estimator == "factored" else jnp.ones(1)
    old = jnp.array([jnp.log(0.5), -1e30, jnp.log(0.5)])  # what idles may be as improbable as it likes
    samples = still(update, agent, samples, action=jnp.ones(3), log_prob=old, credit=credit, factor_mask=mask)
    loss, _ = update.loss(agent, samples, agent.policy.spread, 0.0)
    assert np.isfinite(loss)
    got = gradient(update, agent, samples, agent.policy.spread).policy.net.net.biases[-1]
    np.testing.assert_allclose(got, [-0.5, 0, -1 if estimator == "factored" else -0.5], rtol=1e-5, atol=1e-8)


def test_masks_of_all_change_nothing():
    update = rule(SPACES["box"])
    agent = make_agent(update)
    bare, masked = (
        sampled(update, agent, make_batch(update, agent, factor_mask=mask), NET)
        for mask in (None, jnp.ones((T, B, 3), bool))
    )
    new = moved(agent)
    got = gradient(update, new, masked, agent.policy.spread)
    assert_close(got, gradient(update, new, bare, agent.policy.spread), rtol=1e-6)


def test_credits_are_normalised_by_one_common_scale():
    plain, scaled = rule(SPACES["box"]), rule(SPACES["box"], normalise_advantage=True)
    agent = make_agent(plain)
    samples = sampled(plain, agent, make_batch(plain, agent), NET)
    mean, scale = samples.credit.mean(), samples.credit.std(ddof=1)
    by_hand = samples._replace(credit=(samples.credit - mean) / scale)
    new = moved(agent)
    got = gradient(scaled, new, samples, agent.policy.spread)
    assert_close(got, gradient(plain, new, by_hand, agent.policy.spread))


def test_the_kl_penalty():
    plain, penal = rule(SPACES["box"]), rule(SPACES["box"], kl_coef=0.3)
    agent = make_agent(plain)
    samples = sampled(plain, agent, make_batch(plain, agent), NET)
    new = moved(agent)
    mean, other = (a.policy(samples.obs, None)[0] for a in (agent, new))
    log_std, new_std = agent.policy.spread.log_std, new.policy.spread.log_std
    variance, new_variance = np.exp(2 * log_std), np.exp(2 * new_std)
    kl = new_std - log_std + (variance + (mean - other)[..., 0] ** 2) / (2 * new_variance) - 0.5
    without, _ = plain.loss(new, samples, agent.policy.spread, 0.3)
    with_it, metrics = penal.loss(new, samples, agent.policy.spread, 0.3)
    np.testing.assert_allclose(with_it - without, 0.3 * kl.sum(axis=1).mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["train/kl"], kl.mean(), rtol=1e-4)


@pytest.mark.parametrize(("target", "grows"), [(1e-9, 1.5), (1e3, 0.5), (None, 1.0), ("near", 1.0)])
def test_the_kl_coefficient_adapts(target, grows):
    settings = {"n_epochs": 2, "learning_rate": 1e-2, "kl_coef": 0.2}
    if target == "near":
        target = float(adapt(kl_target=1e3, **settings)[1]["train/kl"])
    coefficient, metrics = adapt(kl_target=target, **settings)
    assert metrics["train/kl"] > 1e-8
    np.testing.assert_allclose(coefficient, 0.2 * grows, rtol=1e-6)
    np.testing.assert_allclose(metrics["train/kl_coef"], coefficient)


def adapt(**settings):
    update = rule(SPACES["box"], **settings)
    agent = make_agent(update, hidden=())
    state = update.optimiser().init(eqx.filter(agent, eqx.is_array))
    batch = make_batch(update, agent)
    _, _, coefficient, metrics = update.learn(agent, state, jnp.float32(0.2), batch, jax.random.key(0), NET)
    return coefficient, metrics


@pytest.mark.parametrize("clip", [None, 0.1])
def test_the_loss_of_the_critic(clip):
    update = rule(SPACES["box"], vf_coef=0.7, clip_range_vf=clip)
    agent = make_agent(update)
    batch = make_batch(update, agent)
    samples = sampled(update, agent, batch, NET)
    np.testing.assert_allclose(samples.returns, advantages(update, agent, batch)[1].reshape(-1, 3), rtol=1e-5)
    new = dataclasses.replace(agent, critic=moved(agent).critic)
    value, old = (np.asarray(a.critic(samples.obs, None)) for a in (new, agent))
    clipped = value if clip is None else old + np.clip(value - old, -clip, clip)
    _, metrics = update.loss(new, samples, agent.policy.spread, 0.0)
    np.testing.assert_allclose(metrics["train/value_loss"], ((samples.returns - clipped) ** 2).mean(), rtol=1e-4)
    np.testing.assert_allclose(
        metrics["train/loss"], metrics["train/policy_gradient_loss"] + 0.7 * metrics["train/value_loss"]
    )
    got = gradient(update, new, samples, agent.policy.spread).critic.net.net.biases[-1]
    inside = np.ones_like(value, bool) if clip is None else np.abs(value - old) < clip
    want = 0.7 * (2 * (clipped - samples.returns) * inside / value.size).sum(axis=0)
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


def test_the_entropy_bonus():
    plain, warm = rule(SPACES["choices"]), rule(SPACES["choices"], ent_coef=0.1)
    agent = make_agent(plain)
    samples = sampled(plain, agent, make_batch(plain, agent), NET)
    entropy = plain.space.entropy(*agent.policy(samples.obs, None)).sum(axis=1).mean()
    losses = [u.loss(agent, samples, agent.policy.spread, 0.0)[0] for u in (plain, warm)]
    np.testing.assert_allclose(losses[0] - losses[1], 0.1 * entropy, rtol=1e-4)


def test_a_critic_of_factors_gives_the_same_credits_as_one_of_targets():
    """Value heads K(λ∘v) and v: GAE is linear, so it does not matter which comes first."""
    by_target, by_factor = rule(SPACES["box"]), rule(SPACES["box"], critic="factor")
    agent = make_agent(by_target, hidden=())
    K = NET.to_dense() * LAM
    weights = agent.critic.net.net.weights[0] @ K.T
    other = eqx.tree_at(lambda a: a.critic.net.net.weights[0], agent, weights)
    batch = make_batch(by_target, agent)
    want, got = sampled(by_target, agent, batch, NET), sampled(by_factor, other, batch, NET)
    np.testing.assert_allclose(got.credit, want.credit, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got.returns, want.returns @ K.T, rtol=1e-4, atol=1e-5)


def test_a_factor_ends_with_the_last_of_its_targets():
    update = rule(SPACES["box"], critic="factor", gae_lambda=0.0, discount=1.0)
    agent = make_agent(update, hidden=())
    stops = jnp.broadcast_to(jnp.array([True, False, True]), (T, B, 3))
    never = jnp.zeros((T, B), bool)
    batch = make_batch(update, agent, target_terminated=stops)._replace(terminated=never, truncated=never)
    after = agent.critic(batch.next_obs, None)
    got = sampled(update, agent, batch, NET).returns.reshape(T, B, 3)  # every row has target 1, which goes on
    np.testing.assert_allclose(got, fx.credit(NET, batch.psi, LAM) + after, rtol=1e-4, atol=1e-5)
    own = fx.InfluenceNetwork.identity(3)
    got = sampled(update, agent, batch, own).returns.reshape(T, B, 3)
    follows = jnp.array([False, True, False])
    np.testing.assert_allclose(got, fx.credit(own, batch.psi, LAM) + follows * after, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bootstrap", ["auto", "never", "always"])
def test_the_bootstrap_switch(bootstrap):
    update = rule(SPACES["box"], bootstrap=bootstrap)
    agent = make_agent(update)
    batch = make_batch(update, agent)
    ended = batch.terminated | batch.truncated
    assert (ended & ~batch.terminated).any()
    cut = {"auto": batch.terminated, "never": ended, "always": jnp.zeros_like(ended)}[bootstrap]
    value, after = agent.critic(batch.obs, None), agent.critic(batch.next_obs, None)
    flags = {"terminated": cut[..., None], "ended": ended[..., None]}
    want, _ = gae(batch.psi, value, after, **flags, discount=0.99, trace=0.95)
    got = sampled(update, agent, batch, NET).credit
    np.testing.assert_allclose(got, fx.credit(NET, want, LAM).reshape(-1, 3), rtol=1e-4, atol=1e-5)


def test_never_still_hears_of_targets_that_end_within_an_episode():
    update = rule(SPACES["box"], bootstrap="never")
    agent = make_agent(update)
    stops = jax.random.bernoulli(jax.random.key(5), 0.5, (T, B, 3))
    batch = make_batch(update, agent, target_terminated=stops)
    ended = (batch.terminated | batch.truncated)[..., None]
    value, after = agent.critic(batch.obs, None), agent.critic(batch.next_obs, None)
    want, _ = gae(batch.psi, value, after, terminated=stops | ended, ended=ended, discount=0.99, trace=0.95)
    got = sampled(update, agent, batch, NET).credit
    np.testing.assert_allclose(got, fx.credit(NET, want, LAM).reshape(-1, 3), rtol=1e-4, atol=1e-5)


def test_all_samples_are_seen_in_every_epoch():
    """One minibatch, one epoch, no cut: the step of Adam is the sign of the whole batch's gradient."""
    update = rule(SPACES["box"], n_epochs=1, learning_rate=1e-3, max_grad_norm=1e9)
    agent = make_agent(update, hidden=())
    batch = make_batch(update, agent)
    state = update.optimiser().init(eqx.filter(agent, eqx.is_array))
    new, _, _, metrics = update.learn(agent, state, jnp.float32(0.0), batch, jax.random.key(0), NET)
    g = gradient(update, agent, sampled(update, agent, batch, NET), agent.policy.spread)
    want = jax.tree.map(lambda x, g: x - 1e-3 * g / (jnp.abs(g) + 1e-5), agent, g)
    assert_close(new, want, rtol=1e-4, atol=1e-5)
    length = np.sqrt(sum((np.asarray(x) ** 2).sum() for x in jax.tree.leaves(g)))
    np.testing.assert_allclose(metrics["train/grad_norm"], length, rtol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 6, 64, 1000, 70_000])
def test_a_shuffle_has_every_number_once(size):
    order = shuffled(jax.random.key(0), size)
    np.testing.assert_array_equal(np.sort(order), np.arange(size))


def test_a_shuffle_is_uniform():
    """Each of the 24 orders of four numbers in 24,000 shuffles, by χ²; passed with a chance of 99.9 %."""
    orders = jax.vmap(lambda key: shuffled(key, 4))(jax.random.split(jax.random.key(1), 24_000))
    counts = np.unique(np.asarray(orders), axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert ((counts - 1000) ** 2 / 1000).sum() < stats.chi2.ppf(0.999, 23)


def test_settings_fall_to_nought():
    config = Config(**PLAIN, anneal=("learning_rate", "ent_coef"), total_timesteps=100, learning_rate=2.0, ent_coef=0.1)
    for timesteps, left in ((0, 1), (25, 0.75), (100, 0)):
        now = config.annealed(config.hyper, timesteps)
        assert now == config.hyper._replace(learning_rate=2.0 * left, ent_coef=0.1 * left)


def test_the_learning_rate_is_the_length_of_a_step():
    """Adam moves every parameter by the rate in its first step, whatever the gradient."""
    update = rule(SPACES["box"])
    optimiser = update.optimiser(update.config.hyper._replace(learning_rate=0.25))
    step, _ = optimiser.update(jnp.ones(1), optimiser.init(jnp.ones(1)))
    np.testing.assert_allclose(step, [-0.25], rtol=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_steps": 0}, "n_steps: got 0, want at least 1"),
        ({"batch_size": 7}, r"batch_size: got 7, want a divisor of n_envs × n_steps = 24"),
        ({"discount": 1.5}, "discount: got 1.5, want a number from 0 to 1"),
        ({"gae_lambda": -0.1}, "gae_lambda: got -0.1"),
        ({"anneal": ["discount"]}, "anneal: got 'discount', want some of learning_rate, clip_range, ent_coef"),
        ({"objective": "natural"}, "kl_target: got None, want the length of a natural step"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Config(**PLAIN | settings)
