"""What a light sees of each of its phases."""

import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic.city.detectors import Detectors
from factorax_traffic.city.roads import Roads
from factorax_traffic.city.views import PhaseView

pytestmark = pytest.mark.sumo


@pytest.fixture(scope="module")
def view(network_files):
    return PhaseView.of(Detectors(Roads.read(network_files[0])))


def test_numpy_and_jax_see_the_same(view):
    rng = np.random.default_rng(0)
    n, phases, lanes = view.shape
    readings = rng.uniform(size=(n, lanes, view.n_features))
    obs = view.observation(readings, rng.integers(0, 2, n), rng.uniform(0, 60, n))
    assert obs.shape == (view.n_inputs,)
    batch = np.stack([obs, 2 * obs])
    seen = view(batch)
    assert seen.shape == (2, n, phases * view.n_seen)
    assert np.allclose(seen, view(jnp.asarray(batch)), atol=1e-5)
    assert np.allclose(seen[0], view(obs), atol=1e-6)


def test_a_phase_is_described_by_the_lanes_with_green(view):
    n, phases, lanes = view.shape
    readings = np.zeros((n, lanes, view.n_features))
    readings[1, 2, 0] = 0.3
    phase = np.array([0, 1, 0])
    parts = view(view.observation(readings, phase, np.full(n, 30.0))).reshape(n, phases, view.n_seen)
    assert np.allclose(parts[1, :, 0], 0.3 * view.served[1, :, 2])
    assert not parts[[0, 2], :, :-3].any()
    assert np.array_equal(parts[1, :, -3], np.eye(phases)[1])
    assert np.allclose(parts[1, :, -2], 0.5 * np.eye(phases)[1])
    assert np.allclose(parts[..., -1], 0.5)
    assert np.allclose(parts[1, :, 1], np.log1p(5 * 0.3 * view.protected[1, :, 2]), atol=1e-6)
