"""The PettingZoo view: that project's own checks, and rewards that are credits."""

import warnings

import numpy as np
import pytest
from factorax_traffic import Traffic

pytestmark = pytest.mark.sumo


@pytest.fixture
def parallel():
    pytest.importorskip("pettingzoo", reason="needs PettingZoo: pip install pettingzoo")
    from factorax_traffic.sumo.parallel import TrafficParallelEnv

    made = []

    def make(*size, **options):
        made.append(TrafficParallelEnv(Traffic(*size, horizon=25), **options))
        return made[-1]

    yield make
    for env in made:
        env.close()


def test_pettingzoos_own_check(parallel):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PettingZoo imports is its own matter
        from pettingzoo.test import parallel_api_test

    parallel_api_test(parallel(2, 2), num_cycles=60)


def test_rewards_are_credits_and_the_end_is_everyones(parallel):
    env = parallel(2, 3, network="incident")
    seen, _ = env.reset(seed=0)
    assert list(seen) == env.agents == [f"center{k}" for k in range(6)]
    rng = np.random.default_rng(0)
    for t in range(25):
        seen, rewards, terminated, truncated, infos = env.step({a: int(rng.integers(2)) for a in env.agents})
        psi = infos["center0"]["vector_reward"].astype(float)
        for k, agent in enumerate(seen):
            assert seen[agent].shape == (42,)
            e = [*env.joint.grid.incoming[k], *env.joint.grid.outgoing[k]]
            assert rewards[agent] == pytest.approx(psi[e].sum(), abs=1e-9)
        assert set(truncated.values()) == {t == 24}
        assert not any(terminated.values())
    assert env.agents == []


def test_the_complete_network_gives_all_the_global_reward(parallel):
    env = parallel(1, 2, network="complete")
    env.reset(seed=0)
    for _ in range(5):
        _, rewards, _, _, infos = env.step({"center0": 0, "center1": 1})
        assert rewards["center0"] == rewards["center1"] == pytest.approx(infos["center0"]["global_reward"], rel=1e-5)
