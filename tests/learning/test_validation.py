"""The check of one value by the type of its field."""

from typing import Annotated, Literal

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorax.learning.validation import Range, Schedule, checked, described
from factorax.structure.labels import nearest

KINDS = [
    int,
    float,
    bool,
    str,
    Literal["a", "b"],
    Annotated[float, Range(0, 1)],
    Annotated[int, Range(1)] | None,
    tuple[int, ...],
    Annotated[float, Range(0, open=True, scheduled=True)],
]


@given(
    st.sampled_from(KINDS),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.floats()) | st.binary(),
)
def test_any_value_is_accepted_or_refused_by_name(kind, value):
    try:
        result = checked("field", value, kind)
    except ValueError as error:
        assert str(error).startswith("field: got ")  # noqa: PT017
        return
    assert checked("field", result, kind) == result  # what was accepted once stays as it is


@pytest.mark.parametrize("number", [1, 1.0, np.float32(1), np.int8(1), jnp.float32(1), jnp.int32(1)])
def test_numbers_of_all_kinds(number):
    assert checked("x", number, float) == 1.0
    assert type(checked("x", number, float)) is float


@pytest.mark.parametrize("value", [True, np.nan, np.inf, 1e301, "1", None, [1.0], 1j])
def test_what_is_not_a_number(value):
    with pytest.raises(ValueError, match=r"^x: got"):
        checked("x", value, float)


def test_open_and_closed_bounds():
    assert 0 in Range(0)
    assert 0 not in Range(0, open=True)
    assert 1 in Range(0, 1)
    assert 1.001 not in Range(0, 1)
    assert np.nan not in Range(0, 1)


def test_words():
    assert described(tuple[Annotated[int, Range(1, 9)], ...]) == "a sequence, each entry a whole number from 1 to 9"
    assert nearest("PPO", ["a2c", "ppo"]) == "ppo"
    assert nearest("xyz", ["a2c", "ppo"]) is None


@given(st.floats(0, 1))
def test_a_linear_schedule_is_exact(progress):
    schedule = Schedule.of(lambda p: 3.0 * p + 1.0)
    np.testing.assert_allclose(schedule(progress), 3.0 * progress + 1.0, rtol=1e-5)


def test_a_schedule_in_a_program_and_beyond_its_ends():
    schedule = Schedule.of(lambda p: 2.0 * p)
    assert float(schedule(-0.5)) == 0.0  # a last rollout may go beyond the end of training
    assert float(schedule(1.5)) == 2.0
