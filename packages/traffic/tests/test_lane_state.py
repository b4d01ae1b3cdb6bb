"""Many grids as one with more routes, and gathers from flat tables: the same numbers as one at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic import LaneSimulator, Traffic, lane_simulator
from factorax_traffic.lane_state import of_one_grid, pick, take

STEPS, GRIDS = 40, 6


def assert_equal(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(a, b)


def played(simulator, key, requests):
    """The state and the readings after these requests, ``(T, n)``."""
    state, _ = jax.lax.scan(lambda s, request: (simulator.step(s, request), None), simulator.reset(key), requests)
    return state, simulator.read(state)


@pytest.mark.parametrize("few", [pytest.param(16, id="short routes"), pytest.param(0, id="long routes")])
def test_grids_do_not_depend_on_those_simulated_with_them(monkeypatch, few):
    monkeypatch.setattr(lane_simulator, "FEW", few)
    simulator = LaneSimulator(Traffic(2, 3, initial="everywhere", horizon=STEPS))
    keys = jax.random.split(jax.random.key(0), GRIDS)
    requests = np.random.default_rng(0).random((GRIDS, STEPS, 6)) < 0.3
    one = jax.jit(lambda key, requests: played(simulator, key, requests))
    alone = [one(*each) for each in zip(keys, requests, strict=True)]
    together = jax.jit(jax.vmap(lambda key, requests: played(simulator, key, requests)))(keys, requests)
    assert_equal(together, jax.tree.map(lambda *x: np.stack(x), *alone))
    # Seeds of grids, as in a training of several seeds.
    shape = lambda x: x.reshape(2, GRIDS // 2, *x.shape[1:])  # noqa: E731
    nested = jax.vmap(jax.vmap(lambda key, requests: played(simulator, key, requests)))
    assert_equal(jax.jit(nested)(shape(keys), shape(requests)), jax.tree.map(shape, together))


def test_arguments_without_an_axis_of_grids_are_the_same_for_all():
    of_one = of_one_grid(lambda x, y: (x + y, {"product": x * y}))
    x, y = jnp.arange(6.0).reshape(3, 2), jnp.array([1.0, 2.0])
    total, parts = jax.vmap(of_one, in_axes=(0, None))(x, y)
    np.testing.assert_array_equal(total, x + y)
    np.testing.assert_array_equal(parts["product"], x * y)
    np.testing.assert_array_equal(of_one(x[0], y)[0], x[0] + y)


def test_devices_that_share_the_grids_vectorise_one(monkeypatch):
    calls = []

    def of_all(x):
        calls.append(x.shape)
        return 2 * x

    monkeypatch.setattr(jax, "local_device_count", lambda: 2)
    np.testing.assert_array_equal(jax.vmap(of_one_grid(of_all))(jnp.ones((4, 3))), 2 * np.ones((4, 3)))
    assert set(calls) == {(3, 1)}


def test_outside_of_a_program_a_step_compiles_nothing_new():
    simulator = LaneSimulator(Traffic(1, 1), slots=8)
    state, request, compiled = simulator.reset(jax.random.key(0)), jnp.array([True]), []

    def play(state):
        state = simulator.step(state, request)
        return state, simulator.read(state)

    state, _ = play(state)
    note = lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        state, readings = play(state)
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert compiled == []
    assert int(state.time) == 2
    assert_equal(readings, jax.jit(simulator.read)(state))


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
