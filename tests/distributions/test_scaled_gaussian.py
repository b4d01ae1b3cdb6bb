"""The Gaussian in units of the bounds: its figures, the bounds reached and never exceeded, and a Box from −1 to 1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from distributions import checks
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from factorax.distributions import Gaussian, ScaledGaussian
from factorax.spaces import MAX_WIDTH, ActionSpace

SCALED = checks.three(ScaledGaussian, low=-3, high=1)
S = np.exp(checks.LOG_STD)
ENDS = st.floats(-MAX_WIDTH, MAX_WIDTH, width=32, allow_subnormal=False)
RAW = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)


def box(low, high):
    return ActionSpace.of(spaces.Box(np.float32([low]), np.float32([high])))


def test_figures_are_those_of_the_gaussian_before_scaling():
    old, new = checks.parameters_of(SCALED, 0, ()), checks.parameters_of(SCALED, 1, ())
    action, m, n, r = np.array([0.3, -1.0, 2.0]), old[:, 0], new[:, 0], 0.7 * S
    np.testing.assert_allclose(SCALED.log_prob(old, action, checks.LOG_STD), stats.norm.logpdf(action, m, S))
    np.testing.assert_allclose(SCALED.entropy(old, checks.LOG_STD), stats.norm.entropy(m, S))
    np.testing.assert_array_equal(SCALED.mode(old), m)
    want = np.log(r / S) + (S**2 + (m - n) ** 2) / (2 * r**2) - 0.5
    np.testing.assert_allclose(SCALED.kl((old, checks.LOG_STD), (new, np.log(r))), want)


@pytest.mark.parametrize("check", [checks.assert_numpy_is_jax, checks.assert_gradients, checks.assert_direction])
def test_in_numpy_and_jax(check):
    check(SCALED)


def test_draws_follow_the_distribution():
    """In the units of the Box, middle −1 and half width 2: a Gaussian of mean 2μ − 1 and deviation 2σ."""
    parameters, draws = checks.samples(SCALED)
    for drawn in draws:
        scaled = SCALED.rescale(drawn)
        for i in range(3):
            checks.assert_follow(scaled[:, i], stats.norm(2 * parameters[i, 0] - 1, 2 * S[i]).cdf)
    checks.assert_standardised(SCALED)


def test_the_neutral_policy_is_that_of_the_gaussian_in_raw_units():
    (mean, deviation), (raw_mean, raw_deviation) = SCALED.neutral(), checks.three(Gaussian, low=-3, high=1).neutral()
    np.testing.assert_array_equal(SCALED.rescale(mean[:, 0]), raw_mean[:, 0])
    np.testing.assert_array_equal(2 * deviation, raw_deviation)


@given(st.tuples(ENDS, ENDS).map(sorted).filter(lambda ends: ends[1] - ends[0] <= MAX_WIDTH), RAW)
def test_bounds_are_reached_at_one_and_never_exceeded(ends, raw):
    actions = box(*ends)
    assert actions.kinds == ("scaled",)
    low, high = np.float32(ends)
    ends_reached = actions.within(np.float32([[-1], [1]]), np)
    np.testing.assert_array_equal(ends_reached, [[low], [high]])
    got = actions.within(np.float32([raw]), np)
    assert low <= got[0] <= high
    assert actions.space.contains(actions.to_environment(np.float32([raw])))
    # in between it is the line through both ends, up to rounding
    u = float(np.clip(np.float32(raw), -1, 1))
    want = (float(low) * (1 - u) + float(high) * (1 + u)) / 2
    assert abs(float(got[0]) - want) <= 4 * np.finfo(np.float32).eps * max(abs(low), abs(high))


@pytest.mark.parametrize("ends", [(0, 365.1319), (-1e9 / 3, 1e-30), (0.1, 0.3), (-7.7, -7.6999993), (5, 5)])
def test_jax_reaches_the_bounds_too(ends):
    actions = box(*ends)
    within = jax.jit(lambda a: actions.within(a, jnp))
    got = np.asarray(within(np.float32([[-1], [1], [-40], [40]])))[:, 0]
    np.testing.assert_array_equal(got, np.float32([*ends, *ends]))


@pytest.mark.parametrize("shape", ["alone", "mixed"])
def test_on_a_box_from_minus_one_to_one_it_is_clipping_bit_for_bit(shape):
    unit = spaces.Box(-1.0, 1.0, (2,))
    space = unit if shape == "alone" else spaces.Tuple([unit, spaces.Discrete(3), spaces.Box(0.0, 9.0, (1,))])
    scaled, clipped = (ActionSpace.of(space, bounded) for bounded in ("scale", "clip"))
    rng = np.random.default_rng(0)
    raw = (rng.normal(size=(10_000, len(scaled))) * 10 ** rng.uniform(-8, 1, (10_000, 1))).astype(np.float32)
    within = lambda raw, xp: [space.within(raw, xp)[:, :2] for space in (scaled, clipped)]  # noqa: E731
    np.testing.assert_array_equal(*within(raw, np))
    np.testing.assert_array_equal(*jax.jit(lambda raw: within(raw, jnp))(raw))
