"""Settings that change over training."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from factorax.learning.validation import Schedule


@given(st.floats(0, 1))
def test_a_linear_schedule_is_exact(progress):
    schedule = Schedule.of(lambda p: 3.0 * p + 1.0)
    np.testing.assert_allclose(schedule(progress), 3.0 * progress + 1.0, rtol=1e-5)


def test_a_schedule_in_a_program_and_beyond_its_ends():
    schedule = Schedule.of(lambda p: 2.0 * p)
    assert float(schedule(-0.5)) == 0.0  # a last rollout may go beyond the end of training
    assert float(schedule(1.5)) == 2.0
