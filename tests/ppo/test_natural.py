"""The natural step against the solution of its linear system."""

import equinox as eqx
import jax
import numpy as np
import pytest

from factorax.ppo import Config, Learner
from factorax.problems import chain
from ppo.helping import rollout

SMALL = {"n_envs": 8, "n_steps": 8, "batch_size": 64, "n_epochs": 2, "hidden": (8,)}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["factored", "vanilla"])
def test_a_natural_step_solves_its_equation(estimator):
    """The step is along (F + damping)⁻¹ g, with F written out as the second derivative of the divergence."""
    learner = Learner.of(
        chain(3, horizon=8),
        config=Config(
            **SMALL | {"hidden": ()},
            policy="joint",
            critic="target",
            objective="natural",
            natural_kl=1e-4,
            estimator=estimator,
            vf_coef=0.0,
        ),
    )
    rule, state = learner.rule, learner.init()
    batch = rollout(learner, state)
    samples = eqx.filter_jit(rule.samples)(state.agent, batch)
    params, rest = eqx.partition(state.agent.policy, eqx.is_array)
    flat, unflatten = jax.flatten_util.ravel_pytree(params)
    old = state.agent.policy.spread

    def policy(x):
        return eqx.combine(unflatten(x), rest)

    def kl(x):
        return rule.divergence(samples, old, policy(x)(samples.obs, None)).sum(axis=-1).mean()

    def loss(x):
        return rule.policy_loss(policy(x)(samples.obs, samples.local), samples, old, 0.0, learner.config.hyper)[0]

    g, hessian = jax.jit(lambda x: (jax.grad(loss)(x), jax.hessian(kl)(x)))(flat)
    F = np.asarray(hessian, float)
    x = -np.linalg.solve(F + learner.config.damping * np.eye(len(F)), np.asarray(g, float))
    want = x * np.sqrt(2 * 3 * 1e-4 / (x @ F @ x))
    new, *_ = eqx.filter_jit(rule.learn)(
        state.agent, state.optimiser, batch, kl_coef=state.kl_coef, key=jax.random.key(0)
    )
    got = np.asarray(jax.flatten_util.ravel_pytree(eqx.filter(new.policy, eqx.is_array))[0] - flat, float)
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=2e-5)
    np.testing.assert_allclose(jax.jit(kl)(flat + got), 3 * 1e-4, rtol=0.05)  # its length
