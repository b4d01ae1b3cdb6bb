"""`check_problem` finds what is wrong with a problem."""

import dataclasses

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rollouts.environments import Counter

import factorax as fx
from factorax.problems import contextual_bandit
from factorax.rollouts import ProblemError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"info": {"vector_reward": None}}, "got 1 target, want 2, .*, in step 0"),
        ({"info": {"vector_reward": np.ones(3)}}, "got 3 targets, want 2"),
        ({"reward": 7.0}, "reward: got 7 in step 0, want weights @ vector_reward = 3"),
        ({"spoil": 4}, "targets: entry 1 is not finite in step 3; clip it"),
        ({"obs": np.float32([np.nan])}, "observation: entry 0 is not finite in step 0"),
        (
            {"obs": np.zeros(3, np.float32)},
            r"observation: got 3 numbers in shape \(3,\), want 1",
        ),
        ({"terminated": 0}, "terminated: got int, want a boolean"),
        ({"truncated": None}, "truncated: got None, want True or False"),
        ({"info": {"factor_mask": np.ones(5, bool)}}, r"info\['factor_mask'\]: got .*, want 2 booleans"),
        ({"info": {"target_terminated": True}}, r"info\['target_terminated'\]: got True, want 2"),
    ],
)
def test_mistakes_of_a_host_are_found(options, message):
    with pytest.raises(ProblemError, match=message):
        fx.check_problem(lambda: Counter(cut=5, **options), steps=8)


def test_a_host_without_mistakes_passes():
    fx.check_problem(lambda: Counter(cut=5), steps=8)
    fx.check_problem(lambda: gym.make("CartPole-v1"), steps=30)
    fx.check_problem(lambda: gym.make("factorax/SearchBandit-v0", n=4), steps=3)


def bandit_with(**changes):
    """The bandit with something in its step changed."""
    good = contextual_bandit(3)

    def step(key, state, action):
        new = good.step(key, state, action)
        return new._replace(**{name: change(getattr(new, name)) for name, change in changes.items()})

    return dataclasses.replace(good, step=step)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"psi": lambda x: x[:2]}, r"targets: got shape \(2,\), want \(3,\)"),
        ({"psi": lambda x: x.at[2].set(jnp.nan)}, "targets: entry 2 is not finite in step 0"),
        ({"obs": lambda x: x[:1]}, r"step: observation is shape \(1,\), after a reset shape \(3,\)"),
        ({"state": lambda x: x[:1]}, r"step: state is float32\[1\], after a reset float32\[3\]"),
        ({"state": lambda x: {"x": x}}, r"step: state\['x'\] is float32\[3\], after a reset missing"),
        ({"state": lambda x: x.astype(int)}, r"step: state is int32\[3\], after a reset float32\[3\]"),
        ({"terminated": lambda x: jnp.float32(1)}, r"terminated: got shape \(\) and type float32, want one boolean"),
        ({"factor_mask": lambda x: jnp.ones(2, bool)}, r"factor_mask: got shape \(2,\), want \(3,\)"),
        ({"target_terminated": lambda x: jnp.ones(4, bool)}, r"target_terminated: got shape \(4,\), want \(3,\)"),
        ({"psi": lambda x: np.asarray(x)}, r"step: cannot be traced by JAX in test_checking.py:\d+, .*np.asarray\(x\)"),
    ],
)
def test_mistakes_of_a_jax_problem_are_found(changes, message):
    with pytest.raises(ProblemError, match=message):
        fx.check_problem(bandit_with(**changes), steps=2)


def test_mistakes_outside_the_step_are_found():
    good = contextual_bandit(3)
    wide = fx.InfluenceNetwork.complete(4, 3)
    cases = {
        r"network: has 4 rows, but the action space has 3 components": {"network": wide},
        r"local: got shape \(2, 1, 3\) .*want \(\.\.\., 3, l\)": {"local": lambda obs: obs[..., None, :]},
        r"action space: got Text": {"action_space": gym.spaces.Text(3)},
        r"observation space\['x'\]: got Text.*, want a Box": {
            "observation_space": gym.spaces.Dict({"x": gym.spaces.Text(2)})
        },
        r"observation: got .*, want a dict with x": {
            "observation_space": gym.spaces.Dict({"x": gym.spaces.Discrete(2)})
        },
    }
    for message, changes in cases.items():
        with pytest.raises(ProblemError, match=message):
            fx.check_problem(dataclasses.replace(good, **changes), steps=2)
    with pytest.raises(ValueError, match=r"weights: got .*, want \(3,\), one λ per target"):
        dataclasses.replace(good, weights=np.ones(2))
    with pytest.raises(ProblemError, match="problem: got int, want a Problem or a function"):
        fx.check_problem(3)


