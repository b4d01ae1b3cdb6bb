"""Gathers from flat tables, vectorised over tables, indices and both."""

import jax
import numpy as np
import pytest
from factorax_traffic.flat_gather import pick, take


@pytest.mark.parametrize("in_axes", [(0, 0), (-1, -1), (0, None), (None, 0)])
def test_every_table_with_its_own_indices(in_axes):
    draw = np.random.default_rng(0)
    table, index = draw.normal(size=(4, 4)).astype(np.float32), draw.integers(0, 4, (4, 3, 4), np.int32)
    if in_axes[0] is None:
        table = table[0]
    if in_axes[1] is None:
        index = index[0]
    one = lambda x, axis, i: x if axis is None else x.take(i, axis)  # noqa: E731
    expected = [one(table, in_axes[0], i)[one(index, in_axes[1], i)] for i in range(4)]
    np.testing.assert_array_equal(jax.jit(jax.vmap(take, in_axes))(table, index), expected)


def test_vectorised_twice():
    draw = np.random.default_rng(0)
    table, index = draw.normal(size=(2, 3, 5)).astype(np.float32), draw.integers(0, 5, (2, 3, 4), np.int32)
    got = jax.jit(jax.vmap(jax.vmap(take)))(table, index)
    np.testing.assert_array_equal(got, np.take_along_axis(table, index, axis=2))


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_entries_of_columns(backend, monkeypatch):
    draw = np.random.default_rng(0)
    table, index = draw.normal(size=(2, 5, 3)).astype(np.float32), draw.integers(0, 5, (2, 4, 3), np.int32)
    expected = np.take_along_axis(table, index, axis=1)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    picked = lambda table, index: (jax.vmap(pick)(table, index), jax.vmap(pick)(table, index[:, 0]))  # noqa: E731
    all_rows, first_row = jax.jit(picked)(table, index)
    np.testing.assert_array_equal(all_rows, expected)
    np.testing.assert_array_equal(first_row, expected[:, 0])
