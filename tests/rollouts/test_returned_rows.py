"""Rows of vector environments that cannot be used: what came, what is wanted, and where to put it."""

import re

import gymnasium as gym
import numpy as np
import pytest

from factorax.observations import ObservationSpace
from factorax.rollouts.step_checks import (
    Misfit,
    entry,
    flags,
    last_observations,
    mask,
    observations,
    target_rows,
    with_final,
)


def box(size):
    return ObservationSpace.of(gym.spaces.Box(-9.0, 9.0, (size,)))


THREE = box(3)
NONE, HALF = np.zeros(2, bool), np.array([True, False])
BAD = {
    "observations: got shape (4, 3), want (2, 3), one row for each of 2 environments": lambda: observations(
        np.zeros((4, 3)), 2, THREE
    ),
    "observations: got 'abc', want real numbers": lambda: observations("abc", 2, THREE),
    "rewards: got shape (2,), want (2, 3), one row for each of 2 environments and one column per target. Return it as "
    "the reward, or put it in info['vector_reward']; or pass its location to fx.wrap(make, network": lambda: (
        target_rows(np.zeros(2), 2, 3)
    ),
    "it is the transpose: return rewards.T": lambda: target_rows(np.zeros((3, 2)), 2, 3),
    "rewards: got rows of shapes (1,) and (2,), want the same shape for all": lambda: target_rows(
        [[1.0], [1.0, 2.0]], 2, 2
    ),
    "truncated: got False, want 2 booleans": lambda: flags("truncated", False, 2),
    "info['factor_mask']: got shape (2,), want booleans of shape (2, 3), one row per environment and one column per "
    "factor": lambda: mask("factor_mask", NONE, 2, 3),
    "info['final_obs']: is missing in a step in which environment 1 ended": lambda: last_observations(
        {}, np.array([1]), THREE
    ),
    "info['final_info']['a']: got shape (2, 2), want (2,), as in the entry next to it": lambda: with_final(
        {"a": np.zeros(2), "final_info": {"a": np.zeros((2, 2))}, "_final_info": HALF}, 2
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_wrong_rows_are_named(message):
    with pytest.raises(Misfit, match=re.escape(message)):
        BAD[message]()


def test_rows_are_read():
    np.testing.assert_array_equal(observations([[1, 2], [3, 4]], 2, box(2)), [[1, 2], [3, 4]])
    assert observations(np.zeros(2, np.int64), 2, ObservationSpace.of(gym.spaces.Discrete(3))).shape == (2, 1)
    assert target_rows(np.ones(2), 2, 1).shape == (2, 1)
    assert target_rows([[1.0], [2.0]], 2, 1).shape == (2, 1)
    np.testing.assert_array_equal(flags("truncated", [0, 1], 2), [False, True])
    rows, there = entry({"x": np.array([None, [1.0, 2.0]], object), "_x": np.array([False, True])}, "x", 2)
    np.testing.assert_array_equal(rows, [[0, 0], [1, 2]])
    np.testing.assert_array_equal(there, [False, True])
    assert entry({}, "x", 2) is None


def test_final_info_replaces_entries_of_ended_environments():
    info = {
        "a": np.array([1.0, 2.0]),
        "_a": np.array([False, True]),
        "c": {"d": np.array([5.0, 6.0])},
        "final_info": {
            "a": np.array([7.0, 0.0]),
            "_a": HALF,
            "b": np.array([8.0, 0.0]),
            "c": {"d": np.array([9.0, 0])},
        },
        "_final_info": HALF,
        "final_obs": np.array([None, None]),
        "_final_obs": HALF,
    }
    merged = with_final(info, 2)
    assert set(merged) == {"a", "_a", "b", "_b", "c", "_c"}
    np.testing.assert_array_equal(merged["a"], [7, 2])
    np.testing.assert_array_equal(merged["_a"], [True, True])
    np.testing.assert_array_equal(merged["_b"], [True, False])
    np.testing.assert_array_equal(merged["c"]["d"], [9, 6])
    assert info["a"][0] == 1.0  # what came is not changed
    assert with_final({"a": 3}, 2) == {"a": 3}
