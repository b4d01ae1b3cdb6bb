"""Workers where no process inherits file descriptors, as on Windows: the same batches, and nobody else is let in."""

import os
import socket
import subprocess
import sys
import time

import pytest
from rollouts.environments import Drift
from rollouts.helping import assert_same, factory, inline, iterations, plan_of, play

from factorax.rollouts import LostWarning, ProcessBackend, channel
from factorax.rollouts.backend import WorkerDied

HANGING = """
import os, sys, time
from rollouts.environments import Drift
from rollouts.helping import plan_of, play
from factorax.rollouts import ProcessBackend, channel

class Hanging(Drift):
    def step(self, action):
        print(os.getpid(), flush=True)
        time.sleep(600)

channel.INHERITS = False
plan = plan_of(Hanging)
play(ProcessBackend(plan, 1, 600.0), plan)
"""


@pytest.fixture
def inherits_nothing(monkeypatch):
    """Popen refuses `pass_fds`, as it does on Windows."""

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, pass_fds=(), **options):
            if pass_fds:
                raise ValueError("pass_fds not supported on Windows.")
            super().__init__(*arguments, **options)

    monkeypatch.setattr(channel, "INHERITS", False)
    monkeypatch.setattr(subprocess, "Popen", Popen)


@pytest.mark.usefixtures("inherits_nothing")
def test_workers_that_inherit_nothing_give_what_this_process_gives():
    plan = plan_of(factory(Drift, "mixed", masks=True), policy="shared", log_probs=True)
    rollouts = ProcessBackend(plan, 2, 60.0)
    assert_same(play(rollouts, plan), inline(plan))


@pytest.mark.usefixtures("inherits_nothing")
def test_a_worker_that_inherits_nothing_is_replaced_when_it_was_killed():
    plan = plan_of(factory(Drift, "categorical"))
    first, second = iterations(plan, 2)
    rollouts = ProcessBackend(plan, 1, 60.0)
    batches = [rollouts.collect(first)]
    rollouts.workers[0].handle.process.kill()
    with pytest.warns(LostWarning, match="was replaced, and its fragment is played again"):
        batches.append(rollouts.collect(second))
    rollouts.close()
    assert_same(batches, inline(plan, 2))


@pytest.mark.usefixtures("inherits_nothing")
def test_a_worker_that_ends_before_it_is_connected_has_died(monkeypatch, tmp_path):
    monkeypatch.setattr(channel, "_COMMAND", (sys.executable, "-c", "raise SystemExit(7)"))
    memory = type("Memory", (), {"path": str(tmp_path / "memory")})()
    with pytest.raises(WorkerDied, match="ended with exit code 7 before it was connected"):
        channel.launch(memory, os.environ)


def test_who_does_not_know_the_token_is_not_heard():
    token = b"t" * 32
    with socket.create_server((channel.HOST, 0)) as server:
        for sent in (b"", b"x" * 32, token[:-1], token):
            with socket.create_connection(server.getsockname()) as caller:
                caller.sendall(sent)
                caller.shutdown(socket.SHUT_WR)
                accepted, _ = server.accept()
                with accepted:
                    assert channel._has_sent(accepted, token) == (sent == token)
                    assert (accepted.fileno() == -1) == (sent != token)  # closed


def test_a_worker_that_hangs_ends_with_its_driver():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, env=environment) as driver:
        assert driver.stdout is not None
        worker = int(driver.stdout.readline())
        driver.kill()
    patience = time.monotonic() + 60
    while time.monotonic() < patience:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail(f"worker {worker} outlives its driver")
