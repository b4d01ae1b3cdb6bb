import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import quietly

import factorax as fx
from factorax import InfluenceNetwork, NetworkSchedule, credit, factor_baseline
from factorax.structure import Blend, KArray
from factorax.structure.patterns import banded

START, END = InfluenceNetwork.identity(3), InfluenceNetwork.complete(3, 3)
RAMPS = ["linear", "cosine", "step"]


def weight(step, **options):
    return float(NetworkSchedule(START, END, **options).at(step).w)


@pytest.mark.parametrize("ramp", RAMPS)
@pytest.mark.parametrize("delay", [0, 5])
def test_it_begins_at_the_start_and_ends_at_the_end(ramp, delay):
    schedule = NetworkSchedule(START, END, steps=10, delay=delay, ramp=ramp)
    for step in (-3, 0, delay):
        assert schedule.at(step).network() == START
    for step in (delay + 10, 10**9):
        assert schedule.at(step).network() == END


@pytest.mark.parametrize(
    ("ramp", "at_quarters"),
    [
        ("linear", [0, 0.25, 0.5, 0.75, 1]),
        ("cosine", [0, 0.5 - 0.5 * np.sqrt(0.5), 0.5, 0.5 + 0.5 * np.sqrt(0.5), 1]),
        ("step", [0, 0, 0, 0, 1]),
    ],
)
def test_ramps_at_the_quarters(ramp, at_quarters):
    got = [weight(step, steps=8, delay=2, ramp=ramp) for step in (2, 4, 6, 8, 10)]
    np.testing.assert_allclose(got, at_quarters, atol=1e-15)


@pytest.mark.parametrize("ramp", RAMPS)
def test_the_way_is_monotone_within_nought_and_one(ramp):
    got = np.array([weight(step, steps=37, delay=5, ramp=ramp) for step in range(60)])
    assert (np.diff(got) >= 0).all()
    assert got.min() == 0
    assert got.max() == 1


def test_the_network_in_between_is_the_mixture():
    start, end = InfluenceNetwork([[1, 0.5], [1, 0]]), InfluenceNetwork([[0, 1], [1, 0.5]])
    mixed = NetworkSchedule(start, end, steps=4).at(1).network()
    np.testing.assert_array_equal(mixed.to_dense(), [[0.75, 0.625], [1, 0.125]])


@given(st.floats(0, 1))
def test_an_edge_of_both_networks_never_fades(w):
    assert Blend(END, END, w).network() == END


def test_labels_are_kept():
    start, end = (net.relabel(["x", "y", "z"], ["p", "q", "r"]) for net in (START, END))
    blend = NetworkSchedule(start, end, steps=2).at(1)
    assert blend.network() == InfluenceNetwork([[1, 0.5, 0.5], [0.5, 1, 0.5], [0.5, 0.5, 1]], ["x", "y", "z"], [*"pqr"])
    assert blend.shape == (3, 3)


