"""Controllers in NumPy and in JAX."""

import jax
import numpy as np
import pytest
from factorax_traffic import Grid
from factorax_traffic.controllers import actuated, gap_out


@pytest.mark.parametrize("make", [gap_out, actuated])
def test_controllers_are_the_same_in_numpy_and_jax(make):
    """And they may be compiled and mapped."""
    grid = Grid(2, 2)
    act, memory = make(grid)
    mapped = jax.jit(jax.vmap(act, in_axes=(0, None, None)))
    seen = np.random.default_rng(0).random((50, 156)).astype(np.float32)
    for t in range(10):
        requests, memories = mapped(seen, t, memory)
        for i, obs in enumerate(seen):
            request, kept = act(obs, t, memory)
            np.testing.assert_array_equal(requests[i], request)
            assert jax.tree.all(jax.tree.map(lambda a, b, i=i: (a[i] == b).all(), memories, kept))
        memory = kept
