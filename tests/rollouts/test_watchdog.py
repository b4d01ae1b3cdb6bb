"""An environment that hangs in this process: a message says which, in which step, and where in its code."""

import sys
import threading
from dataclasses import replace

import gymnasium as gym
import pytest
from rollouts.helping import iterations
from rollouts.misbehaving import Misbehaving

from factorax.rollouts import Inline, NumpyPolicy, Plan, watchdog
from factorax.rollouts.watchdog import watched
from factorax.spaces import ActionSpace


class Told:
    """Stands in for `print`, and says when something was written. `hangs` says when an environment hangs."""

    def __init__(self):
        self.text, self.event, self.hangs = "", threading.Event(), threading.Event()

    def __call__(self, text, *, file, flush):
        assert file is sys.stderr
        self.text += text
        self.event.set()


class Hangs(Misbehaving):
    """Waits in its third step, or in its reset, until the message has been written, or for a minute."""

    told = None
    where = "step"

    def reset(self, *, seed=None, options=None):
        if self.where == "reset":
            self.deadlock()
        return super().reset(seed=seed)

    def step(self, action):
        if self.where == "step" and self.time == 2:
            self.deadlock()
        return super().step(action)

    def deadlock(self):
        self.told.hangs.set()
        assert self.told.event.wait(60.0)


@pytest.fixture
def told(monkeypatch):
    stream = Told()
    monkeypatch.setattr(watchdog, "print", stream, raising=False)
    monkeypatch.setattr(Hangs, "told", stream)
    return stream


@pytest.fixture
def late(monkeypatch, told):
    """A timer that ends when the environment hangs: on a busy machine, the rollout may not have started in time."""

    class Late(threading.Timer):
        def run(self):
            if not told.event.is_set():  # a later rollout does not hang
                assert told.hangs.wait(60.0)
                self.function(*self.args, **self.kwargs)

    monkeypatch.setattr(threading, "Timer", Late)


def plan_of(make, n_envs=2):
    return Plan(
        make=make,
        policy=NumpyPolicy(ActionSpace.of(make.action_space), "joint"),
        n_envs=n_envs,
        n_steps=4,
        n_inputs=2,
        n_factors=2,
        n_targets=2,
    )


def play(plan, seconds):
    backend = Inline(plan, seconds)
    try:
        return [backend.collect(iteration) for iteration in iterations(plan, 2)]
    finally:
        backend.close()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("step", "it is in environment 0 (Hangs), step 3 of its episode with seed 3:\n"),
        ("reset", "it is in the reset of environment 0 (Hangs):\n"),
    ],
)
def test_a_hang_is_reported_with_its_place_and_the_rollout_goes_on(where, message, told, late, monkeypatch):
    monkeypatch.setattr(Hangs, "where", where)
    rollouts = play(plan_of(Hangs), 0.05)
    assert len(rollouts) == 2
    assert told.text.startswith(
        "factorax: warning: a rollout has not ended after 0.05 s (fragment_seconds); " + message
    )
    assert "self.deadlock()" in told.text
    assert "assert self.told.event.wait(60.0)" in told.text
    assert "rollouts='processes'" in told.text


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("step", "it is in environments 0 to 1 (SyncVectorEnv), step 3:\n"),
        ("reset", "it is in the reset of environments 0 to 1 (SyncVectorEnv), step 0:\n"),
    ],
)
def test_a_vector_that_hangs(where, message, told, late, monkeypatch):
    monkeypatch.setattr(Hangs, "where", where)
    plan = replace(plan_of(Hangs), make=lambda: gym.vector.SyncVectorEnv([Hangs] * 2), num_envs=2)
    play(plan, 0.05)
    assert f"a rollout has not ended after 0.05 s (fragment_seconds); {message}" in told.text
    assert "self.deadlock()" in told.text


def test_nothing_is_said_in_time_and_no_timer_is_left(told):
    before = set(threading.enumerate())
    play(plan_of(Misbehaving), 60.0)
    assert told.text == ""
    assert set(threading.enumerate()) <= before  # those of earlier tests may end


def test_one_timer_for_a_rollout(monkeypatch, told):
    started = []

    class Timer(threading.Timer):
        def start(self):
            started.append(self.interval)
            super().start()

    monkeypatch.setattr(threading, "Timer", Timer)
    play(plan_of(Misbehaving), 60.0)
    assert started == [60.0, 60.0]


def test_what_is_not_an_environment_is_reported_without_a_place(told):
    with watched(0.05):
        assert told.event.wait(60.0)
    assert "a rollout has not ended after 0.05 s (fragment_seconds). It continues" in told.text


@pytest.mark.parametrize("seconds", [float("inf"), 1e300])
def test_no_limit_is_no_timer(seconds, monkeypatch):
    monkeypatch.setattr(threading, "Timer", None)
    with watched(seconds):
        pass
