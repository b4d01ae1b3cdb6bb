"""Traffic lights: what they reach while the others repeat what they did is their row and their column, all of it."""

import jax
import jax.numpy as jnp
import pytest
from factorax_traffic import lanes

from factorax.discovery import intervene


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "trials"),
    [pytest.param((3, 3), 5, id="3x3"), pytest.param((2, 6), 60, id="2x6", marks=pytest.mark.nightly)],
)
def test_the_open_loop_network_is_the_corridor(size, trials):
    """In double precision: upstream, by one car after the other, influence fades below what 32 bits can hold."""
    with jax.enable_x64(True):
        problem = lanes(*size, norm="fixed", dtype=jnp.float64)
        found = intervene(problem, horizon=400, trials=trials, one_step=False)
    assert found.network() == problem.influence("corridor")
