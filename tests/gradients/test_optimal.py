"""Optimal baselines: Wu et al.'s against its formula, least squares against brute-force minimisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sample_problems
from scipy.optimize import minimize

import factorax as fx
from factorax.gradients import (
    gradient_variance,
    least_squares_baseline,
    score_matrix,
    tabular_features,
    wu_baseline,
)

SIZES = (2, 2, 2)


def setting(share=True, seed=0, matrix=sample_problems.CHAIN, net=None):
    problem = sample_problems.finite(matrix, sizes=SIZES, seed=seed, share=share)
    arguments = problem.samples | {
        "net": net or problem.net,
        "features": tabular_features(problem.actions, SIZES),
    }
    return problem, arguments


def total_variance(problem, credits, psi_probabilities=None):
    return gradient_variance(
        problem.log_prob,
        problem.params,
        actions=problem.actions,
        credits=credits,
        probabilities=problem.probabilities if psi_probabilities is None else psi_probabilities,
    )[1].value


@pytest.mark.slow
def test_wu_baseline_is_its_formula():
    problem, arguments = setting(share=False)
    got = wu_baseline(problem.log_prob, problem.params, **arguments).values
    z = np.asarray(score_matrix(problem.log_prob, problem.params, actions=problem.actions))
    norm = (z**2).sum(axis=1)
    k, p, actions = fx.credit(problem.net, problem.psi, problem.lam), problem.probabilities, np.asarray(problem.actions)
    for i in range(3):
        for s in range(len(actions)):
            same = (np.delete(actions, i, 1) == np.delete(actions, i, 1)[s]).all(axis=1)
            want = (p * norm[:, i] * k[:, i])[same].sum() / p[same].sum() / (p @ norm[:, i])
            np.testing.assert_allclose(got[s, i], want, atol=1e-6)


@pytest.mark.slow
def test_neither_baseline_biases_the_gradient():
    problem, arguments = setting()
    z = score_matrix(problem.log_prob, problem.params, actions=problem.actions)
    for fit in (wu_baseline, least_squares_baseline):
        b = fit(problem.log_prob, problem.params, **arguments).values
        np.testing.assert_allclose(jnp.einsum("s,sti,si->t", problem.probabilities, z, b), 0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_least_squares_reaches_the_minimum_that_a_numerical_search_finds(seed):
    problem, arguments = setting(seed=seed)
    phi, k = np.asarray(arguments["features"]), fx.credit(problem.net, problem.psi, problem.lam)
    z = np.asarray(score_matrix(problem.log_prob, problem.params, actions=problem.actions))

    def variance(w):  # the mean does not depend on w
        g = np.einsum("sti,si->st", z, np.asarray(k) - np.einsum("sif,if->si", phi, w.reshape(3, -1)))
        return float(problem.probabilities @ (g**2).sum(axis=1) - ((problem.probabilities @ g) ** 2).sum())

    found = minimize(variance, np.zeros(12), method="BFGS", options={"gtol": 1e-9})
    b = least_squares_baseline(problem.log_prob, problem.params, **arguments).values
    np.testing.assert_allclose(total_variance(problem, k - b), found.fun, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_shared_parameters_are_where_it_beats_wu():
    for share in (True, False):
        problem, arguments = setting(share=share)
        k = fx.credit(problem.net, problem.psi, problem.lam)
        wu = total_variance(problem, k - wu_baseline(problem.log_prob, problem.params, **arguments).values)
        best = total_variance(problem, k - least_squares_baseline(problem.log_prob, problem.params, **arguments).values)
        plain = total_variance(problem, k)
        assert best <= wu + 1e-7
        assert wu < plain
        if share:
            assert best < 0.9 * wu
        else:
            np.testing.assert_allclose(best, wu, rtol=1e-5)


@pytest.mark.slow
def test_factor_baselines_remove_noise_that_no_action_dependent_baseline_can():
    """ψⱼ = qⱼ + εⱼ with noise ε: Wu's baseline on ψ keeps the noise of targets that factoring drops."""
    problem, _ = setting(share=False, matrix=sample_problems.DIAGONAL, seed=3)
    scale = np.sqrt([1.0, 4.0, 9.0])
    signs = np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, -1).T  # every noise εⱼ = ± its standard deviation
    psi = (problem.psi[:, None, :] + signs * scale).reshape(-1, 3)
    noisy = problem._replace(
        actions=jnp.repeat(problem.actions, 8, axis=0),
        probabilities=jnp.repeat(problem.probabilities, 8) / 8,
        psi=psi,
        lam=jnp.ones(3),
    )
    features = tabular_features(noisy.actions, SIZES)
    complete = fx.InfluenceNetwork.complete(3, 3)
    variance = {}
    for name, net in (("vanilla", complete), ("factored", noisy.net)):
        k = fx.credit(net, noisy.psi)
        variance[name] = total_variance(noisy, k)
        b = wu_baseline(noisy.log_prob, noisy.params, net=net, features=features, **noisy.samples).values
        variance[f"{name} + wu"] = total_variance(noisy, k - b)
    assert variance["factored + wu"] < variance["factored"]
    assert variance["factored"] < variance["vanilla"]
    assert variance["factored + wu"] < variance["vanilla + wu"]
    # What remains beside the noise of its own target is nought: two choices are matched by one number.
    z = score_matrix(noisy.log_prob, noisy.params, actions=noisy.actions)
    own_noise = float((noisy.probabilities @ (z**2).sum(axis=1)) @ scale**2)
    assert variance["factored + wu"] >= own_noise - 1e-9
    assert variance["vanilla + wu"] >= own_noise * (1 + 4 + 9) / 9 - 1e-9


@pytest.mark.slow
def test_a_fitted_baseline_is_for_other_samples():
    problem, arguments = setting()
    fitted = least_squares_baseline(problem.log_prob, problem.params, **arguments)
    np.testing.assert_allclose(fitted(arguments["features"][:3]), fitted.values[:3], atol=1e-12)


def test_features_of_the_wrong_shape():
    problem, arguments = setting()
    with pytest.raises(ValueError, match=r"features: got shape \(8, 4\), want \(8, 3, n_features\)"):
        least_squares_baseline(problem.log_prob, problem.params, **(arguments | {"features": jnp.zeros((8, 4))}))
    with pytest.raises(ValueError, match=r"actions: got shape \(8, 3\), want \(samples, 2\)"):
        tabular_features(problem.actions, (2, 2))
    assert jax.numpy.all(tabular_features(problem.actions, SIZES).sum(axis=2) == 1)
