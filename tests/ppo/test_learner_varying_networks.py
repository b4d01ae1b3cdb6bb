"""Training with networks that vary, against the fixed ones they generalise."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.ppo import Config, Learner
from factorax.problems import chain, contextual_bandit
from factorax.structure import LaggedNetwork, StateNetwork

PLAIN = {"n_envs": 4, "n_steps": 20, "batch_size": 40, "n_epochs": 2, "hidden": (8,), "check_network": False}


def after_an_update(problem, network, **settings):
    learner = Learner.of(problem, network, Config(**({"policy": "joint", "critic": "target"} | PLAIN | settings)))
    state, metrics = eqx.filter_jit(learner.update)(learner.init(0))
    return jax.tree.leaves(state.agent.policy), metrics


def all_close(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_without_lags_it_is_the_static_network():
    problem = chain(3)
    settings = {"critic": "none", "method": "a2c", "gae_lambda": 1.0, "batch_size": 80}
    one, _ = after_an_update(problem, problem.network, **settings)
    other, _ = after_an_update(problem, LaggedNetwork({0: problem.network}), **settings)
    all_close(one, other)


@pytest.mark.slow
def test_a_state_network_that_is_always_the_same_is_the_static_one():
    problem = chain(3)
    dense = jnp.asarray(problem.network.to_dense(), jnp.float32)
    always = StateNetwork(lambda obs, info: jnp.broadcast_to(dense, (*obs.shape[:-1], 3, 3)), problem.network)
    one, metrics = after_an_update(problem, problem.network, variance_report=True)
    other, same = after_an_update(problem, always, variance_report=True)
    all_close(one, other)
    assert float(metrics["variance/ratio"]) == pytest.approx(float(same["variance/ratio"]), rel=1e-3)


@pytest.mark.slow
def test_a_factor_mask_reaches_the_function():
    problem = contextual_bandit(3)

    def step(key, state, action):
        return problem.step(key, state, action)._replace(factor_mask=state > 0)

    masked = dataclasses.replace(problem, name="masked", step=step, local=None)
    shapes = []

    def function(obs, info):
        shapes.append(info["factor_mask"].shape)
        return info["factor_mask"][..., None] * jnp.eye(3)

    after_an_update(masked, StateNetwork(function, problem.network))
    assert shapes[0] == (1, 1, 3)  # tried once
    assert set(shapes[1:]) == {(20, 4, 3)}


@pytest.mark.parametrize(
    "network",
    [LaggedNetwork.from_lags([[0, 2], [-1, 0]]), StateNetwork(lambda o, i: jnp.ones((1, 1, 2, 2)), [[1, 1], [1, 1]])],
    ids=["lagged", "state"],
)
@pytest.mark.parametrize("settings", [{"critic": "factor"}, {"method": "coma"}], ids=str)
def test_a_critic_of_credits_is_refused(network, settings):
    with pytest.raises(ValueError, match=r"critic: got .* want .*critic='target'"):
        Learner.of(chain(2), network, Config(**settings, n_envs=4, n_steps=20, batch_size=40))


def test_anything_else_is_no_network():
    with pytest.raises(TypeError, match="StateNetwork"):
        Learner.of(chain(2), 2)


@pytest.mark.slow
def test_a_schedule_moves_from_one_network_to_the_other():
    """Its update is that of the network it has at the step, and training goes through both ends."""
    problem, end = chain(3, delay=2, horizon=6), fx.InfluenceNetwork.complete(3, 3)
    schedule = fx.NetworkSchedule(problem.network, end, steps=24)
    learner = Learner.of(problem, schedule, Config(n_envs=4, n_steps=6, batch_size=12, n_epochs=1, hidden=(8,)))
    state, update = learner.init(), jax.jit(learner.update)
    for net in (problem.network, end):
        fixed = jax.jit(Learner.of(problem, net, learner.config).update)
        (new, got), (_, want) = update(state), fixed(state)
        np.testing.assert_allclose(got["train/loss"], want["train/loss"], rtol=1e-5)
        state = new
