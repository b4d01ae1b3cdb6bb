"""The policy in NumPy is the policy in JAX: its parameters, its distribution, whatever stands beside it."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rollouts.environments import Drift
from rollouts.helping import made, parameters, plan_of

from factorax import Factorisation, InfluenceNetwork
from factorax.learning import Config, Learner
from factorax.learning.normalising import Running
from factorax.rollouts.actor import TILE, Actor

SMALL = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "hidden": (16, 16)}


def learner_of(space="mixed", policy="joint", **settings):
    learner = Learner.of(lambda: Drift(space), config=Config(policy=policy, **SMALL, **settings))
    state = learner.init(3)
    agent = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(jax.random.key(x.size), x.shape), state.agent)
    seen = Running(jnp.float32(9), jnp.linspace(-1, 1, 5), jnp.linspace(0.5, 2, 5))
    return learner, state._replace(agent=agent, obs=seen)


def actor_of(learner):
    local = None if learner.config.policy == "joint" else learner.local
    return Actor(learner.space.plain(), learner.config.policy, learner.factors, local)


@pytest.mark.parametrize(
    ("space", "policy", "settings"),
    [
        ("categorical", "joint", {}),
        ("gaussian", "joint", {"normalise_obs": True, "squash": True}),
        ("mixed", "shared", {"normalise_obs": True}),
        ("bernoulli", "shared", {}),
        ("mixed", "independent", {}),
    ],
)
def test_log_probabilities_are_those_of_the_learner(space, policy, settings):
    learner, state = learner_of(space, policy, **settings)
    obs = np.random.default_rng(0).normal(size=(11, 5)).astype(np.float32) * 3
    actor, parameters = actor_of(learner), learner.iteration(state).parameters
    ours = actor.network(parameters, len(obs))(obs)
    seen = learner._normalised(state.obs, obs)
    theirs, spread = state.agent.policy(seen, learner.see(seen))
    action = learner.act(state, jax.random.key(0), obs)
    np.testing.assert_allclose(
        learner.space.log_prob(jnp.asarray(ours), spread, action),
        want := learner.space.log_prob(theirs, spread, action),
        atol=1e-5,
    )
    np.testing.assert_allclose(actor.log_prob(parameters, ours, np.asarray(action)), want, atol=1e-5)


@pytest.mark.parametrize("policy", ["joint", "shared", "independent"])
def test_a_row_is_the_same_beside_whatever_it_stands(policy):
    """Bit for bit, in any part of a long row, and where BLAS would use several threads."""
    for hidden, size in ((8, 5), (400, 3000)):
        plan = plan_of(made(Drift, size=size), policy)
        actor = replace(plan.actor, local=Drift.local)
        given = parameters(plan, 0, hidden)
        obs = np.random.default_rng(0).normal(size=(3 * TILE + 1, size)).astype(np.float32)
        whole = actor.network(given, len(obs))(obs)
        for first, end in ((0, 1), (1, 2), (3, 12), (7, 9), (8, 16), (20, 25)):
            part = actor.network(given, end - first, first)(obs[first:end])
            np.testing.assert_array_equal(part, whole[first:end])


def test_actions_have_the_distribution_of_the_policy():
    """Frequencies of choices within five standard errors; of Gaussians mean and deviation."""
    learner, state = learner_of("mixed")
    parameters, actor = learner.iteration(state).parameters, actor_of(learner)
    obs = np.float32([[0.5, -1.0, 0.3, 2.0, 0.0]])
    N = 40_000
    noise = actor.draw(np.random.default_rng(0), parameters, N)
    out = actor.network(parameters, len(obs))(obs)
    drawn = actor.choose(out + noise)
    logits = jax.nn.softmax(out[0, 0])
    for choice in range(3):
        p = float(logits[choice])
        assert abs((drawn[:, 0] == choice).mean() - p) < 5 * np.sqrt(p * (1 - p) / N)
    p = float(jax.nn.sigmoid(out[0, 2, 0]))
    assert abs(drawn[:, 2].mean() - p) < 5 * np.sqrt(p * (1 - p) / N)
    deviation = float(np.exp(parameters.log_std[1]))
    assert abs(drawn[:, 1].mean() - out[0, 1, 0]) < 5 * deviation / np.sqrt(N)
    assert abs(drawn[:, 1].std() / deviation - 1) < 5 / np.sqrt(2 * N)


def test_a_covariance_within_a_factor():
    net = InfluenceNetwork.complete(3, 3).factor(Factorisation([[0, 2], [1]], 3))
    learner = Learner.of(lambda: Drift("gaussian"), net, Config(covariance="full", **SMALL))
    state = learner.init(0)
    mixing = state.agent.policy.spread.mixing.at[0, 1, 0].set(0.8)
    spread = state.agent.policy.spread._replace(mixing=mixing, log_std=jnp.float32([0.1, -0.4, 0.2]))
    whole = jax.tree.map(lambda x: x, state.agent.policy)
    policy = type(whole)(whole.net, spread)
    state = state._replace(agent=type(state.agent)(policy, state.agent.critic))
    actor, parameters = actor_of(learner), learner.iteration(state).parameters
    drawn = actor.draw(np.random.default_rng(0), parameters, 50_000)[..., 0]
    theirs = learner.space.sample(jax.random.key(0), jnp.zeros((50_000, 3, 1)), spread)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(np.asarray(theirs).T), atol=0.06)
    ours, want = (
        actor.log_prob(parameters, np.zeros((9, 3, 1)), drawn[:9]),
        learner.space.log_prob(jnp.zeros((9, 3, 1)), spread, drawn[:9]),
    )
    np.testing.assert_allclose(ours, want, atol=1e-5)
    assert abs(np.cov(drawn.T)[0, 1]) < 0.03 < np.cov(drawn.T)[0, 2]
