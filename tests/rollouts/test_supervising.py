"""Workers that are killed, hang or lose their minds; and what is left when the driver is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from rollouts.environments import Drift, External, Forgetful, Littering, Mortal, Once
from rollouts.helping import N_STEPS, assert_same, factory, inline, iterations, plan_of, play
from rollouts.vectors import sync, vector_plan

from factorax.rollouts import LostWarning, ProcessBackend, WorkerDied


def vectors(make):
    return vector_plan(partial(sync, AutoresetMode.DISABLED, make))


kinds = pytest.mark.parametrize(("planned", "alone"), [(plan_of, plan_of), (vectors, vector_plan)], ids=["one", "many"])
"""How workers step environments, and the plan of single environments with the same transitions."""


@pytest.mark.slow
@kinds
@pytest.mark.parametrize("what", ["die", "hang"])
def test_a_worker_lost_in_the_middle_of_a_fragment_leaves_no_trace(what, planned, alone, tmp_path):
    """It kills itself by SIGKILL, or stands still, one step into the second fragment, and in the middle of episodes."""
    plan = planned(partial(Once, str(tmp_path / "mark"), what))
    cause = {"die": r"was killed by signal 9 \(SIGKILL", "hang": r"had not answered after 5 s \(the setting seconds\)"}[
        what
    ]
    message = rf"worker \d \(environments \d to \d\) was replaced, and its fragment is played again: it {cause}"
    with pytest.warns(LostWarning, match=message) as warned:
        transitions = play(ProcessBackend(plan, 2, 5.0 if what == "hang" else 60.0), plan, 4)
    assert len(warned) == 1, [str(x.message) for x in warned]
    assert not os.path.exists(f"/proc/{(tmp_path / 'mark').read_text()}")
    assert_same(transitions, inline(alone(Drift), 4))
    assert not (transitions[0].truncated.any(axis=0)).all()  # some episodes were replayed from the first fragment


@kinds
def test_killed_from_without_while_it_waits(planned, alone):
    plan = planned(Drift)
    rollouts = ProcessBackend(plan, 2, 60.0)
    try:
        first, second = iterations(plan, 2)
        transitions = [rollouts.collect(first)]
        process = rollouts.workers[1].handle.process
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with pytest.warns(LostWarning, match=r"worker 1 .* was killed by signal 9"):
            transitions.append(rollouts.collect(second))
    finally:
        rollouts.close()
    assert_same(transitions, inline(alone(Drift), 2))


def test_what_killed_workers_leave_in_the_temporary_folder_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    plan = plan_of(Littering)
    rollouts = ProcessBackend(plan, 2, 60.0)
    rollouts.collect(*iterations(plan, 1))
    assert len(list(tmp_path.glob("*/littering-*"))) == plan.n_envs
    for worker in rollouts.workers:
        worker.handle.process.kill()
    rollouts.close()
    assert not list(tmp_path.glob("*/littering-*"))


@pytest.mark.skipif(sys.platform == "win32", reason="has no process groups")
def test_programs_that_a_simulator_has_started_end_with_its_worker(tmp_path):
    """Those of a worker that has died, too, and that pay no heed to anything."""
    plan = replace(plan_of(Drift), make=factory(External, str(tmp_path)))
    rollouts = ProcessBackend(plan, 1, 60.0)
    try:
        first, second = iterations(plan, 2)
        rollouts.collect(first)
        before = {int(path.name) for path in tmp_path.iterdir()}
        assert len(before) == plan.n_envs
        os.kill(rollouts.workers[0].handle.process.pid, signal.SIGKILL)
        with pytest.warns(LostWarning, match="was replaced"):
            rollouts.collect(second)
        assert within(60, lambda: not any(running(pid) for pid in before))
        after = {int(path.name) for path in tmp_path.iterdir()} - before
        assert all(running(pid) for pid in after)
    finally:
        rollouts.close()
        for path in tmp_path.iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.name), signal.SIGKILL)


@pytest.mark.slow
def test_a_worker_that_dies_again_and_again_is_an_error():
    plan = plan_of(Mortal)
    rollouts = ProcessBackend(plan, 2, 60.0)
    with pytest.raises(
        WorkerDied, match=r"worker \d .* was lost 3 times over one fragment; the last time it was killed"
    ):
        play(rollouts, plan)
    assert all(worker.handle is None for worker in rollouts.workers)


def test_who_has_answered_was_in_time_however_late_it_is_heard():
    plan = plan_of(Drift)
    rollouts = ProcessBackend(plan, 2, 60.0)
    try:
        first, second = iterations(plan, 2)
        transitions = [rollouts.collect(first)]
        rollouts.begin(second)
        for worker in rollouts.workers:
            assert rollouts.wait([worker], 60.0) == [worker]
            worker.deadline = time.monotonic() - 1  # the learner has learnt meanwhile
        transitions.append(rollouts.finish())
    finally:
        rollouts.close()
    assert_same(transitions, inline(plan, 2))


def test_an_environment_that_cannot_be_repeated_is_reset(tmp_path):
    """Its transitions stay whole; only the results are no longer those of an undisturbed run."""
    plan = plan_of(Forgetful)
    rollouts = ProcessBackend(plan, 1, 60.0)
    try:
        first, second = iterations(plan, 2)
        rollouts.collect(first)
        rollouts.workers[0].handle.process.kill()
        with pytest.warns(LostWarning, match=r"was replaced|gave different observations") as warned:
            transitions = rollouts.collect(second)
    finally:
        rollouts.close()
    assert sum("gave different observations" in str(w.message) for w in warned) == len(warned) - 1 > 0
    assert transitions.obs.shape[0] == N_STEPS
    inside = ~(transitions.terminated | transitions.truncated)[:-1]
    np.testing.assert_array_equal(transitions.obs[1:][inside], transitions.next_obs[:-1][inside])


def test_workers_end_with_a_driver_that_is_killed(tmp_path):
    """Even those whose simulator hangs."""
    code = (
        "import sys; sys.path[:] = {path!r}\n"
        "from rollouts.environments import Once; from rollouts.helping import *\n"
        "from factorax.rollouts import ProcessBackend\n"
        "play(ProcessBackend((plan := plan_of(factory(Once, {mark!r}, 'hang'))), 2, 600.0), plan)"
    ).format(path=sys.path, mark=str(tmp_path / "mark"))
    driver = subprocess.Popen([sys.executable, "-c", code])
    assert within(60, lambda: (tmp_path / "mark").exists() and (tmp_path / "mark").read_text())
    workers = children(driver.pid)
    assert len(workers) == 2
    driver.kill()
    driver.wait()
    assert within(60, lambda: not any(running(pid) for pid in workers))


def within(seconds, condition):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
