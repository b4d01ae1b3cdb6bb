"""Data for discovery: returns by hand, and batches collected with a trained policy or from a host environment."""

import numpy as np
import pytest
from scipy import stats
from small_settings import SMALL

import factorax as fx
from factorax.discovery import collect
from factorax.discovery.batch import returns_of
from factorax.problems import BanditEnv, queues, search_bandit


def test_returns_by_hand():
    psi = np.arange(1.0, 6.0)[:, None, None]
    ended = np.array([0, 1, 0, 0, 0], bool)[:, None]
    total = returns_of(psi, ended, 3, 0.5)
    assert total.ravel().tolist() == [1 + 0.5 * 2, 2, 3 + 0.5 * 4 + 0.25 * 5]


@pytest.mark.slow
def test_data_of_a_trained_policy_and_of_the_host():
    model = fx.FactoredPPO(queues(1, 2), **SMALL)
    batch = collect(queues(1, 2), policy=model, samples=2000, n_envs=20)
    first = batch.scores[..., 0]
    assert np.abs(first.mean(axis=0)).max() < 4 / np.sqrt(2000)
    assert np.abs((first**2).mean(axis=0) - 1).max() < 0.1
    assert min(stats.kstest(u, "uniform").pvalue for u in batch.uniforms.T) > 1e-3
    model = search_bandit(3, k=1, penalty=0.5)
    host = collect(lambda: BanditEnv(model), samples=300, n_envs=2)
    np.testing.assert_allclose(host.psi, model.targets(host.scores), rtol=1e-5, atol=1e-6)
