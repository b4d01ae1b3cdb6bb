"""Episodes in a file: there and back, and nothing that does not add up."""

import numpy as np
import pytest
from rollouts.environments import Drift
from rollouts.helping import assert_same, inline, iterations, plan_of

from factorax.rollouts import InlineBackend
from factorax.rollouts.episodes import from_arrays, to_arrays

SIZE = 5, 5, 3


@pytest.fixture(scope="module")
def arrays():
    plan = plan_of(Drift)
    rollouts = InlineBackend(plan)
    for iteration in iterations(plan, 2):
        rollouts.collect(iteration)
    return to_arrays(rollouts.episodes)


def test_stored_episodes_are_continued(arrays):
    plan = plan_of(Drift)
    rollouts = InlineBackend(plan)
    rollouts.episodes = from_arrays(arrays, *SIZE)
    assert max(len(episode.actions) for episode in rollouts.episodes) == 2
    third, fourth = iterations(plan, 4)[2:]
    assert_same([rollouts.collect(third), rollouts.collect(fourth)], inline(plan, 4)[2:])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": np.zeros(4, np.int64)}, r"seed has shape \(4,\) and type int64, want \(5,\) and int64"),
        ({"obs": np.zeros((5, 5))}, "obs has shape .* float64, want .* float32"),
        ({"actions": np.zeros((), np.float32)}, "actions has shape"),
        ({"parts": np.zeros((3, 2), np.int64)}, "do not add up"),
        ({"parts": np.array([[0, 2**62], [0, 2**62], [7, 3]])}, "do not add up"),
        ({"seed": np.full(5, -1)}, "do not add up"),
    ],
)
def test_stored_episodes_that_do_not_fit_are_refused(arrays, changes, message):
    with pytest.raises(ValueError, match=f"episodes: .*{message}"):
        from_arrays(arrays | changes, *SIZE)
    with pytest.raises(ValueError, match="episodes: got no entry 'seed'"):
        from_arrays({}, *SIZE)
