"""What depends on non-fluents is evaluated once, and episodes stay the same to the last bit."""

import numpy as np
import pytest

pytest.importorskip("pyRDDLGym")
from factorax.problems import find_problem

pytestmark = pytest.mark.rddl


def played(environment, actions):
    rows = [environment.reset(seed=3)[0]]
    for action in actions:
        obs, _, terminated, truncated, info = environment.step(action)
        rows.append(np.concatenate([obs, info["vector_reward"]]))
        if terminated or truncated:
            break
    return rows


@pytest.mark.parametrize("name", ["UAV_ippc2023/1", "HVAC_ippc2023/1"])
def test_episodes_are_those_of_the_simulator_s_own_evaluation(name):
    make = find_problem(f"rddl:{name}")
    ours, own = make(), make()
    own.rddl.sampler.__dict__.pop("_sample")  # the method of the class
    ours.action_space.seed(0)
    actions = [ours.action_space.sample() for _ in range(20)]
    for a, b in zip(played(ours, actions), played(own, actions), strict=True):
        np.testing.assert_array_equal(a, b)
