"""SUMO, where it is installed."""

import importlib.util

import jax
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

    made = []

    def make(rows=3, columns=3, *, program="green", stochastic=False, flow_persist=False, **settings):
        while made:
            made.pop().close()
        traffic = Traffic(rows, columns, **settings)
        made.append(TrafficEnv(traffic, program=program, stochastic=stochastic, flow_persist=flow_persist))
        return made[-1]

    yield make
    while made:
        made.pop().close()


@pytest.fixture(autouse=True, scope="module")
def compiled_in_haste():
    """Programs here run for a moment: XLA's optimisations take longer than they save."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
    jax.clear_caches()  # what was compiled in haste rounds otherwise, and must not serve other tests
