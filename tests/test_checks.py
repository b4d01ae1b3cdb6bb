"""The check of one value by its type, and those of arrays."""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factorax._checks import Range, check_number, checked, described, real_array

KINDS = [
    int,
    float,
    bool,
    str,
    Literal["a", "b"],
    Annotated[float, Range(0, 1)],
    Annotated[int, Range(1)] | None,
    tuple[int, ...],
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
def test_checked_accepts_numbers_of_every_array_library(number):
    assert checked("x", number, float) == 1.0
    assert type(checked("x", number, float)) is float


@pytest.mark.parametrize("value", [True, np.nan, np.inf, 1e301, "1", None, [1.0], 1j])
def test_checked_refuses_what_is_no_finite_number(value):
    with pytest.raises(ValueError, match=r"^x: got"):
        checked("x", value, float)


def test_open_and_closed_bounds():
    assert 0 in Range(0)
    assert 0 not in Range(0, open=True)
    assert 1 in Range(0, 1)
    assert 1.001 not in Range(0, 1)
    assert np.nan not in Range(0, 1)


def test_described():
    assert described(tuple[Annotated[int, Range(1, 9)], ...]) == "a sequence, each entry a whole number from 1 to 9"


@pytest.mark.parametrize("value", [[1j], ["a"], None, [[1], [1, 2]], np.array([None]), jnp.zeros(2, jnp.complex64)])
@pytest.mark.parametrize("xp", [np, jnp])
def test_real_array_refuses_complex_text_and_ragged_values(value, xp):
    with pytest.raises(TypeError, match=r"^x: got .*, want "):
        real_array("x", value, xp)


def test_values_are_checked_unless_jax_traces_them():
    with pytest.raises(ValueError, match=r"x: got inf at index 0, 1, want finite numbers"):
        real_array("x", [[1.0, np.inf]])
    assert jax.jit(lambda x: real_array("x", x / 0, jnp).sum())(jnp.ones(2)) == np.inf
    jax.jit(lambda x: check_number("x", x, Annotated[float, Range(0, 1)]))(2.0)
    with pytest.raises(ValueError, match=r"x: got 2\.0, want a number from 0 to 1"):
        check_number("x", 2.0, Annotated[float, Range(0, 1)])
