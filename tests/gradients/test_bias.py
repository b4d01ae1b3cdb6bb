"""The bias of a network against another: its value, its estimate, and the batch size up to which it pays."""

import jax
import numpy as np
import pytest
import sample_problems

import factorax as fx
from factorax.gradients import bias_report, score_matrix


def without_edge(problem, i, j):
    matrix = problem.net.to_dense()
    matrix[i, j] = False
    return fx.InfluenceNetwork(matrix)


def exact(problem, net, **changes):
    return bias_report(problem.log_prob, problem.params, net=net, reference=problem.net, **(problem.samples | changes))


@pytest.mark.slow
@pytest.mark.parametrize("share", [False, True], ids=["independent", "shared"])
def test_the_bias_is_the_score_times_the_missing_target(share):
    problem = sample_problems.finite(sample_problems.CHAIN, share=share)
    report = exact(problem, without_edge(problem, 0, 1))
    z = np.asarray(score_matrix(problem.log_prob, problem.params, actions=problem.actions))[:, :, 0]
    bias = -(problem.probabilities * problem.lam[1] * problem.psi[:, 1]) @ z
    np.testing.assert_allclose(report.squared.value, [(bias**2).sum(), 0, 0], atol=1e-12)
    np.testing.assert_allclose(report.total_squared.value, (bias**2).sum(), atol=1e-12)
    assert (bias**2).sum() > 1e-4


@pytest.mark.slow
def test_true_and_complete_networks_have_none_against_each_other():
    problem = sample_problems.finite(sample_problems.CHAIN, share=True)
    complete = fx.InfluenceNetwork.complete(3, 3)
    noisier = exact(problem, complete)
    np.testing.assert_allclose(noisier.squared.value, 0, atol=1e-20)
    better = noisier.variance.value > noisier.reference_variance.value
    assert noisier.break_even == (0 if better else float("inf"))
    reverse = exact(problem._replace(net=complete), problem.net)
    assert reverse.break_even == (float("inf") if better else 0)


def test_break_even_is_where_the_errors_cross():
    problem = sample_problems.finite(sample_problems.CHAIN, seed=4)
    report = bias_report(
        problem.log_prob,
        problem.params,
        net=without_edge(problem, 0, 1),
        reference=fx.InfluenceNetwork.complete(3, 3),
        **problem.samples,
    )
    size = report.break_even
    assert 0 < size < float("inf")
    np.testing.assert_allclose(report.mse(size), report.reference_mse(size), rtol=1e-10)
    assert report.mse(0.9 * size) < report.reference_mse(0.9 * size)
    assert report.mse(1.1 * size) > report.reference_mse(1.1 * size)


@pytest.mark.slow
def test_sampled_bias_is_unbiased_with_the_noise_taken_off():
    """The mean of 100 small batches within 4 standard errors of the truth, where the plain square would be far off."""
    problem = sample_problems.finite(sample_problems.CHAIN, share=True)
    net = without_edge(problem, 0, 1)
    truth, size = exact(problem, net).total_squared.value, 50
    rows = jax.random.choice(jax.random.key(0), len(problem.actions), (100, size), p=problem.probabilities)
    runs = [
        exact(problem, net, actions=problem.actions[r], psi=problem.psi[r], probabilities=None).total_squared.value
        for r in rows
    ]
    error = np.std(runs, ddof=1) / np.sqrt(len(runs))
    assert abs(np.mean(runs) - truth) < 4 * error


def test_the_report_can_be_read():
    problem = sample_problems.finite(sample_problems.CHAIN)
    text = str(exact(problem, without_edge(problem, 0, 1)))
    assert text.splitlines()[1].split()[0] == "a1"
    assert "up to a batch of" in text


def test_networks_of_different_shape():
    problem = sample_problems.finite(sample_problems.CHAIN)
    with pytest.raises(ValueError, match=r"reference: got shape \(3, 3\), want \(3, 4\)"):
        exact(problem, fx.InfluenceNetwork.complete(3, 4))
