"""The method ``rllib07``: losses of single factors are those of whole steps, and each setting does what RLlib does."""

from dataclasses import replace

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_paper.rllib07 import RLlib07

import factorax as fx
from factorax.networks import Agent, make_policy
from factorax.ppo import Config, Method, Rollout, Update
from factorax.ppo.credits import Credit
from factorax.spec import Spec

T, B, N, LOCAL = 4, 3, 3, 2
NETWORK = fx.InfluenceNetwork([[1, 0], [1, 1], [0, 1]])
STEPS = RLlib07(
    minibatch_of="steps", shuffle="epoch", normalize_over="minibatch", gae_steps=None, bootstrap="auto", kl_target=None
)
SETTINGS = {"n_envs": B, "n_steps": T, "batch_size": T * B, "hidden": (5, 4), "policy": "shared,identity=0"}
SETTINGS |= {"critic": "factor", "normalize_advantage": False, "max_grad_norm": None, "distribution": "clip"}
BOX = gym.spaces.Box(-1, 1, (N,))


def local(obs):
    return obs.reshape(*obs.shape[:-1], N, LOCAL)


def update_of(method, space=BOX, **settings):
    config = Config(**SETTINGS | {"method": method} | settings)
    observations = gym.spaces.Box(-np.inf, np.inf, (N * LOCAL,))
    spec = Spec.of_spaces(observations, space, NETWORK, distribution=config.distribution, local=local)
    return Update(spec, config)


def agent_of(update, seed):
    """An agent with parameters drawn by NumPy, for which nothing is compiled."""
    rng = np.random.default_rng(seed)

    def make(key):
        policy = make_policy(update.spec, update.config, key)
        return Agent(policy, update.method.critic(update, policy, key))

    arrays, rest = eqx.partition(eqx.filter_eval_shape(make, jax.random.key(0)), lambda x: hasattr(x, "dtype"))
    drawn = jax.tree.map(lambda x: jnp.float32(0.5 * rng.normal(size=x.shape)), arrays)
    return eqx.combine(drawn, rest)


def rollout_of(update, acting, **replaced):
    rng, key = np.random.default_rng(0), jax.random.key(0)
    obs, next_obs = rng.normal(size=(2, T, B, N * LOCAL)).astype(np.float32)
    rollout = Rollout(
        obs=obs,
        local=local(obs),
        action=eqx.filter_jit(update.spec.components.sample)(key, *acting.policy(obs, local(obs))),
        psi=rng.normal(size=(T, B, 2)).astype(np.float32),
        next_obs=next_obs,
        terminated=np.zeros((T, B), bool),
        truncated=np.zeros((T, B), bool),
    )
    return jax.device_put(rollout._replace(**replaced))


def credit_of(update, agent, rollout):
    k, hyper = update.network.static, update.config.hyper
    run = lambda agent, rollout: update.method.credit(update, (agent, None), rollout, k, hyper, None)[1]  # noqa: E731
    return eqx.filter_jit(run)(agent, rollout)


def minibatches_of(update, agent, samples):
    return update.method.minibatches(update, (agent, None), samples, update.config.hyper, jax.random.key(0))[1]


def loss_of(update, agent, acting, samples, kl_coef=0.0, **hyper):
    """The loss of one minibatch of all samples, in random order."""
    minibatches = minibatches_of(update, acting, samples)
    rows = minibatches.take(minibatches.order(jax.random.key(1)).reshape(-1))
    carried, hyper = (jnp.float32(kl_coef), acting.policy.spread), update.config.hyper._replace(**hyper)
    return update.method.loss(update, minibatches.evaluate(agent, rows), rows, hyper, carried)[0]


