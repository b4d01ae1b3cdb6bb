"""Discovery from data by any method: error rates over many repetitions, effects of the state, delays, bad input."""

import gymnasium as gym
import numpy as np
import pytest
from discovery.data_cases import METHODS, bandit
from scipy import stats

import factorax as fx
from factorax.discovery import Batch, collect, dependence_test, score_test
from factorax.problems import chain, contextual_bandit


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_false_discoveries_are_as_rare_as_promised(method):
    """No edges at all in 200 repetitions, then a third of them: at most 5 %, with three standard errors."""
    test = METHODS[method]
    any_found = [test(bandit(np.zeros((6, 6)), 200, seed)).found(0.05).any() for seed in range(200)]
    assert np.mean(any_found) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    truth = np.zeros((6, 6))
    truth[:2] = np.eye(6)[:2]
    shares, found = [], 0
    for seed in range(200):
        edges = test(bandit(truth, 400, seed)).found(0.05)
        shares.append((edges & (truth == 0)).sum() / max(edges.sum(), 1))
        found += (edges & (truth == 1)).sum()
    assert np.mean(shares) <= 0.05 + 3 * np.std(shares) / np.sqrt(200)
    assert found > 0.5 * 2 * 200


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_p_values_of_nulls_are_uniform(method):
    p = np.concatenate([METHODS[method](bandit(np.zeros((5, 4)), 150, s)).p_value.ravel() for s in range(60)])
    assert stats.kstest(p, "uniform").pvalue > 1e-3


@pytest.mark.slow
def test_an_effect_that_changes_sign_with_the_state():
    problem = contextual_bandit(5)
    for method in ("score", "dependence"):
        found = fx.discover(problem, method, samples=3000)
        assert found.network() == problem.network
        assert found.kind == "one-step"
    batch = collect(problem, samples=3000)
    assert not score_test(Batch(batch.scores[..., 0], batch.psi)).found(0.01).any()  # on average over states: nothing


@pytest.mark.slow
def test_delays_are_found_in_returns_alone():
    problem = chain(4, delay=2)
    assert not fx.discover(problem, "dependence", samples=4000, horizon=1).found(0.001).any()
    found = fx.discover(problem, "dependence", samples=4000, horizon=3)
    assert found.kind == "return"
    assert found.network(0.001) == problem.network


def test_constant_data_is_named_and_skipped():
    batch = bandit(np.eye(3), 100)
    batch.scores[:, 1], batch.psi[:, 2] = 0.0, 7.0
    for test in METHODS.values():
        found = test(batch)
        assert np.isnan(found.p_value[1]).all()
        assert np.isnan(found.p_value[:, 2]).all()
        assert "skipped: action 'a2' is constant" in found.notes
        assert "skipped: target 'psi3' is constant" in found.notes


def test_errors():
    batch = bandit(np.eye(2), 50)
    broken = Batch(batch.scores, np.where(np.arange(100).reshape(50, 2) == 7, np.nan, batch.psi))
    with pytest.raises(ValueError, match="psi: 1 entry is not finite, the first at sample 3, column 1"):
        score_test(broken)
    with pytest.raises(ValueError, match="psi: got 5 samples, want at least 8"):
        score_test(Batch(batch.scores[:5], batch.psi[:5]))
    with pytest.raises(ValueError, match=r"scores, psi: got shapes \(50, 2\) and \(49, 2\)"):
        score_test(Batch(batch.scores, batch.psi[1:]))
    with pytest.raises(ValueError, match=r"uniforms: got None, want F\(a\|s\), the actions through their distribution"):
        dependence_test(Batch(batch.scores, batch.psi))
    with pytest.raises(ValueError, match="method: got 'magic', want 'interventional', 'score'"):
        fx.discover(batch, "magic")
    with pytest.raises(TypeError, match="problem: got a Batch, which cannot be replayed"):
        fx.discover(batch)
    with pytest.raises(ValueError, match="has no network, which defines the number of targets"):
        collect(lambda: gym.make("CartPole-v1"))
