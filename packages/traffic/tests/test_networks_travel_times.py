"""The corridor by lag: nothing is felt before it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_traffic import influence, lanes, travel_times
from factorax_traffic.grid import Grid

STEPS, EPISODES = 120, 16


def test_all_lags_together_are_the_corridor():
    for grid in (Grid(3, 3), Grid(2, 6)):
        for kind in ("edges", "lights"):
            assert travel_times(grid, kind=kind).returns_network == influence(grid, "corridor", kind=kind)


@pytest.fixture(scope="module")
def corridor():
    """A problem, and a function that tells when its streets feel that a light does something else at one moment; it is
    compiled once for all lights."""
    problem = lanes(2, 6, norm="fixed", network="corridor", horizon=STEPS + 60)

    def first_change(key, at, light):
        for_reset, for_actions = jax.random.split(key)
        state, _ = problem.reset(for_reset)
        actions = jax.random.bernoulli(for_actions, 0.1, (STEPS + 60, 12)).astype(jnp.int8)
        other = actions.at[at, light].set(1 - actions[at, light])

        def play(actions):
            def step(state, action):
                new = problem.step(for_reset, state, action)
                return new.state, new.psi

            return jax.lax.scan(step, state, actions)[1]

        one, two = jax.vmap(play)(jnp.stack([actions, other]))
        differs = one != two
        return jnp.where(differs.any(axis=0), differs.argmax(axis=0) - at, 10**6)

    return problem, jax.jit(jax.vmap(first_change, in_axes=(0, 0, None)))


@pytest.mark.slow
@pytest.mark.parametrize("light", [0, 1, 5])
def test_no_street_feels_a_light_before_its_lag(light, corridor):
    """One switch more or less, in the middle of episodes with random actions."""
    problem, first_changes = corridor
    lags = problem.influence("travel").lags[light]
    keys = jax.random.split(jax.random.key(light), EPISODES)
    times = jnp.asarray(np.random.default_rng(light).integers(0, 60, EPISODES))
    found = np.asarray(first_changes(keys, times, light)).min(axis=0)
    assert (found[lags >= 0] >= lags[lags >= 0]).all()
    assert (found[lags < 0] == 10**6).all()
    late = lags >= 10
    assert (found[late] < 10**6).any()
    assert (found[late] - lags[late]).min() <= 8  # and the lags are not much too short