@pytest.mark.parametrize("identity", [0, 2])
@pytest.mark.parametrize("std", ["component", "shared", "state"])
def test_gradient_of_factors_is_that_of_steps(std, identity):
    """A loss over samples is the mean over factors where that over steps is the sum, except for values."""
    settings = {"distribution": f"clip,std={std}", "policy": f"shared,identity={identity}"}
    steps = update_of(STEPS, **settings)
    factors = update_of(replace(STEPS, minibatch_of="factors"), **settings, batch_size=T * B * N)
    agent, acting = agent_of(steps, 0), agent_of(steps, 1)

    @eqx.filter_jit
    def both(agent, acting, rollout):
        samples = steps.samples(acting, rollout, credit_of(steps, acting, rollout))
        of_steps = lambda agent: loss_of(steps, agent, acting, samples, 0.3, vf_coef=0.5 * N) / N  # noqa: E731
        of_factors = lambda agent: loss_of(factors, agent, acting, samples, 0.3, vf_coef=0.5)  # noqa: E731
        return eqx.filter_value_and_grad(of_steps)(agent), eqx.filter_value_and_grad(of_factors)(agent)

    (want, wanted), (got, gradient) = both(agent, acting, rollout_of(steps, acting))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_loss_of_masked_choices_of_factors_is_that_of_steps():
    space, mask = gym.spaces.MultiDiscrete([3] * N), np.random.default_rng(9).random((T, B, N)) < 0.6
    steps = update_of(STEPS, space)
    factors = update_of(replace(STEPS, minibatch_of="factors"), space, batch_size=T * B * N)
    agent, acting = agent_of(steps, 0), agent_of(steps, 1)
    rollout = rollout_of(steps, acting, factor_mask=mask)

    @eqx.filter_jit
    def losses(agent, acting, rollout):
        samples = steps.samples(acting, rollout, credit_of(steps, acting, rollout))
        want = loss_of(steps, agent, acting, samples, vf_coef=0.0) / N
        return loss_of(factors, agent, acting, samples, vf_coef=0.0), want

    np.testing.assert_allclose(*losses(agent, acting, rollout), rtol=1e-5)


