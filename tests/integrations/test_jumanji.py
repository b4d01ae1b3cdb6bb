"""Jumanji: the same trajectories, discounts at ends, spaces with parts, several rewards, training, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrations.jax_cases import KEY, TINY, contains, keys_of, play, random_actions, same_types

import factorax as fx
from factorax.integrations import from_jumanji
from factorax.ppo import Config, Learner
from factorax.spec import Spec

pytestmark = [pytest.mark.jaxenvs, pytest.mark.filterwarnings("ignore")]
jumanji = pytest.importorskip("jumanji", reason="Jumanji is an extra: factorax[jax-envs]", exc_type=ImportError)


def test_trajectories_are_those_of_the_package():
    problem, env = from_jumanji("Snake-v1", num_rows=4, num_cols=4), jumanji.make("Snake-v1", num_rows=4, num_cols=4)
    actions = random_actions(problem, 8)
    for_reset, _ = keys_of(actions)
    first, steps = play(problem, actions)
    state, expected = env.reset(jax.random.key_data(for_reset))
    np.testing.assert_array_equal(first["grid"], expected.observation.grid)
    step = jax.jit(env.step)
    for action, new in zip(actions, steps, strict=True):
        state, expected = step(state, action)
        np.testing.assert_array_equal(new.obs["grid"], expected.observation.grid)
        np.testing.assert_array_equal(new.obs["action_mask"], expected.observation.action_mask)
        np.testing.assert_array_equal(new.psi, [expected.reward])
        assert (bool(new.terminated), bool(new.truncated)) == (bool(expected.last()), False)
        if new.terminated:
            return
    raise AssertionError("the snake hit no wall")


@pytest.mark.parametrize("name", ["Snake-v1", "Maze-v0", "LevelBasedForaging-v0", "SearchAndRescue-v0"])
def test_observations_keep_their_parts(name):
    problem = from_jumanji(name)
    _, first = jax.jit(problem.reset)(jax.random.key(0))
    assert contains(problem.observation_space, first)
    assert same_types(problem)


def test_every_agent_has_a_target():
    foraging = from_jumanji("LevelBasedForaging-v0", time_limit=2)
    assert foraging.network.shape == (2, 2)
    assert foraging.network.targets == ("reward_0", "reward_1")
    _, steps = play(foraging, random_actions(foraging, 2))
    assert [bool(new.truncated) for new in steps] == [False, True]  # it says so itself, with a discount of 1
    assert not any(new.terminated for new in steps)
    assert not steps[1].target_terminated.any()
    rescue = from_jumanji("SearchAndRescue-v0", network=[[1, 0], [1, 0], [0, 1], [0, 1]])
    assert rescue.network.shape == (4, 2)


@pytest.mark.parametrize(("name", "choices"), [("Snake-v1", (4,)), ("Connector-v3", (5,) * 10)])
def test_masks_are_applied(name, choices):
    spec = Spec.of(from_jumanji(name))
    assert spec.action_mask.choices == choices
    _, first = jax.jit(spec.problem.reset)(KEY)
    parameters = spec.action_mask.applied(
        jnp.zeros((len(choices), max(choices))), spec.observations.row(first, jnp), jnp
    )
    np.testing.assert_array_equal(parameters.reshape(first["action_mask"].shape) == 0, first["action_mask"])


@pytest.mark.parametrize("name", ["Minesweeper-v0", "Sudoku-very-easy-v0", "Tetris-v0", "MultiCVRP-v0"])
def test_masks_of_combinations_are_observed(name):
    problem = from_jumanji(name)
    assert Spec.of(problem).action_mask is None
    _, first = jax.jit(problem.reset)(KEY)
    assert contains(problem.observation_space, first)
    env = jumanji.make(name)
    expected = env.reset(jax.random.key_data(KEY))[1].observation
    np.testing.assert_array_equal(first["joint_action_mask"], expected.action_mask)


def counting(terminates_at=99, truncates_at=99, agents=None):
    """An environment that counts its steps, with an observation of one axis; a reward of one, for each agent."""
    from jumanji import specs, types

    class Counting(jumanji.Environment):
        reward_spec = specs.Array((agents,) if agents else (), jnp.float32)
        discount_spec = specs.BoundedArray((agents,) if agents else (), jnp.float32, 0.0, 1.0)
        observation_spec = specs.BoundedArray((2,), jnp.float32, 0.0, 99.0)
        action_spec = specs.BoundedArray((2,), jnp.int16, 1, 3)

        def __init__(self):
            pass

        def reset(self, key):
            return {"time": 0, "key": key}, types.restart(jnp.zeros(2), shape=agents or ())

        def step(self, state, action):
            time, shape = state["time"] + 1, (agents,) if agents else ()
            ends = (time >= terminates_at) | (time >= truncates_at)
            gone = (time >= terminates_at) | (time > jnp.arange(agents) + 1 if agents else False)
            new = types.TimeStep(
                step_type=jnp.where(ends, types.StepType.LAST, types.StepType.MID),
                reward=jnp.ones(shape) * action.sum(),
                discount=jnp.where(gone, 0.0, 1.0) * jnp.ones(shape),
                observation=jnp.full(2, time, jnp.float32),
            )
            return {"time": time, "key": state["key"]}, new

    return Counting()


def test_the_discount_tells_termination_from_truncation():
    for env, expected in ((counting(terminates_at=2), (True, False)), (counting(truncates_at=2), (False, True))):
        _, steps = play(problem := from_jumanji(env), random_actions(problem, 2))
        assert (bool(steps[0].terminated), bool(steps[0].truncated)) == (False, False)
        assert (bool(steps[1].terminated), bool(steps[1].truncated)) == expected
        assert steps[1].target_terminated is None


def test_a_target_ends_when_its_discount_is_zero():
    _, steps = play(problem := from_jumanji(counting(truncates_at=3, agents=3)), random_actions(problem, 3))
    np.testing.assert_array_equal([new.target_terminated for new in steps], [[0, 0, 0], [1, 0, 0], [1, 1, 0]])
    assert bool(steps[2].truncated)
    assert not steps[2].terminated


def test_integers_are_choices_from_their_smallest():
    problem = from_jumanji(counting())
    assert repr(problem.action_space) == "MultiDiscrete([3 3], start=[1 1])"
    _, (new,) = play(problem, [jnp.array([3, 1])])
    np.testing.assert_array_equal(new.psi, [4.0])


def test_it_trains_and_is_stored(tmp_path):
    problem = from_jumanji(counting(terminates_at=3, agents=2))
    model = fx.FactoredPPO(problem, **TINY).learn(16, progress_bar=False)
    model.save(tmp_path / "model")  # with the keys in the states of the environments
    again = fx.FactoredPPO.load(tmp_path / "model", problem=problem)
    np.testing.assert_array_equal(again.evaluate(2)["episodes"], model.evaluate(2)["episodes"])


def test_two_seeds_train_side_by_side():
    learner = Learner.of(from_jumanji(counting(terminates_at=3, agents=2)), config=Config(**TINY))
    train = jax.jit(jax.vmap(lambda seed: learner.update(learner.init(seed))[0].agent))
    one, other = (jax.tree.leaves(train(jnp.array(seeds))) for seeds in ([0, 1], [1, 0]))
    for a, b in zip(one, other, strict=True):  # a seed learns the same next to any other
        np.testing.assert_allclose(a[0], b[1], rtol=1e-5, atol=1e-7)
    assert any(not np.allclose(a[0], a[1], atol=1e-4) for a in one)
