"""Brax: the same trajectories, terms that add up to the reward, ends by time, training, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrations.jax_cases import TINY, keys_of, play, random_actions

import factorax as fx
from factorax.integrations import from_brax

pytestmark = [pytest.mark.jaxenvs, pytest.mark.filterwarnings("ignore")]
envs = pytest.importorskip("brax.envs", reason="Brax is an extra: factorax[jax-envs]", exc_type=ImportError)


@pytest.fixture(scope="module")
def reacher():
    """A small robot, some steps of it, and the same of Brax with its own wrapper that counts them."""
    problem = from_brax("reacher", episode_length=3)
    actions = random_actions(problem, 3)
    for_reset, _ = keys_of(actions)
    wrapped = envs.training.EpisodeWrapper(envs.get_environment("reacher"), 3, 1)
    step, state = jax.jit(wrapped.step), jax.jit(wrapped.reset)(jax.random.key_data(for_reset))
    first, states = state.obs, []
    for action in actions:
        states.append(state := step(state, action))
    return problem, play(problem, actions), (first, states)


def test_trajectories_are_those_of_the_package(reacher):
    """Up to rounding: two programs add up in different orders."""
    _, (first, steps), (expected, states) = reacher
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-6)
    for new, state in zip(steps, states, strict=True):
        np.testing.assert_allclose(new.obs, state.obs, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(new.psi.sum(), state.reward, rtol=1e-5)
        np.testing.assert_allclose(new.psi, [state.metrics["reward_ctrl"], state.metrics["reward_dist"]], rtol=1e-5)
        assert bool(new.truncated) == bool(state.info["truncation"])
    assert [bool(new.truncated) for new in steps] == [False, False, True]


def test_terms_are_targets_and_joints_are_actions(reacher):
    problem, *_ = reacher
    assert problem.network.targets == ("ctrl", "dist")
    assert problem.network.actions == ("joint0", "joint1")
    assert problem.network.to_dense().all()
    ant = from_brax("ant")
    assert ant.network.targets == ("contact", "ctrl", "forward", "survive")  # and not x_position
    assert ant.network.actions[0] == "hip_4"
    assert (ant.action_space.low == -1).all()
    assert from_brax("ant", terms=False).network.targets == ("reward",)
    assert from_brax("inverted_pendulum").network.targets == ("reward",)  # has no terms
    own = from_brax("ant", network=np.eye(8, 4)).network
    np.testing.assert_array_equal(own.to_dense(), np.eye(8, 4))


def rewarded(reward, terminates_at=99):
    """An environment without physics whose reward is a function of two terms."""

    class Environment(envs.Env):
        action_size, observation_size, backend = 2, 1, "none"

        def reset(self, rng):
            zero = jnp.float32(0)
            metrics = {"reward_a": zero, "reward_b": zero, "height": zero}
            return envs.State(None, jnp.zeros(1), zero, zero, metrics, {"time": 0})

        def step(self, state, action):
            a, b = action
            state.metrics.update(reward_a=a, reward_b=b, height=a * b)  # writes into the state, as many do
            state.info["time"] = state.info["time"] + 1
            done = (state.info["time"] >= terminates_at) * 1.0
            return state.replace(reward=reward(a, b), done=done, obs=state.obs + 1)

    return Environment()


def test_terms_that_do_not_add_up_are_no_targets():
    summed, scaled = rewarded(lambda a, b: a + b), rewarded(lambda a, b: a + 0.5 * b)
    assert from_brax(summed).network.targets == ("a", "b")
    assert from_brax(scaled).network.targets == ("reward",)
    for env in (summed, scaled):
        problem = from_brax(env, terms=True)
        assert problem.network.targets == ("a", "b", "other")
        action = jnp.array([0.5, -0.25])
        new = problem.step(jax.random.key(0), problem.reset(jax.random.key(0))[0], action)
        rest = 0.0 if env is summed else 0.125
        np.testing.assert_allclose(new.psi, [0.5, -0.25, rest])


def test_termination_beats_the_time_limit_and_states_are_not_mutated():
    problem = from_brax(rewarded(lambda a, b: a + b, terminates_at=2), episode_length=2)
    state, _ = problem.reset(jax.random.key(0))
    once = problem.step(jax.random.key(0), state, jnp.ones(2))
    again = problem.step(jax.random.key(0), state, jnp.ones(2))
    assert not again.terminated
    last = problem.step(jax.random.key(0), once.state, jnp.ones(2))
    assert (bool(last.terminated), bool(last.truncated)) == (True, False)
    endless = from_brax(rewarded(lambda a, b: a + b), episode_length=None)
    assert not endless.step(jax.random.key(0), endless.reset(jax.random.key(0))[0], jnp.ones(2)).truncated


def test_it_trains():
    problem = from_brax(rewarded(lambda a, b: a + b), episode_length=3, network=np.eye(2))
    model = fx.FactoredPPO(problem, **TINY).learn(16, progress_bar=False)
    assert model.evaluate(2)["targets"].shape == (2,)


@pytest.mark.slow
def test_a_robot_trains(reacher):
    problem, *_ = reacher
    assert fx.FactoredPPO(problem, **TINY).learn(16, progress_bar=False).num_timesteps == 16


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ant", "halfcheetah", "hopper", "humanoid", "reacher", "walker2d"])
def test_terms_of_known_environments_add_up(name, monkeypatch):
    """Whatever the physics does, which takes long to compile: here every number of the state drifts with the action."""
    from factorax.integrations import brax

    env = envs.get_environment(name)

    def drift(state, action):
        return jax.tree.map(lambda x: x + 0.01 * action[0] if jnp.issubdtype(x.dtype, jnp.inexact) else x, state)

    monkeypatch.setattr(env, "pipeline_step", drift)
    assert type(env).__name__ in brax._ADD_UP
    metrics = jax.eval_shape(env.reset, jax.random.PRNGKey(0)).metrics
    assert brax.terms_add_up(env, [metric for metric in metrics if metric.startswith("reward")])
