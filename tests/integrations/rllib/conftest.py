"""One Ray for the tests of RLlib, which listens on the loopback alone."""

import os
import warnings
from importlib.util import find_spec

import pytest

os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # read when Ray is imported


@pytest.fixture(scope="session", autouse=True)
def ray():
    if find_spec("ray") is None:
        yield None
        return
    from factorax.rollouts.ray_actors import connect

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        connected = connect("")
    yield connected
    connected.shutdown()
