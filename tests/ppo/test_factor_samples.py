"""Samples of single factors: their losses and gradients are those of whole steps, and bad settings are named."""

import dataclasses

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.distributions import Clip
from factorax.ppo import Config, Update
from factorax.ppo.advantages import TrainingBatch
from factorax.ppo.agents import NO_MODULES, make_agent
from factorax.ppo.factor_samples import FactorUpdate
from factorax.spec import Spec
from ppo.helping import random_network

T, B, N, LOCAL = 4, 3, 3, 2
NETWORK = fx.InfluenceNetwork([[1, 0], [1, 1], [0, 1]])
SETTINGS = {"n_envs": B, "n_steps": T, "batch_size": T * B, "hidden": (5, 4), "policy": "shared", "critic": "factor"}
SETTINGS |= {"normalize_advantage": False, "kl_coef": 0.3, "max_grad_norm": None}
STEPS = Config(**SETTINGS, identity=0)


def local(obs):
    return obs.reshape(*obs.shape[:-1], N, LOCAL)


def case(space, config, mask=None):
    """A spec, an agent away from the policy that acted, and the samples of a rollout by steps."""
    observations = gym.spaces.Box(-np.inf, np.inf, (N * LOCAL,))
    spec = Spec.of_spaces(observations, space, NETWORK, distribution=Clip(config.std), local=local)

    key, rng = jax.random.key(0), np.random.default_rng(0)
    agent, acted = (random_network(lambda: make_agent(spec, config, NO_MODULES, key, key), seed) for seed in (0, 1))
    obs, next_obs = rng.normal(size=(2, T, B, N * LOCAL)).astype(np.float32)
    sample = eqx.filter_jit(lambda policy, key: spec.components.sample(key, *policy(obs, local(obs))))
    batch = TrainingBatch(
        obs=obs,
        local=local(obs),
        action=sample(acted.policy, key),
        psi=rng.normal(size=(T, B, 2)).astype(np.float32),
        next_obs=next_obs,
        terminated=np.zeros((T, B), bool),
        truncated=np.zeros((T, B), bool),
        factor_mask=mask,
    )
    return spec, agent, acted, jax.device_put(batch)


@pytest.mark.parametrize("identity", [pytest.param(0, marks=pytest.mark.slow), 2], ids=["twins", "embedding"])
@pytest.mark.parametrize("std", [*(pytest.param(x, marks=pytest.mark.slow) for x in ("component", "shared")), "state"])
def test_the_gradient_is_that_of_whole_steps(std, identity):
    """A loss over samples is the mean over factors where that over steps is the sum, except for values."""
    config = dataclasses.replace(STEPS, std=std, identity=identity)
    spec, agent, acted, batch = case(gym.spaces.Box(-1, 1, (N,)), config)
    steps, factors = Update(spec, config), FactorUpdate(spec, dataclasses.replace(config, minibatch_of="factors"))
    samples = eqx.filter_jit(steps.samples)(acted, batch)
    old, kl = acted.policy.spread, np.float32(0.3)
    loss = lambda agent: steps.loss(agent, samples, old, kl, config.hyper._replace(vf_coef=0.5 * N))[0] / N  # noqa: E731
    want, wanted = eqx.filter_jit(eqx.filter_value_and_grad(loss))(agent)

    @eqx.filter_jit
    def by_factors(agent, order):
        minibatches = factors.for_minibatches(agent, samples)
        assert minibatches.size == len(order)
        minibatch = minibatches.take(order)
        value = lambda inside: minibatches.loss(inside, minibatch, old, kl, config.hyper)[0]  # noqa: E731
        got, gradient = eqx.filter_value_and_grad(value)(minibatches.enter(agent))
        return got, minibatches.leave(gradient, agent)

    got, gradient = by_factors(agent, np.random.default_rng(1).permutation(T * B * N))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_choices_and_masks_are_split_too():
    mask = jax.random.bernoulli(jax.random.key(9), 0.6, (T, B, N))
    spec, agent, acted, batch = case(gym.spaces.MultiDiscrete([3] * N), STEPS, mask)
    config = dataclasses.replace(STEPS, minibatch_of="factors")
    hyper, zero = config.hyper._replace(vf_coef=0.0), jnp.float32(0.0)

    @eqx.filter_jit
    def losses(agent, acted, batch):
        samples = Update(spec, STEPS).samples(acted, batch)
        minibatches = FactorUpdate(spec, config).for_minibatches(agent, samples)
        rows = minibatches.take(jnp.arange(minibatches.size))
        want = Update(spec, STEPS).loss(agent, samples, acted.policy.spread, zero, hyper)[0] / N
        got = minibatches.loss(minibatches.enter(agent), rows, acted.policy.spread, zero, hyper)[0]
        return samples.factor_mask, rows.factor_mask, rows.component, got, want

    of_steps, of_rows, component, got, want = losses(agent, acted, batch)
    assert of_rows.dtype == bool
    np.testing.assert_array_equal(of_rows.reshape(-1, N), of_steps)
    np.testing.assert_array_equal(component[: N + 1], [0, 1, 2, 0])
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.slow
def test_a_loop_of_minibatches_gives_back_an_agent():
    config = dataclasses.replace(STEPS, minibatch_of="factors", shuffle="rollout", batch_size=5, n_epochs=2)
    spec, agent, _, batch = case(gym.spaces.Box(-1, 1, (N,)), config)
    rule = FactorUpdate(spec, config)
    state = rule.optimiser().init(eqx.filter(agent, eqx.is_inexact_array))
    new, after, *_ = eqx.filter_jit(rule.learn)(agent, state, batch, kl_coef=jnp.float32(0.3), key=jax.random.key(0))
    assert jax.tree.structure(new) == jax.tree.structure(agent)
    assert jax.tree.structure(after) == jax.tree.structure(state)
    count = [int(x) for x in jax.tree.leaves(after) if jnp.issubdtype(x.dtype, jnp.integer)]
    assert count == [2 * (T * B * N // 5)]  # what is left over is dropped


@pytest.mark.parametrize(
    ("space", "settings", "message"),
    [
        (gym.spaces.MultiDiscrete([3, 3, 2]), {}, "actions of several kinds"),
        (gym.spaces.Box(-1, 1, (N,)), {"batch_size": 7}, "want a divisor of n_envs × n_steps × 3 factors = 36"),
        (gym.spaces.Box(-1, 1, (N,)), {"batch_size": 40, "shuffle": "rollout"}, "batch_size: got 40"),
    ],
)
def test_what_does_not_fit_is_named(space, settings, message):
    spec = Spec.of_spaces(gym.spaces.Box(-1, 1, (N * LOCAL,)), space, NETWORK, local=local)
    with pytest.raises(ValueError, match=message):
        FactorUpdate(spec, Config(**SETTINGS | {"minibatch_of": "factors"} | settings))
