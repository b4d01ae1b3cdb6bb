"""A sparse network with actors that see everything is warned about, where actions change what they see."""

import dataclasses
import warnings
from functools import partial

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax import runs
from factorax.learning import Callback, Config
from factorax.problems import Step, chain, contextual_bandit, queues
from factorax.problems.failures import EpisodeLost
from factorax.rollouts import SeedWarning
from factorax.rollouts.observability import _dependent_outputs, actions_reach_observations
from factorax.runs.seeds import train_seeds

SMALL = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "n_epochs": 1, "hidden": (4,)}

NOISE = np.random.default_rng(0)
MESSAGE = r"policy: all actors read the full observation, and the network lacks \d+ of \d+ pairs"


class Rooms(gym.Env):
    """Two rooms and what they cost; `visible` says whether observations show how warm they are."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.MultiBinary(2)
    network = fx.InfluenceNetwork.identity(2)

    def __init__(self, *, visible, breaks=False, ends=False, noise=0.0):
        self.visible, self.breaks, self.ends, self.noise = visible, breaks, ends, noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.warm = self.np_random.normal(size=2)
        return self.warm * self.visible, {}

    def step(self, action):
        if self.breaks:
            raise EpisodeLost("broke")
        self.warm = self.warm + action
        obs = self.warm * self.visible + self.noise * NOISE.normal(size=2)
        return obs, 0.0, self.ends, False, {"vector_reward": -self.warm}


class Started(Exception):
    """Training has started, and everything that is checked before has been checked."""


class Start(Callback):
    def on_training_start(self, model):
        raise Started


def start_learning(problem, network=None, **settings):
    """Start to train, but compile nothing."""
    with pytest.raises(Started):
        fx.FactoredPPO(problem, network, **SMALL | settings).learn(8, Start(), progress_bar=False)


def test_whether_actions_reach_observations():
    assert not actions_reach_observations(chain(4, delay=2))
    assert not actions_reach_observations(contextual_bandit(3))
    assert actions_reach_observations(queues(2))
    assert actions_reach_observations(lambda: Rooms(visible=True))
    assert not actions_reach_observations(lambda: Rooms(visible=False))
    assert actions_reach_observations(lambda: Rooms(visible=False, breaks=True))  # unknown counts as reached
    assert not actions_reach_observations(lambda: Rooms(visible=True, ends=True))  # no action follows an observation
    with pytest.warns(SeedWarning, match="differ, after a few steps"):  # it does not repeat itself
        assert not actions_reach_observations(lambda: Rooms(visible=False, noise=1.0))


def outputs_of(function, marked, *arguments):
    """Which outputs of a function depend on the marked arguments."""
    return _dependent_outputs(jax.make_jaxpr(function)(*arguments).jaxpr, marked)


def accumulated(x, y):
    """A scan that adds up x in one carry and y in another, and returns the first carry of every step."""
    carry, history = jax.lax.scan(lambda c, t: ((c[0] + x * t, c[1] + y), c[0]), (0.0, 0.0), jnp.arange(3.0))
    return *carry, history


def delayed(x, y):
    """A scan whose carries pass a value on: x is in the third carry only after two steps."""
    return jax.lax.scan(lambda c, t: ((x, c[0], c[1] + y), t), (0.0, 0.0, 0.0), jnp.arange(3.0))[0]


def looped(x, y):
    """A loop whose length is fixed."""
    return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x, c[2] + y), (0, 1.0, 0.0))


def loop_of_length(x, y):
    """A loop whose length is x."""
    return jax.lax.while_loop(lambda c: c[0] < x, lambda c: (c[0] + 1, c[1] + y), (0.0, 1.0))


def branched(x, y):
    """A branch on y; x is in one output of one branch."""
    return jax.lax.cond(y > 0, lambda: (x, 1.0), lambda: (0.0, 2.0))


def jitted(x, y):
    """One compiled function that x and y pass through apart."""
    return jax.jit(lambda x, y: (x + 1, 2 * y, 3.0))(x, y)


def repeated(x, y):
    """A reduction whose accumulators pass a value on: x is in the first one after several elements."""
    zeros = jnp.zeros(4)
    arrays, initial = (zeros, zeros + y, zeros + x), (0.0, 0.0, 0.0)
    return jax.lax.reduce(arrays, initial, lambda a, b: (a[1] + b[0], a[2] + b[1], a[2] + b[2]), (0,))


@pytest.mark.parametrize(
    ("function", "of_x", "of_y"),
    [
        (accumulated, [True, False, True], [False, True, False]),
        (delayed, [True, True, True], [False, False, True]),
        (looped, [False, True, False], [False, False, True]),
        (loop_of_length, [True, True], [False, True]),
        (branched, [True, False], [True, True]),
        (jitted, [True, False, False], [False, True, False]),
        (lambda x, y: (x, y, 1.0), [True, False, False], [False, True, False]),
        (lambda x, y: (jax.checkpoint(jnp.sin)(x), jax.nn.relu(y)), [True, False], [False, True]),
    ],
    ids=["scan", "scan, several steps", "while", "while, its length", "cond", "jit", "none", "checkpoint, custom_jvp"],
)
def test_which_outputs_depend_on_which_inputs(function, of_x, of_y):
    assert outputs_of(function, [True, False], 1.0, 2.0) == of_x
    assert outputs_of(function, [False, True], 1.0, 2.0) == of_y
    assert outputs_of(function, [False, False], 1.0, 2.0) == [False] * len(of_x)


def test_what_is_not_understood_counts_as_dependent():
    assert outputs_of(repeated, [True, False], 1.0, 2.0) == [True] * 3
    both = jax.make_jaxpr(lambda x, y: jax.lax.sort((x, y), num_keys=1))(jnp.ones(3), jnp.ones(3))
    assert _dependent_outputs(both.jaxpr, [False, True]) == [True, True]


def problem_of(step):
    """A problem whose state is a pair of vectors ``(2,)``; `step` goes from them and the action to an observation and
    the next pair."""
    bandit = contextual_bandit(2)

    def reset(key):
        return (jnp.zeros(2), jnp.zeros(2)), jnp.zeros(2)

    def whole(key, state, action):
        obs, state = step(*state, jnp.asarray(action, jnp.float32))
        return Step(state, obs, jnp.zeros(2), jnp.array(False), jnp.array(False))

    return dataclasses.replace(bandit, reset=reset, step=whole, local=None)


def in_scan(u, v, action, *, visible):
    """u adds up actions, v does not; both are carries of the same scan."""
    (u, v), _ = jax.lax.scan(lambda c, t: ((c[0] + action, c[1] + t), None), (u, v), jnp.arange(3.0))
    return (u if visible else v), (u, v)


def in_while(u, v, action, *, visible):
    u, v = jax.lax.while_loop(lambda c: c[1].sum() < 6, lambda c: (c[0] + action, c[1] + 1), (u, 0 * v))
    return (u if visible else v), (u, v)


def in_jit(u, v, action, *, visible):
    u, v = jax.jit(lambda u, v, action: (u + action, v + 1))(u, v, action)
    return (u if visible else v), (u, v)


def in_cond(u, v, action, *, visible):
    """The action chooses a branch, or is used inside of one that does not reach the observation."""
    chosen = jax.lax.cond(action[0] > 0, lambda: u + 1, lambda: u)
    kept, used = jax.lax.cond(v[0] > 0, lambda: (v, action), lambda: (v + 1, u))
    return (chosen if visible else kept), (used, kept)


def one_step_later(u, v, action, *, visible):
    """The action is in u now, in v after a step, and in the observation after two."""
    return (v if visible else 0 * action.shape[0] + jnp.ones(2)), (action, u)


@pytest.mark.parametrize("step", [in_scan, in_while, in_jit, in_cond, one_step_later])
def test_actions_reach_observations_through_control_flow(step):
    assert actions_reach_observations(problem_of(partial(step, visible=True)))
    assert not actions_reach_observations(problem_of(partial(step, visible=False)))


@pytest.mark.slow
@pytest.mark.parametrize("problem", [queues(2), lambda: Rooms(visible=True)], ids=["jax", "host"])
def test_the_warning_comes_once_when_training_starts(problem):
    model = fx.FactoredPPO(problem, **SMALL)
    with pytest.warns(fx.structure.StructureWarning, match=MESSAGE) as warned:
        model.learn(8, progress_bar=False)
    assert len(warned) == 1
    model.learn(8, reset_num_timesteps=False, progress_bar=False)  # warnings are errors


@pytest.mark.slow
def test_the_warning_comes_once_for_seeds_side_by_side(tmp_path):
    with pytest.warns(fx.structure.StructureWarning, match=MESSAGE) as warned:
        train_seeds(
            "queues:1x2", Config(**SMALL, total_timesteps=8), [tmp_path / "a", tmp_path / "b"], progress_bar=False
        )
    assert len(warned) == 1
    assert len(list(runs.read_metrics(tmp_path / "a"))) == 1


@pytest.mark.slow
def test_where_there_is_no_warning():
    """Local actors, a network that lacks nothing, actions that no observation shows, and where it is turned off."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start_learning(queues(2), policy="shared")
        start_learning(queues(2), fx.InfluenceNetwork.complete(*queues(2).network.shape))
        start_learning(lambda: Rooms(visible=False))
        start_learning(chain(3))
        start_learning(queues(2), check_network=False)
        start_learning(queues(2), estimator="vanilla")
        start_learning(
            lambda: Rooms(visible=True), fx.InfluenceNetwork._derive(np.array([[1, 0], [1, 0]], bool), None, None)
        )
        fx.FactoredPPO(queues(2), **SMALL).learn(0, progress_bar=False)


@pytest.mark.slow
def test_shared_actors_without_local_observations_see_everything():
    with pytest.warns(fx.structure.StructureWarning, match=MESSAGE):
        start_learning(lambda: Rooms(visible=True), policy="shared")
