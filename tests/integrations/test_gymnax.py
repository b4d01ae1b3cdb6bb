"""Gymnax: the same trajectories, ends by time and by themselves, spaces, wrappers, training, bad input."""

import jax
import numpy as np
import pytest
from integrations.jax_cases import TINY, contains, keys_of, play, random_actions, same_types

import factorax as fx
from factorax.integrations import from_gymnax
from factorax.ppo.config import Config
from factorax.runs.seeds import train_seeds

pytestmark = [pytest.mark.jaxenvs, pytest.mark.filterwarnings("ignore")]  # of their own they have many
gymnax = pytest.importorskip("gymnax", reason="Gymnax is an extra: factorax[jax-envs]", exc_type=ImportError)

CARTPOLE = "CartPole-v1"


@pytest.mark.parametrize("name", [CARTPOLE, "Pendulum-v1", "FrozenLake-misc", "UmbrellaChain-bsuite"])
def test_trajectories_are_those_of_the_package(name):
    """Up to rounding: two programs add up in different orders."""
    problem, (env, params) = from_gymnax(name), gymnax.make(name)
    actions = random_actions(problem, 12)
    for_reset, keys = keys_of(actions)
    first, steps = play(problem, actions)
    obs, state = env.reset(for_reset, params)
    step = jax.jit(lambda key, state, action: env.step(key, state, action, params))  # parameters known to the compiler
    np.testing.assert_array_equal(first, obs)
    for key, action, new in zip(keys, actions, steps, strict=True):
        _, state, reward, terminated, truncated, info = step(key, state, action)
        np.testing.assert_allclose(new.obs, info["final_observation"], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(new.psi, [reward])
        assert (new.terminated, new.truncated) == (terminated, truncated & ~terminated)
        if new.terminated or new.truncated:
            break


def test_time_truncates_and_a_fall_terminates():
    actions = random_actions(from_gymnax(CARTPOLE), 60)
    actions = [0 * action for action in actions]  # always to the left
    _, steps = play(from_gymnax(CARTPOLE), actions)
    fell = next(t for t, new in enumerate(steps) if new.terminated)
    assert 5 < fell < 15
    assert not any(new.truncated for new in steps[: fell + 1])
    _, short = play(from_gymnax(CARTPOLE, max_steps_in_episode=fell), actions)
    assert [bool(new.truncated) for new in short[:fell]] == [False] * (fell - 1) + [True]
    assert not any(new.terminated for new in short[:fell])
    _, both = play(from_gymnax(CARTPOLE, max_steps_in_episode=fell + 1), actions)
    assert (bool(both[fell].terminated), bool(both[fell].truncated)) == (True, False)


@pytest.mark.parametrize(
    ("name", "space"),
    [
        (CARTPOLE, "Box((4,), float32)"),
        ("Breakout-MinAtar", "Box((10, 10, 4), float32)"),
        ("FrozenLake-misc", "Discrete((), int64)"),
        ("Catch-bsuite", "Box((10, 5), float32)"),  # declared as integers, and they are floats
        ("FourRooms-misc", "Box((4,), float32)"),  # declared as floats, and they are integers
        ("PointRobot-misc", "Box((6,), float32)"),
    ],
)
def test_observations_keep_their_spaces(name, space):
    problem = from_gymnax(name)
    declared = problem.observation_space
    assert f"{type(declared).__name__}({declared.shape}, {declared.dtype})" == space
    first, (new,) = play(problem, random_actions(problem, 1))
    assert contains(declared, first)
    assert contains(declared, new.obs)
    assert same_types(problem)


def test_actions_and_the_one_target():
    assert repr(from_gymnax(CARTPOLE).action_space) == "Discrete(2)"
    robot = from_gymnax("PointRobot-misc")
    np.testing.assert_allclose(robot.action_space.high, [0.1, 0.1])
    assert robot.network.targets == ("reward",)
    assert robot.network.to_dense().all()
    assert robot.network.shape == (2, 1)


def test_environments_and_parameters_as_objects():
    env, params = gymnax.make(CARTPOLE)
    heavy = params.replace(gravity=20.0)
    actions = random_actions(from_gymnax(env), 3)
    falls = [play(problem, actions)[1][-1].obs for problem in (from_gymnax(env, heavy), from_gymnax(env, gravity=20.0))]
    np.testing.assert_array_equal(*falls)
    assert not np.array_equal(falls[0], play(from_gymnax(env), actions)[1][-1].obs)
    sea = from_gymnax("DeepSea-bsuite", size=5, unscaled_move_cost=0.5)  # of the class, and of the parameters
    assert sea.observation_space.shape == (5, 5)


def test_wrappers_are_applied():
    from gymnax.wrappers.purerl import FlattenObservationWrapper

    env, _ = gymnax.make("Catch-bsuite")
    problem, plain = from_gymnax(FlattenObservationWrapper(env)), from_gymnax(env)
    assert problem.observation_space.shape == (50,)
    actions = random_actions(problem, 9)
    for wrapped, new in zip(play(problem, actions)[1], play(plain, actions)[1], strict=True):
        np.testing.assert_array_equal(wrapped.obs, np.ravel(new.obs))  # the last one too, not that of a reset
        assert wrapped.terminated == new.terminated


def test_two_seeds_train_side_by_side(tmp_path):
    config = Config(total_timesteps=24, **TINY)
    outs = [tmp_path / "0", tmp_path / "1"]
    models = train_seeds("gymnax:CartPole-v1,max_steps_in_episode=5", config, outs, progress_bar=False)
    assert [model.num_timesteps for model in models] == [24, 24]
    weights = [jax.tree.leaves(model.state.agent)[0] for model in models]
    assert not np.array_equal(*weights)
    assert fx.FactoredPPO.load(outs[1]).num_timesteps == 24  # its name leads to nothing outside