def test_passes_repeat_minibatches_and_drop_a_remainder():
    update = update_of(RLlib07(gae_steps=None), batch_size=5, n_epochs=2)
    agent = agent_of(update, 0)
    rollout = rollout_of(update, agent)
    state = update.method.optimiser(update.config.hyper).init(eqx.filter(agent, eqx.is_inexact_array))

    @eqx.filter_jit
    def orders(agent):
        samples = update.samples(agent, rollout, Credit(*(jnp.zeros((T, B, N)),) * 3))
        return jax.vmap(minibatches_of(update, agent, samples).order)(jax.random.split(jax.random.key(3)))

    first, second = np.asarray(orders(agent))
    assert sorted(map(tuple, first)) == sorted(map(tuple, second))
    assert len(set(first.ravel())) == first.size == T * B * N // 5 * 5
    new, after, _, _ = eqx.filter_jit(update.learn)(
        agent, state, rollout, key=jax.random.key(0), state=update.method.init_state()
    )
    assert jax.tree.structure((new, after)) == jax.tree.structure((agent, state))
    count = [int(x) for x in jax.tree.leaves(after) if jnp.issubdtype(x.dtype, jnp.integer)]
    assert count == [2 * (T * B * N // 5)]


@pytest.mark.parametrize(
    ("space", "settings", "message"),
    [
        (gym.spaces.MultiDiscrete([3, 3, 2]), {}, "got minibatch_of=factors"),
        (BOX, {"policy": "joint"}, "got minibatch_of=factors"),
        (BOX, {"batch_size": 7, "method": "rllib07,shuffle=epoch,gae_steps=none"}, "divisor of the 36 samples"),
        (BOX, {"batch_size": 40, "method": "rllib07,gae_steps=none"}, "batch_size: got 40"),
        (BOX, {"method": "rllib07,gae_steps=3"}, "gae_steps: got 3, want a divisor of n_steps = 4"),
        (
            BOX,
            {"method": "rllib07,minibatch_of=steps,gae_steps=none", "architecture": "gru,sequence_length=4"},
            "architecture: got",
        ),
    ],
)
def test_unsuitable_settings_are_named(space, settings, message):
    update = update_of(**{"method": "rllib07", "space": space} | settings)
    with pytest.raises(ValueError, match=message):
        agent_of(update, 0)


def test_penalty_is_the_divergence_of_gaussians():
    update = update_of(STEPS)
    agent, acting = agent_of(update, 0), agent_of(update, 1)
    rollout = rollout_of(update, acting)

    @eqx.filter_jit
    def losses(agent, acting, rollout):
        samples = update.samples(acting, rollout, credit_of(update, acting, rollout))
        means = [each.policy(samples.obs, samples.local)[0][..., 0] for each in (acting, agent)]
        return [loss_of(update, agent, acting, samples, kl_coef) for kl_coef in (0.0, 0.3)], means

    (without, loss), (mean, other) = losses(agent, acting, rollout)
    log_std, new_std = (each.policy.spread.log_std for each in (acting, agent))
    kl = new_std - log_std + (np.exp(2 * log_std) + (mean - other) ** 2) / (2 * np.exp(2 * new_std)) - 0.5
    np.testing.assert_allclose(loss - without, 0.3 * kl.sum(axis=1).mean(), rtol=1e-4)


def test_pessimistic_critic_takes_the_larger_error():
    """RLlib's value loss: the larger of the squared errors with and without clipping, sample by sample."""
    update = update_of(STEPS, clip_range_vf=0.1)
    agent, acting = agent_of(update, 0), agent_of(update, 1)
    rollout = rollout_of(update, acting)

    @eqx.filter_jit
    def losses(agent, acting, rollout):
        samples = update.samples(acting, rollout, credit_of(update, acting, rollout))
        of = [loss_of(update, agent, acting, samples, vf_coef=vf_coef) for vf_coef in (0.0, 0.7)]
        return of, samples.returns, [each.critic(samples.obs, samples.local) for each in (agent, acting)]

    (without, loss), returns, (value, old) = losses(agent, acting, rollout)
    plain, clipped = (returns - value) ** 2, (returns - (old + np.clip(value - old, -0.1, 0.1))) ** 2
    assert (plain > clipped).any()
    assert (plain < clipped).any()
    np.testing.assert_allclose(loss - without, 0.7 * np.maximum(plain, clipped).mean(), rtol=1e-4)


def test_fragments_have_the_advantages_of_short_rollouts():
    whole, half = (replace(STEPS, gae_steps=steps) for steps in (None, 2))
    update = update_of(half)
    agent = agent_of(update, 0)
    rollout = rollout_of(update, agent)
    parts = [jax.tree.map(lambda x, start=start: x[start : start + 2], rollout) for start in (0, 2)]
    got, other = credit_of(update, agent, rollout), credit_of(update_of(whole), agent, rollout)
    want = [credit_of(update_of(whole), agent, part) for part in parts]
    for name in ("credit", "returns"):
        np.testing.assert_allclose(
            getattr(got, name), np.concatenate([getattr(each, name) for each in want]), rtol=1e-5, atol=1e-6
        )
    assert np.abs(other.credit - got.credit)[:2].max() > 0.01  # the border matters to the steps before it
    np.testing.assert_allclose(other.credit[2:], got.credit[2:], rtol=1e-5, atol=1e-6)


def test_truncation_is_termination_without_bootstrap():
    update, plain = update_of(replace(STEPS, bootstrap="never")), update_of(Method())
    agent, ended = agent_of(update, 0), np.arange(T * B).reshape(T, B) % 3 == 1
    got = credit_of(update, agent, rollout_of(update, agent, truncated=ended))
    want = credit_of(plain, agent, rollout_of(update, agent, terminated=ended))
    np.testing.assert_allclose(got.credit, want.credit, rtol=1e-6)


def test_credits_are_standardised_over_the_rollout():
    update = update_of(replace(STEPS, normalize_over="rollout"), normalize_advantage=True)
    agent, mask = agent_of(update, 0), np.random.default_rng(2).random((T, B, N)) < 0.7
    credit = np.asarray(credit_of(update, agent, rollout_of(update, agent, factor_mask=mask)).credit)[mask]
    np.testing.assert_allclose([credit.mean(), credit.std()], [0, 1], atol=1e-5)


def test_joint_ratio_has_one_credit():
    update = update_of(RLlib07(ratio="joint", minibatch_of="steps", gae_steps=None), policy="joint")
    agent = agent_of(update, 0)
    assert credit_of(update, agent, rollout_of(update, agent)).credit.shape == (T, B, 1)
    log_ratio, credit = np.float32([[0.1, 0.2, -0.1]]), np.float32([[2.0]])
    loss = update.method.policy_loss(log_ratio, credit, update.config.hyper)
    np.testing.assert_allclose(loss, -2 * 1.2, rtol=1e-5)  # exp(0.2) is clipped


@pytest.mark.parametrize(("kl", "factor"), [(0.021, 1.5), (0.02, 1.0), (0.005, 1.0), (0.004, 0.5)])
def test_coefficient_follows_the_divergence(kl, factor):
    metrics = {"train/kl": jnp.float32(kl), "factor/kl": jnp.full(2, kl / 2)}
    for method in (RLlib07(), RLlib07(ratio="joint", minibatch_of="steps"), RLlib07(kl_of="action")):
        np.testing.assert_allclose(method.next_state(method.init_state(), metrics), 0.2 * factor, rtol=1e-6)
    constant = RLlib07(kl_target=None)
    assert constant.next_state(constant.init_state(), metrics) == jnp.float32(0.2)


def test_method_is_found_by_name():
    method = Config(method="rllib07,kl_target=0.02,gae_steps=none").method
    assert method == RLlib07(kl_target=0.02, gae_steps=None)
