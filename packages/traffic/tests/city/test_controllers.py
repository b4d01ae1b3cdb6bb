"""Reference controllers: their order, and what they choose."""

from functools import partial

import numpy as np
import pytest
from factorax_traffic.city import CityEnv, controllers, play

pytestmark = pytest.mark.sumo


@pytest.fixture
def make(network_files):
    return partial(CityEnv, *network_files, horizon=300)


def test_cars_give_themselves_green(make):
    delays = {
        name: play(make, name, 0).delay for name in ("fixed", "greedy", "max-pressure", "actuated", "delay-based")
    }
    assert delays["greedy"] < delays["fixed"]
    assert delays["max-pressure"] < delays["fixed"]
    assert delays["actuated"] < delays["fixed"]
    assert 0 < delays["delay-based"] < 2 * delays["fixed"]


def test_the_phase_with_most_cars(make):
    env = make()
    obs, _ = env.reset(seed=0)
    act = controllers.greedy(env)
    for _ in range(10):
        chosen = act(obs)
        present = env.local(obs).reshape(*env.view.shape[:2], -1)[..., 0]
        assert np.allclose(present[np.arange(3), chosen], present.max(axis=1))
        obs, *_ = env.step(chosen)
    env.close()


def test_a_name_that_nobody_has(make):
    with pytest.raises(ValueError, match="controller: got 'clever', want one of fixed"):
        play(make, "clever")