@quietly
@given(st.integers(0, 25), st.sampled_from(RAMPS))
def test_credit_of_a_point_is_credit_of_its_network(step, ramp):
    blend = NetworkSchedule(banded(5, 1), InfluenceNetwork.complete(5, 5), steps=20, delay=2, ramp=ramp).at(step)
    psi = np.random.default_rng(step).normal(size=(2, 5))
    lam = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    np.testing.assert_allclose(credit(blend, psi, lam), credit(blend.network(), psi, lam), atol=1e-12)
    np.testing.assert_allclose(factor_baseline(blend, psi, lam), factor_baseline(blend.network(), psi, lam), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_credit_of_numpy_targets_at_a_jax_step_is_a_numpy_array(dtype):
    blend = NetworkSchedule(START, END, steps=4).at(jnp.asarray(1))
    psi = np.array([3.0, -1.0, 0.5], dtype=dtype)
    got = credit(blend, psi)
    assert type(got) is np.ndarray
    assert got.dtype == dtype
    np.testing.assert_allclose(got, 0.75 * psi + 0.25 * psi.sum())
    assert type(factor_baseline(blend, psi)) is np.ndarray


@pytest.mark.parametrize("ramp", RAMPS)
def test_a_traced_step_compiles_once_and_agrees(ramp):
    schedule = NetworkSchedule(START, END, steps=8, delay=2, ramp=ramp)
    psi = jnp.array([3.0, -1.0, 0.5])
    traces = []

    @jax.jit
    def compiled(step):
        traces.append(step)
        return credit(schedule.at(step), psi)

    for step in range(0, 13, 2):
        expected = schedule.at(step).network().to_dense() @ np.asarray(psi)
        np.testing.assert_allclose(compiled(jnp.asarray(step)), expected, rtol=1e-5)
    assert len(traces) == 1


@pytest.mark.parametrize("step", [3, 3.0, np.int64(3), np.float32(3), np.array(3), jnp.asarray(3), jnp.asarray(3.0)])
def test_a_step_may_be_any_scalar(step):
    for ramp, expected in {"linear": 0.375, "step": 0.0}.items():
        assert weight(step, steps=8, ramp=ramp) == expected


THREE = (InfluenceNetwork.identity(4), banded(4, 1), InfluenceNetwork.complete(4, 4))


@pytest.mark.parametrize(("step", "stage"), [(-1, 0), (0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (29, 2), (10**9, 2)])
def test_steps_switch_from_network_to_network_after_equal_parts(step, stage):
    schedule = NetworkSchedule(*THREE, steps=20, ramp="step")
    psi = np.random.default_rng(0).normal(size=(3, 4))
    assert schedule.present(None, step) == THREE[stage]
    np.testing.assert_array_equal(credit(schedule.at(step), psi), credit(THREE[stage], psi))
    traced = jax.jit(lambda step: credit(schedule.at(step), jnp.asarray(psi)))(jnp.asarray(step))
    np.testing.assert_allclose(traced, credit(THREE[stage], psi), rtol=1e-5)


def test_a_ramp_through_three_networks_passes_each():
    schedule = NetworkSchedule(*THREE, steps=8, delay=2)
    assert schedule.boundaries == (2, 6, 10)
    assert [schedule.present(None, step) for step in schedule.boundaries] == list(THREE)
    half = (THREE[0].to_dense() + THREE[1].to_dense().astype(float)) / 2
    np.testing.assert_array_equal(schedule.at(4).network().to_dense(), half)


@given(st.integers(2, 6), st.integers(6, 1000))
def test_parts_differ_by_at_most_one_step(n, steps):
    parts = np.diff(NetworkSchedule(*[END] * n, steps=steps).boundaries)
    assert parts.min() > 0
    assert np.ptp(parts) <= 1


@pytest.mark.parametrize(
    ("networks", "options", "argument"),
    [
        ([START], {}, "networks: got 1"),
        ([START, InfluenceNetwork.complete(3, 2)], {}, r"networks\[1\]"),
        ([START, END.relabel(["a2", "a1", "a3"])], {}, r"networks\[1\]"),
        ([START, END], {"steps": 0}, "steps"),
        ([START, END, END], {"steps": 1}, "steps"),
        ([START, END], {"steps": np.nan}, "steps"),
        ([START, END], {"delay": -1}, "delay"),
        ([START, END], {"ramp": "sine"}, "ramp: .*did you mean 'cosine'"),
    ],
)
def test_invalid_arguments_are_named(networks, options, argument):
    with pytest.raises(ValueError, match=argument):
        NetworkSchedule(*networks, **{"steps": 5} | options)


def test_an_array_credits_as_the_network_it_is():
    rng = np.random.default_rng(0)
    dense, psi, weights = rng.random((3, 5)), rng.normal(size=(7, 5)), rng.random(5)
    np.testing.assert_allclose(
        fx.credit(KArray(dense), psi, weights), fx.credit(fx.InfluenceNetwork(dense), psi, weights)
    )
    each = rng.random((7, 3, 5))
    want = np.stack([fx.credit(fx.InfluenceNetwork(k), x, weights) for k, x in zip(each, psi, strict=True)])
    np.testing.assert_allclose(fx.credit(KArray(each), psi, weights), want)
