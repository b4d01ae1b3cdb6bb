"""COMA and difference rewards, with the reasons that the paper does not give, by exact enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sample_problems

import factorax as fx
from factorax.gradients import coma, difference_returns, factored, score_matrix


def coma_targets(problem, sizes):
    """A_i of every joint action of a problem whose Q is Σⱼ λⱼ ψⱼ."""
    total = np.asarray(problem.psi @ problem.lam).reshape(sizes)
    actions = np.asarray(problem.actions)
    q = np.stack([[np.moveaxis(total, i, -1)[tuple(np.delete(a, i))] for i in range(len(sizes))] for a in actions])
    pi = jax.nn.softmax(problem.params, axis=-1)
    return coma(q, np.broadcast_to(pi, q.shape), actions)


@pytest.mark.slow
def test_coma_is_unbiased_although_the_identity_is_not_its_influence_matrix():
    problem = sample_problems.finite(sample_problems.THREE)
    advantage = coma_targets(problem, (3, 3, 3))
    z = score_matrix(problem.log_prob, problem.params, actions=problem.actions)
    cross = jnp.einsum("s,sti,sj->tij", problem.probabilities, z, advantage)
    np.testing.assert_allclose(cross * (1 - jnp.eye(3)), 0, atol=1e-12)  # E[zᵢ Aⱼ] = 0 for i ≠ j …
    table = np.asarray(advantage).reshape(3, 3, 3, 3)
    assert np.ptp(table[..., 1], axis=0).max() > 0.1  # … although A₂ depends on a₁
    gradient = factored(
        problem.log_prob,
        problem.params,
        actions=problem.actions,
        psi=advantage * (problem.probabilities * 27)[:, None],
        net=fx.InfluenceNetwork.identity(3),
    )
    np.testing.assert_allclose(gradient, jax.grad(problem.objective)(problem.params), atol=1e-10)


def two_step_problem():
    """Two factors, two choices, two steps; the second reward depends on what was done before: r₂(s₂, a₂), s₂ = a₁."""
    rng = np.random.default_rng(0)
    r1, r2 = rng.normal(size=(2, 2)), rng.normal(size=(2, 2, 2, 2))
    params = jnp.asarray(rng.normal(size=(5, 2, 2)))  # logits for the first state and four second states

    def trajectories():
        for first in itertools.product(range(2), repeat=2):
            for second in itertools.product(range(2), repeat=2):
                yield np.array(first), np.array(second)

    return r1, r2, params, list(trajectories())


def objective(params, r1, r2, trajectories, keep_later=True):
    pi = jax.nn.softmax(params, axis=-1)
    total = 0.0
    for first, second in trajectories:
        state = 1 + 2 * first[0] + first[1]
        p = pi[0, 0, first[0]] * pi[0, 1, first[1]]
        p_second = pi[state, 0, second[0]] * pi[state, 1, second[1]]
        # Without what comes later, the state of the second step is held fixed: its probability has no gradient.
        total += (p if keep_later else jax.lax.stop_gradient(p)) * p_second * r2[(*first, *second)] + p * p_second * r1[
            tuple(first)
        ]
    return total


def expected_gradient(published):
    r1, r2, params, trajectories = two_step_problem()
    pi = np.asarray(jax.nn.softmax(params, axis=-1))

    def log_prob(params, state, action):
        return jax.nn.log_softmax(params[state], axis=-1)[jnp.arange(2), action]

    gradient = jnp.zeros_like(params)
    for first, second in trajectories:
        state = 1 + 2 * first[0] + first[1]
        p = np.prod([pi[0, i, first[i]] * pi[state, i, second[i]] for i in range(2)])
        rewards = np.array([r1[tuple(first)], r2[(*first, *second)]])
        now, then = r1, r2[tuple(first)]
        counterfactual = np.array(
            [
                [pi[s, 0] @ table[:, a[1]], pi[s, 1] @ table[a[0]]]
                for s, table, a in ((0, now, first), (state, then, second))
            ]
        )
        psi = difference_returns(rewards, counterfactual, 1.0, published=published)
        one = factored(
            log_prob,
            params,
            actions=np.stack([first, second]),
            obs=np.array([0, state]),
            psi=psi,
            net=fx.InfluenceNetwork.identity(2),
        )
        gradient = gradient + 2 * p * one  # a sum over the two steps, not their mean
    return gradient, params, (r1, r2, trajectories)


@pytest.mark.slow
def test_subtracting_at_the_first_step_alone_is_unbiased():
    gradient, params, problem = expected_gradient(published=False)
    np.testing.assert_allclose(gradient, jax.grad(objective)(params, *problem), atol=1e-10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:published=True")
def test_as_published_the_gradient_is_myopic():
    gradient, params, problem = expected_gradient(published=True)
    myopic = jax.grad(objective)(params, *problem, keep_later=False)
    np.testing.assert_allclose(gradient, myopic, atol=1e-10)
    assert np.abs(gradient - jax.grad(objective)(params, *problem)).max() > 0.01


def test_the_published_form_warns():
    with pytest.warns(UserWarning, match="myopic"):
        difference_returns(jnp.ones(3), jnp.ones((3, 2)), 0.9, published=True)


def test_discounting():
    got = difference_returns(jnp.array([1.0, 2.0, 4.0]), jnp.array([[0.5], [0.0], [1.0]]), 0.5)
    np.testing.assert_allclose(got, [[2.5], [4.0], [3.0]])


def test_bad_shapes_are_named():
    with pytest.raises(ValueError, match="q, probabilities, actions: got shapes"):
        coma(jnp.ones((2, 3)), jnp.ones((2, 3)), jnp.ones(3, dtype=int))
    with pytest.raises(ValueError, match="counterfactual: got shape"):
        difference_returns(jnp.ones(3), jnp.ones(3), 0.9)
