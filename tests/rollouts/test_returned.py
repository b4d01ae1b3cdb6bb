"""Environments that misbehave: one error that says which environment, which step, and what is wrong; inline and in
workers."""

import pickle
import re
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from rollouts.helping import iterations
from rollouts.misbehaving import (
    RESETS,
    STEP,
    STEPS,
    TERMINATED,
    Fickle,
    Misbehaving,
    Spaceless,
    Unobserved,
    with_info,
    with_part,
)

import factorax as fx
from factorax.rollouts import Environments, InlineBackend, NumpyPolicy, Plan, ProblemError
from factorax.rollouts.observability import actions_reach_observations
from factorax.rollouts.processes import ProcessBackend
from factorax.rollouts.worker import _packed
from factorax.spaces import ActionSpace

SPACE = ActionSpace.of(Misbehaving.action_space)
WHERE = rf"environment 0 \(Misbehaving\), step {STEP} of its episode with seed 3: "


def thing_of(message):
    """What a message is about."""
    words = "vector_reward|observation|terminated|truncated|reward|step|info|reset|target"
    return re.search(words, message.replace(r"info\['vec", "vec")).group()


def plan_of(make, n_envs=1):
    return Plan(
        make=make,
        policy=NumpyPolicy(SPACE, "joint"),
        n_envs=n_envs,
        n_steps=3,
        n_inputs=2,
        n_factors=2,
        n_targets=2,
    )


def play(backend, plan, count=3):
    try:
        for iteration in iterations(plan, count):
            backend.collect(iteration)
    finally:
        backend.close()


@pytest.mark.parametrize(("change", "message"), STEPS, ids=[message for _, message in STEPS])
def test_wrong_results_of_a_step_name_environment_and_step(change, message):
    """In the second rollout; the error survives the way from a worker."""
    plan = plan_of(partial(Misbehaving, change))
    with pytest.raises((ValueError, FloatingPointError), match=WHERE + ".*" + message) as caught:
        play(InlineBackend(plan), plan)
    kind, (error, _) = pickle.loads(_packed(caught.value))
    assert (kind, type(error), str(error)) == ("error", type(caught.value), str(caught.value))
    assert "\n" not in str(error)


@pytest.mark.parametrize(("begin", "message"), RESETS, ids=[message for _, message in RESETS])
def test_wrong_results_of_a_reset_name_the_environment(begin, message):
    plan = plan_of(partial(Misbehaving, begin=begin))
    with pytest.raises(ValueError, match=r"environment 0 \(Misbehaving\), reset with seed 3: .*" + message):
        play(InlineBackend(plan), plan)


def test_errors_of_a_worker_keep_their_message():
    plan = plan_of(partial(Misbehaving, with_part(TERMINATED, "False")), n_envs=2)
    with pytest.raises(ValueError, match=WHERE + "terminated: got 'False', want True or False"):
        play(ProcessBackend(plan, 1, 60.0), plan)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            Fickle,
            r"environment 0 \(Fickle\), reset with seed 0: action_space: got .*\(3\), want .*\(2\)",
        ),
        (Spaceless, r"environment 0 \(Spaceless\): action_space: got None, want a Gymnasium space"),
        (Unobserved, r"environment 0 \(Unobserved\): observation_space: got None, want a Gymnasium space"),
    ],
)
def test_spaces_that_are_missing_or_change_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        Environments(make, 1, SPACE, 2).init(0)


@pytest.mark.parametrize(
    "change",
    [
        with_part(TERMINATED, 0),
        with_part(TERMINATED, np.False_),
        with_part(TERMINATED, np.array(False)),
        with_info(factor_mask=[1, 0]),
        with_info(factor_mask=np.array([1.0, 0.0])),
        with_info(factor_mask=None, target_terminated=(False, True)),
    ],
)
def test_flags_and_masks_of_other_types_are_accepted(change):
    plan = plan_of(partial(Misbehaving, change))
    play(InlineBackend(plan), plan)


def test_terminated_1_ends_the_episode():
    hosts = Environments(partial(Misbehaving, with_part(TERMINATED, 1)), 1, SPACE, 2)
    hosts.init(0)
    rollout = hosts.collect(lambda obs: np.zeros((1, 2), np.float32), 9)
    assert np.flatnonzero(rollout.terminated[:, 0]).tolist() == [3, 7]


def test_steps_are_counted_from_the_last_reset():
    class Later(Misbehaving):
        episodes = 0

        def reset(self, *, seed=None, options=None):
            self.episodes += 1
            return super().reset(seed=seed)

        def step(self, action):
            *rest, ended, _, info = super().step(action)
            return *rest, ended, self.time == 5, info if (self.episodes, self.time) != (2, 2) else None

    hosts = Environments(Later, 1, SPACE, 2)
    hosts.init(0)
    with pytest.raises(ValueError, match=r"environment 0 \(Later\), step 2 of its episode .*: info: got None"):
        hosts.collect(lambda obs: np.zeros((1, 2), np.float32), 9)


@pytest.mark.parametrize(
    ("options", "message"),
    [({name: change}, message) for name, rows in (("change", STEPS), ("begin", RESETS)) for change, message in rows],
    ids=[message for _, message in STEPS + RESETS],
)
def test_check_problem_names_wrong_results(options, message):
    with pytest.raises(ProblemError) as caught:
        fx.check_problem(partial(Misbehaving, **options), steps=6)
    thing = thing_of(message)
    wanted = {"vector_reward": "targets", "reward": "reward|targets", "target": "targets"}.get(thing, thing)
    assert re.search(wanted, str(caught.value)), caught.value


@pytest.mark.parametrize(("change", "message"), STEPS, ids=[message for _, message in STEPS])
def test_wrong_results_of_wrapped_environments_name_the_step(change, message):
    """The wrapper changes some words; it names the step as well."""
    hosts = Environments(lambda: fx.wrap(Misbehaving(change), Misbehaving.network), 1, SPACE, 2, n_factors=2)
    hosts.init(3)
    with pytest.raises((ValueError, FloatingPointError, KeyError)) as caught:
        hosts.collect(lambda obs: np.zeros((1, 2), np.float32), 9)
    text = "; ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert f"environment 0 (Misbehaving), step {STEP} of its episode with seed 3" in text
    thing = thing_of(message)
    assert re.search({"target": "target|reward", "vector_reward": "reward"}.get(thing, thing), text)


class OldStep(gym.Env):
    """Has the interface of Gym before 0.26."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.MultiBinary(2)
    network = fx.InfluenceNetwork.identity(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, {}


class OldReset(OldStep):
    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32)


class NoSeed(OldStep):
    def reset(self):
        return np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (OldStep, "step: got 4 values, want five values"),
        (OldReset, r"reset: got .*want \(observation, info\)"),
        (NoSeed, r"reset: .*seed.*; want reset\(self, \*, seed=None, options=None\)"),
    ],
)
@pytest.mark.parametrize("use", ["learn", "check_problem", "discover", "actions_reach_observations", "wrap"])
def test_old_interfaces_are_named_wherever_environments_are_opened(make, message, use):
    uses = {
        "learn": lambda: fx.FactoredPPO(make, n_envs=1, n_steps=8, batch_size=8).learn(8, progress_bar=False),
        "check_problem": lambda: fx.check_problem(make),
        "discover": lambda: fx.discover(make, horizon=2, trials=1),
        "actions_reach_observations": lambda: actions_reach_observations(make),
        "wrap": fx.wrap(make, np.ones((2, 1))),
    }
    with pytest.raises(ValueError, match=message):
        uses[use]()
