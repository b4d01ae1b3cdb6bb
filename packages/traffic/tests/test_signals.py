"""The state machine of the lights, against its table and against Flow's own loop."""

import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic.signals import Signals, colours, green_and_yellow, switch


def shown(requests, xp=np):
    lights, seen = Signals.start(1, xp), []
    for request in requests:
        lights = switch(lights, xp.array([bool(request)]), xp)
        seen.append(colours(lights, 0))
    return seen, lights


@pytest.mark.parametrize("xp", [np, jnp])
def test_table(xp):
    yellow_ns, yellow_ew = ["yryr"] * 3, ["ryry"] * 3
    assert shown([0] * 5, xp)[0] == ["GrGr"] * 5
    assert shown([1] * 9, xp)[0] == [*yellow_ns, "rGrG", *yellow_ew, "GrGr", "yryr"]  # the fastest there is
    assert shown([1, 0, 0, 0, 0, 1, 0, 0, 0], xp)[0] == [*yellow_ns, "rGrG", "rGrG", *yellow_ew, "GrGr"]
    # A request in the second in which it turns green is not heard.
    assert shown([1, 0, 0, 1, 0], xp)[0] == [*yellow_ns, "rGrG", "rGrG"]


def test_since_freezes_at_three():
    assert [int(shown([1, 0, 0, 0, 0, 0][:k])[1].since[0]) for k in range(1, 7)] == [0, 1, 2, 3, 3, 3]


def test_against_flows_loop():
    """`MultiTrafficLightGridPOEnv._apply_rl_actions`, written out for one light."""
    rng = np.random.default_rng(0)
    for p in (0.1, 0.5, 0.9):
        direction = yellow = since = 0
        state = "GrGr"
        lights = Signals.start(1)
        for request in rng.random(300) < p:
            if yellow:
                since += 1
                if since >= 3:
                    state, yellow = ("GrGr" if direction == 0 else "rGrG"), 0
            elif request:
                state = "yryr" if direction == 0 else "ryry"
                since, direction, yellow = 0, 1 - direction, 1
            lights = switch(lights, np.array([request]))
            assert colours(lights, 0) == state
            assert (lights.direction[0], lights.yellow[0], lights.since[0]) == (direction, yellow, since)


def test_colours_of_each_axis():
    letters = {(True, False): "G", (False, True): "y", (False, False): "r"}
    for direction in (0, 1):
        for yellow in (0, 1):
            lights = Signals(np.array([direction]), np.array([yellow]), np.array([0]))
            ns, ew = (letters[tuple(bool(x[0]) for x in green_and_yellow(lights, axis))] for axis in (0, 1))
            assert colours(lights, 0) == ns + ew + ns + ew
