import jax
import pytest


@pytest.fixture(autouse=True)
def double_precision():
    """Exact enumeration against closed forms to 1e-8 and better wants float64."""
    with jax.enable_x64(True):
        yield
