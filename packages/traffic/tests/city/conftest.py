"""An episode that several files of tests look at."""

import pytest


@pytest.fixture(scope="module")
def scene(network_files):
    from factorax_traffic.city import CityEnv
    from factorax_traffic.city.scene import record

    env = CityEnv(*network_files, horizon=100)
    recorded = record(env, "greedy", 1, 20)
    assert env.every_second is None
    with pytest.raises(ValueError, match="seconds: got 9, want at least 10, the seconds between decisions"):
        record(env, "greedy", 1, 9)
    env.close()
    return recorded
