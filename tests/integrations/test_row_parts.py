"""Where the parts of rewards are in the `info` of a vector environment."""

import numpy as np
import pytest

from factorax.integrations.rewards import parts_of
from factorax.rollouts.step_checks import Misfit

INFO = {
    "a": np.array([1.0, 2.0]),
    "_a": np.array([True, True]),
    "b": {"c": np.array([[3.0, 4.0], [5.0, 6.0]]), "late": np.array([0.0, 7.0]), "_late": np.array([False, True])},
    "mixed": np.array([[1.0], [2.0]], object),
    "short": np.zeros(3),
}
REWARDS = np.zeros(2)


def read(reward, resets=None):
    return parts_of(reward, rows=True).read(None, None, REWARDS, INFO, resets)


def test_paths_lead_to_columns():
    np.testing.assert_array_equal(read("info:a,b.c"), [[1, 3, 4], [2, 5, 6]])
    np.testing.assert_array_equal(read("info:b.c.1"), [[4], [6]])
    np.testing.assert_array_equal(read("info:mixed"), [[1], [2]])
    np.testing.assert_array_equal(read("info:b.late", np.array([True, False])), [[0], [7]])
    assert parts_of("info:a, b.c", rows=True).names == ("a", "b.c")


def test_nothing_and_functions():
    assert read(None) is REWARDS
    assert parts_of(None, rows=True).read(None, None, REWARDS, {"vector_reward": 3}, None) == 3
    assert read(lambda obs, actions, rewards, info: info["a"]) is INFO["a"]


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        ("info:b.late", "'b.late' is missing for environment 0, want it in every step"),
        ("info:a.0", "there is no '0' in 'a', of shape"),
        ("info:b.c.2", "there is no '2' in 'b.c', of shape"),
        ("info:x", "there is no 'x'; info has 'a', 'b', 'mixed', 'short'. Every step must have it"),
        ("info:short", r"'short' has shape \(3,\), want one row for each of 2 environments"),
    ],
)
def test_what_is_not_there(reward, message):
    with pytest.raises(Misfit, match=message):
        read(reward)
