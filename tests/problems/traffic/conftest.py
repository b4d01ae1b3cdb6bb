"""SUMO, where it is installed."""

import importlib.util

import pytest


def pytest_collection_modifyitems(items):
    if importlib.util.find_spec("libsumo") is None or importlib.util.find_spec("sumo") is None:
        for item in items:
            if item.get_closest_marker("sumo"):
                item.add_marker(pytest.mark.skip(reason="needs SUMO: pip install 'factorax[sumo]'"))


@pytest.fixture
def sumo():
    """Make environments in SUMO; each is closed when the next is made, and at the end."""
    from factorax.problems.traffic import Traffic
    from factorax.problems.traffic.sumo import TrafficEnv

    envs = []

    def make(rows=3, columns=3, *, program="green", stochastic=False, flow_persist=False, **settings):
        while envs:
            envs.pop().close()
        traffic = Traffic(rows, columns, **settings)
        envs.append(TrafficEnv(traffic, program=program, stochastic=stochastic, flow_persist=flow_persist))
        return envs[-1]

    yield make
    while envs:
        envs.pop().close()