def with_dict():
    """The bandit with a Dict of observations, which has a mask of valid actions."""
    bandit = contextual_bandit(3)
    space = gym.spaces.Dict(x=bandit.observation_space, action_mask=gym.spaces.MultiBinary(6))

    def observe(x):
        return {"x": x, "action_mask": jnp.ones(6, jnp.int8)}

    def reset(key):
        state, obs = bandit.reset(key)
        return state, observe(obs)

    def step(key, state, action):
        new = bandit.step(key, state, action)
        return new._replace(obs=observe(new.obs))

    return dataclasses.replace(
        bandit,
        reset=reset,
        step=step,
        observation_space=space,
        action_space=gym.spaces.MultiDiscrete([2, 2, 2]),
        local=lambda obs: obs["x"][..., None],
    )


def test_jax_problem_with_a_dict_of_observations_passes():
    fx.check_problem(with_dict(), steps=3)
    good = with_dict()

    def step(key, state, action):
        new = good.step(key, state, action)
        return new._replace(obs={"x": new.obs["x"][:2]})

    with pytest.raises(ProblemError) as caught:
        fx.check_problem(dataclasses.replace(good, step=step))
    assert "observation['x'] is shape (2,), after a reset shape (3,)" in str(caught.value)
    assert "observation['action_mask'] is missing" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reset": lambda key: jnp.zeros(3)}, r"reset: got an array of shape \(3,\), want \(state, observation\)"),
        ({"reset": lambda key: (0, jnp.zeros(3), {})}, "reset: got a tuple of 3 values"),
        (
            {"reset": lambda key: (0, jnp.zeros(3) if jax.random.uniform(key) > 2 else jnp.ones(3))},
            r"reset: cannot be traced by JAX in test_checking.py:\d+",
        ),
        (
            {"step": lambda key, state, action: (jnp.zeros(3), state, 0.0, False, {})},
            r"step: got a tuple of 5 values, want a Step\(state, obs, psi, terminated, truncated\)",
        ),
    ],
)
def test_functions_of_a_jax_problem_that_return_other_things_are_named(changes, message):
    with pytest.raises(ProblemError, match=message):
        fx.check_problem(dataclasses.replace(contextual_bandit(3), **changes))


def test_what_is_wrong_in_every_step_is_said_once():
    with pytest.raises(ProblemError) as caught:
        fx.check_problem(bandit_with(psi=lambda x: x.at[2].set(jnp.nan)), steps=20)
    assert str(caught.value).count("not finite") == 1
    with pytest.raises(ProblemError) as caught:
        fx.check_problem(lambda: Counter(reward=7.0), steps=20)
    assert str(caught.value).count("reward: got 7") == 1


class Parts(gym.Env):
    """An environment whose observations are a Dict."""

    observation_space = gym.spaces.Dict(place=gym.spaces.Discrete(3), speed=gym.spaces.Box(-1, 1, (2,), np.float32))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, speed: float = 0.0):
        self.speed = speed

    def reset(self, *, seed=None, options=None):
        return {"place": 1, "speed": np.zeros(2, np.float32)}, {}

    def step(self, action):
        return {"place": 2, "speed": np.full(2, self.speed, np.float32)}, float(action), False, True, {}


def test_observations_of_several_parts_are_checked():
    network = fx.InfluenceNetwork.complete(1, 1)
    fx.check_problem(Parts, network)
    with pytest.raises(ProblemError, match="observation: entry 1 is not finite in step 0"):
        fx.check_problem(lambda: Parts(np.nan), network)


@pytest.mark.parametrize(
    ("local", "message"),
    [
        (lambda obs: obs["speed"], r"local: got shape \(2, 2\) for observations .*, want \(\.\.\., 1, l\)"),
        (lambda obs: obs["velocity"], r"local: raised KeyError: 'velocity'"),
        (
            lambda obs: np.concatenate([obs["speed"][..., None, :]], axis=-1),
            r"local: applies a NumPy function .*jax\.numpy",
        ),
    ],
)
def test_mistakes_of_local_are_found(local, message):
    """They would otherwise be found when training starts, in a compiled function."""

    def one(obs, action, reward, info):
        return [reward]

    net = fx.InfluenceNetwork.complete(1, 1)
    fx.check_problem(fx.wrap(Parts, net, reward=one, local=lambda obs: obs["speed"][..., None, :]), steps=2)
    with pytest.raises(ProblemError, match=message):
        fx.check_problem(fx.wrap(Parts, net, reward=one, local=local), steps=2)
