"""A policy that is not a product over factors is found out, and told so."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sample_problems

import factorax as fx
from factorax.gradients import (
    ProductFormError,
    check_product_form,
    factored,
    natural,
    score_matrix,
    vanilla,
)

NET = fx.InfluenceNetwork.identity(4)
ACTIONS = np.random.default_rng(0).normal(size=(6, 4))


@jax.jit
def product(mu, obs, a):
    return jax.scipy.stats.norm.logpdf(a, mu, 1.0)


@jax.jit
def autoregressive(mu, obs, a):
    """πᵢ(aᵢ | aᵢ₋₁): n log-probabilities, but not of independent actions."""
    before = jnp.concatenate([jnp.zeros(1), a[:-1]])
    return jax.scipy.stats.norm.logpdf(a, mu + 0.3 * before, 1.0)


def one_pair(i, j):
    """A product but for one pair: the i-th mean follows the j-th action."""
    return jax.jit(lambda mu, obs, a: jax.scipy.stats.norm.logpdf(a, mu.at[i].add(0.1 * a[j]), 1.0))


@jax.jit
def correlated(mu, obs, a):
    """A joint log-probability, as of a Gaussian with full covariance."""
    return jax.scipy.stats.multivariate_normal.logpdf(a, mu, jnp.eye(4) + 0.5)


@pytest.mark.parametrize("estimator", [factored, natural])
@pytest.mark.parametrize("policy", [autoregressive, correlated])
def test_estimators_say_that_the_product_form_does_not_hold(estimator, policy):
    with pytest.raises(ProductFormError, match="product form"):
        estimator(policy, np.zeros(4), actions=ACTIONS, psi=ACTIONS, net=NET)


@pytest.mark.parametrize("policy", [autoregressive, correlated])
def test_reports_say_so_too(policy):
    with pytest.raises(ProductFormError, match="product form"):
        fx.variance_report(policy, np.zeros(4), actions=ACTIONS, psi=ACTIONS, net=NET)
    with pytest.raises(ProductFormError, match="product form"):
        fx.gradients.bias_report(policy, np.zeros(4), actions=ACTIONS, psi=ACTIONS, net=NET, reference=NET)


def test_an_enumeration_whose_first_rows_hardly_differ_is_no_hiding_place():
    actions = np.indices((3,) * 6).reshape(6, -1).T
    hidden = one_pair(5, 0)
    with pytest.raises(ProductFormError, match="factor 5"):
        factored(hidden, np.zeros(6), actions=actions, psi=actions, net=fx.InfluenceNetwork.identity(6))


@pytest.mark.slow
def test_the_vanilla_gradient_takes_any_policy():
    joint = vanilla(correlated, np.zeros(4), actions=ACTIONS, psi=ACTIONS)
    score = jnp.linalg.solve(jnp.eye(4) + 0.5, ACTIONS.T).T
    np.testing.assert_allclose(joint, (score * ACTIONS.sum(axis=1, keepdims=True)).mean(axis=0), atol=1e-12)
    assert jnp.isfinite(vanilla(autoregressive, np.zeros(4), actions=ACTIONS, psi=ACTIONS)).all()
    with pytest.raises(ProductFormError, match="changes with the actions of other factors"):
        vanilla(autoregressive, np.zeros(4), actions=ACTIONS, psi=ACTIONS, baseline=ACTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_every_single_dependent_pair_is_found_and_named(n):
    actions = np.random.default_rng(1).normal(size=(4, n))
    check_product_form(product, jnp.zeros(n), actions=actions)
    for i in range(n):
        for j in range(n):
            if i != j:
                with pytest.raises(ProductFormError, match=f"log-probability of factor {i} changes"):
                    check_product_form(one_pair(i, j), jnp.zeros(n), actions=jnp.asarray(actions))


def test_dependence_within_a_factor_is_allowed():
    sigma = fx.Factorisation([[0, 2], [1, 3]], 4)

    def grouped(mu, obs, a):
        covariance = jnp.eye(2) + 0.5
        parts = [
            jax.scipy.stats.multivariate_normal.logpdf(a[jnp.array(g)], mu[jnp.array(g)], covariance)
            for g in sigma.groups
        ]
        return jnp.stack(parts)

    check_product_form(grouped, jnp.zeros(4), actions=jnp.asarray(ACTIONS), factorisation=sigma)
    other = fx.Factorisation([[0, 1], [2, 3]], 4)
    with pytest.raises(ProductFormError, match="changes"):
        check_product_form(grouped, jnp.zeros(4), actions=jnp.asarray(ACTIONS), factorisation=other)
    with pytest.raises(
        ValueError, match="log_prob: got 2 factors for 4 actions; want factorisation= to list the actions"
    ):
        check_product_form(grouped, jnp.zeros(4), actions=jnp.asarray(ACTIONS))


def test_estimators_check_grouped_policies_by_the_factorisation_of_their_network():
    net = fx.InfluenceNetwork.complete(4, 2).factor(fx.Factorisation([[0, 2], [1, 3]], 4))

    @jax.jit
    def grouped(mu, obs, a):
        own = jax.scipy.stats.norm.logpdf(a, mu, 1.0)
        return jnp.stack([own[0] + own[2] + 0.1 * a[0] * a[2], own[1] + own[3]])

    def crossed(mu, obs, a):
        return grouped(mu, obs, a).at[1].add(0.1 * a[0])

    arguments = {"actions": ACTIONS, "psi": ACTIONS[:, :2], "net": net}
    assert np.isfinite(factored(grouped, np.zeros(4), **arguments)).all()
    with pytest.raises(ProductFormError, match="factor 1 changes"):
        factored(crossed, np.zeros(4), **arguments)


def test_tuple_actions_and_observations():
    @jax.jit
    def mixed(params, obs, a):
        return jnp.stack([jax.scipy.stats.norm.logpdf(a[0], obs, 1.0), jnp.where(a[1] == 1, -0.3, -1.35)])

    def crossed(params, obs, a):
        return mixed(params, obs, a).at[0].add(0.1 * a[1])

    actions, obs = (np.arange(4.0), np.array([0, 1, 1, 0])), np.linspace(0, 1, 4)
    check_product_form(mixed, None, actions=actions, obs=obs)
    with pytest.raises(ProductFormError, match="factor 0"):
        check_product_form(crossed, None, actions=actions, obs=obs)
    named = collections.namedtuple("Named", "u v")(*actions)
    keyed = {"u": actions[0], "v": actions[1]}
    check_product_form(lambda p, o, a: mixed(p, o, (a.u, a.v)), None, actions=named, obs=obs)
    check_product_form(lambda p, o, a: mixed(p, o, (a["u"], a["v"])), None, actions=keyed, obs=obs)
    with pytest.raises(ProductFormError, match="factor 0"):
        check_product_form(lambda p, o, a: crossed(p, o, (a["u"], a["v"])), None, actions=keyed, obs=obs)
    with pytest.raises(ValueError, match="at least two"):
        check_product_form(mixed, None, actions=(np.zeros(1), np.zeros(1)), obs=np.zeros(1))


def test_under_jit_the_estimator_works_and_equals_the_eager_one():
    arguments = {"actions": ACTIONS, "psi": ACTIONS, "net": NET}
    compiled = jax.jit(lambda mu: factored(product, mu, **arguments))
    np.testing.assert_allclose(compiled(np.ones(4)), factored(product, np.ones(4), **arguments), atol=1e-12)


@pytest.mark.slow
def test_the_score_matrix_holds_the_gradient_of_each_factor():
    problem = sample_problems.finite(sample_problems.CHAIN, share=True)
    z = score_matrix(problem.log_prob, problem.params, actions=problem.actions[:2])
    for s in range(2):
        for i in range(3):
            one = jax.grad(lambda t: problem.log_prob(t, None, problem.actions[s])[i])(problem.params)  # noqa: B023
            np.testing.assert_allclose(z[s, :, i], one, atol=1e-12)
