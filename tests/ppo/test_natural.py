"""The natural step against the solution of its linear system."""

import equinox as eqx
import jax
import numpy as np
import pytest

from factorax.ppo import Config, Learner
from factorax.problems import chain
from ppo.helping import rollout, samples_of

SETTINGS = {"n_envs": 8, "n_steps": 8, "batch_size": 64, "n_epochs": 2, "hidden": (), "policy": "joint"}
KL, DAMPING = 1e-4, 0.1


@pytest.mark.slow
def test_a_natural_step_solves_its_equation():
    """The step is along (F + damping)⁻¹ g, with F written out as the second derivative of the divergence."""
    config = Config(**SETTINGS, critic="target", method=f"natural,kl={KL},damping={DAMPING}", vf_coef=0.0)
    learner = Learner.of(chain(3, horizon=8), config=config)
    rule, state = learner.rule, learner.init()
    batch = rollout(learner, state)
    samples = eqx.filter_jit(samples_of)(rule, state.agent, batch)
    params, rest = eqx.partition(state.agent.policy, eqx.is_array)
    flat, unflatten = jax.flatten_util.ravel_pytree(params)
    old = samples.parameters, state.agent.policy.spread
    credit = (samples.credit - samples.credit.mean()) / samples.credit.std(ddof=1)

    def outputs(x):
        return eqx.combine(unflatten(x), rest)(samples.obs, samples.local)

    def kl(x):
        return rule.divergence(old, outputs(x)).sum(axis=-1).mean()

    def loss(x):
        return -(rule.log_prob(outputs(x), samples.action) * credit).sum(axis=-1).mean()

    g, hessian = jax.jit(lambda x: (jax.grad(loss)(x), jax.hessian(kl)(x)))(flat)
    F = np.asarray(hessian, float)
    x = -np.linalg.solve(F + DAMPING * np.eye(len(F)), np.asarray(g, float))
    want = x * np.sqrt(2 * 3 * KL / (x @ F @ x))
    new, *_ = eqx.filter_jit(rule.learn)(state.agent, state.optimiser, batch, key=jax.random.key(0))
    got = np.asarray(jax.flatten_util.ravel_pytree(eqx.filter(new.policy, eqx.is_array))[0] - flat, float)
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-5)
    np.testing.assert_allclose(jax.jit(kl)(flat + got), 3 * KL, rtol=0.05)  # its length


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"architecture": "gru,sequence_length=4", "hidden": (8,)}], ids=str)
def test_passes_after_the_step_train_the_critic_alone(settings):
    """Also if critic and policy share layers, as they do with a memory; there these layers stay as they are."""
    config = Config(**SETTINGS | {"policy": "shared"} | settings, method="natural")
    learner = Learner.of(chain(3, horizon=8), config=config)
    state = learner.init()

    @eqx.filter_jit
    def updates(state):
        """The agent after the step of the policy, and after the update."""
        rule = learner.rule
        after, transitions = learner.collect(state)
        batch, *_ = learner.rollout(after, transitions)
        samples = samples_of(rule, state.agent, batch)
        learned = state.agent, state.optimiser
        (stepped, _), _ = rule.method.minibatches(rule, learned, samples, state.hyper, state.key)
        return stepped, learner.update(state)[0].agent

    stepped, new = updates(state)
    for a, b in zip(*(jax.tree.leaves(agent.policy) for agent in (stepped, new)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    for a, b in zip(*(jax.tree.leaves(agent.critic) for agent in (stepped, new)), strict=True):
        assert not a.size or not np.array_equal(a, b)
