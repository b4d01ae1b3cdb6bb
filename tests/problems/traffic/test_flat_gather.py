"""Gathers from flat tables, vectorised over tables, indices and both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.problems.traffic.flat_gather import pick, take


@pytest.mark.parametrize("in_axes", [(0, 0), (-1, -1), (0, None), (None, 0)])
def test_every_table_with_its_own_indices(in_axes):
    draw = np.random.default_rng(0)
    table, index = jnp.asarray(draw.normal(size=(4, 4))), jnp.asarray(draw.integers(0, 4, (4, 3, 4)))
    if in_axes[0] is None:
        table = table[0]
    if in_axes[1] is None:
        index = index[0]
    plain = jax.vmap(lambda table, index: table[index], in_axes)
    np.testing.assert_array_equal(jax.vmap(take, in_axes)(table, index), plain(table, index))
    np.testing.assert_array_equal(jax.jit(jax.vmap(take, in_axes))(table, index), plain(table, index))


def test_vectorised_twice():
    draw = np.random.default_rng(0)
    table, index = jnp.asarray(draw.normal(size=(2, 3, 5))), jnp.asarray(draw.integers(0, 5, (2, 3, 4)))
    np.testing.assert_array_equal(jax.vmap(jax.vmap(take))(table, index), jnp.take_along_axis(table, index, axis=2))


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_entries_of_columns(backend, monkeypatch):
    draw = np.random.default_rng(0)
    table, index = jnp.asarray(draw.normal(size=(2, 5, 3))), jnp.asarray(draw.integers(0, 5, (2, 4, 3)))
    expected = jnp.take_along_axis(table, index, axis=1)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    np.testing.assert_array_equal(jax.vmap(pick)(table, index), expected)
    np.testing.assert_array_equal(jax.vmap(pick)(table, index[:, 0]), expected[:, 0])
