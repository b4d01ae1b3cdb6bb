"""Networks of one's own: three lights in a row with turns, made by SUMO's netgenerate."""

import numpy as np
import pytest
from factorax_traffic.sumo import OwnTrafficEnv
from gymnasium.utils.env_checker import check_env

import factorax as fx

pytestmark = pytest.mark.sumo


@pytest.fixture
def env(network_files):
    own = OwnTrafficEnv(*network_files, horizon=50)
    yield own
    own.close()


@pytest.mark.filterwarnings("ignore:.*Box.*")
def test_gymnasiums_own_check_and_ours(env, network_files):
    check_env(env, skip_render_check=True)
    env.close()
    fx.check_problem(lambda: OwnTrafficEnv(*network_files, horizon=50), steps=60)


def test_green_lasts_until_it_is_asked_and_yellow_as_the_programme_says(env):
    env.reset(seed=0)
    light = env.streets.lights.index("B0")
    shown = env.streets.phases[light]
    request = np.zeros(3, int)
    phases = []
    for t in range(100):
        request[light] = t == 60
        env.step(request)
        phases.append(env.phase[light])
    assert set(phases[:60]) == {0}
    assert "y" in shown[phases[60]]
    assert phases[-1] != 0
    assert "y" not in shown[phases[-1]]


def test_targets_add_up_and_all_cars_belong_to_a_street(env):
    env.reset(seed=0)
    for t in range(50):
        _, reward, terminated, truncated, info = env.step(np.full(3, t % 10 == 0))
        assert reward == pytest.approx(info["vector_reward"].sum(), rel=1e-5)
        assert info["cars"] == len(env.simulation.cars()[0])
        assert not terminated
    assert truncated
    assert info["cars"] > 3
