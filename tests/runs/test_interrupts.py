"""Signals while a run trains and saves, and environments that fail to close: the last checkpoint is there."""

import gc
import os
import signal
import subprocess
import sys
import threading

import pytest
from safetensors.numpy import load_file

from factorax import _files, runs
from factorax.ppo import Config
from factorax.problems.bandits import BanditEnv
from factorax.runs import training
from factorax.runs.training import Interrupts

PROBLEM = "factorax/SearchBandit-v0"
CONFIG = Config(total_timesteps=80, n_envs=2, n_steps=10, batch_size=20, n_epochs=1, hidden=(4,))


@pytest.fixture
def handlers():
    """The handlers that the command line sets."""
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", range(3))
def test_the_first_signal_raises_and_the_others_do_not_disturb(handlers, first):
    done = []
    order = handlers[first:] + handlers[:first]

    def train():
        with Interrupts() as interrupts:
            try:
                with interrupts.allow():
                    os.kill(os.getpid(), order[0])
                    done.append("trained")
            finally:
                for number in order:
                    os.kill(os.getpid(), number)
                done.append("saved")

    with pytest.raises(KeyboardInterrupt):
        train()
    assert done == ["saved"]
    assert {signal.getsignal(number) for number in handlers} == {signal.default_int_handler}


def test_a_signal_that_comes_while_saving_is_raised_afterwards(handlers):
    done = []

    def train():
        with Interrupts() as interrupts:
            with interrupts.allow():
                done.append("trained")
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("saved")

    with pytest.raises(KeyboardInterrupt):
        train()
    assert done == ["trained", "saved"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_in_a_callback_of_the_garbage_collector_is_not_lost(handlers):
    """Python drops the exception there: `check` raises it again, and so does a second signal."""

    def collected(phase, info):
        if not arrived:
            arrived.append(phase)
            os.kill(os.getpid(), signal.SIGTERM)

    def train(then):
        with Interrupts() as interrupts, interrupts.allow():
            gc.collect()
            assert arrived  # and its exception was dropped
            then(interrupts)

    gc.callbacks.append(collected)
    try:
        for then in (Interrupts.check, lambda _: os.kill(os.getpid(), signal.SIGTERM), lambda _: None):
            arrived = []
            with pytest.raises(KeyboardInterrupt):
                train(then)
    finally:
        gc.callbacks.remove(collected)


def test_other_signal_handlers_are_kept(handlers):
    heard = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Interrupts() as interrupts, interrupts.allow():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
    assert heard == [signal.SIGTERM]


def test_interrupts_work_outside_the_main_thread(handlers):
    errors = []

    def run():
        try:
            with Interrupts():
                pass
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not errors


def steps(out):
    return int(load_file(out / "checkpoints" / "last.safetensors")[".timesteps"])


@pytest.mark.slow
def test_an_environment_that_fails_to_close_loses_no_checkpoint(tmp_path, monkeypatch):
    write = training.Recorder.write

    def fail(self):
        raise RuntimeError("the simulator does not answer")

    def writing(self, metrics):
        monkeypatch.setattr(BanditEnv, "close", fail)  # until now, environments were only looked at
        write(self, metrics)

    monkeypatch.setattr(training.Recorder, "write", writing)
    with pytest.raises(RuntimeError, match="the simulator does not answer"):
        runs.train(PROBLEM, CONFIG, tmp_path / "run", progress_bar=False)
    assert steps(tmp_path / "run") == 80


def test_three_signals_lose_neither_checkpoint_nor_row(tmp_path, monkeypatch, handlers):
    write, save = training.Recorder.write, training.Recorder.keep

    def signalled(self, metrics):
        if metrics["time/total_timesteps"] == 40:
            os.kill(os.getpid(), signal.SIGHUP)  # before the row is written
        write(self, metrics)

    def keep(self):
        for number in handlers:
            os.kill(os.getpid(), number)
        save(self)

    monkeypatch.setattr(training.Recorder, "write", signalled)
    monkeypatch.setattr(training.Recorder, "keep", keep)
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        runs.train(PROBLEM, CONFIG, out, progress_bar=False)
    assert steps(out) == 40
    assert [row["time/total_timesteps"] for row in runs.read_metrics(out)] == [20, 40]


def test_an_interrupt_between_the_two_renames_of_a_checkpoint(tmp_path, monkeypatch, handlers):
    replace, calls = os.replace, []

    def interrupted(source, destination):
        replace(source, destination)
        if str(destination).endswith("previous.safetensors"):
            calls.append(destination)
            if len(calls) == 1:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    monkeypatch.setattr(os, "replace", interrupted)
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        runs.train(PROBLEM, CONFIG, out, progress_bar=False)
    assert steps(out) == 40


def test_checkpoints_are_on_the_disk_before_they_have_their_name(tmp_path, monkeypatch):
    events, fsync, replace = [], os.fsync, os.replace

    def synced(handle):
        events.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    def renamed(source, destination):
        events.append((str(source), str(destination)))
        replace(source, destination)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    _files.write_whole(tmp_path / "file", lambda file: file.write(b"content"))
    temporary = events[0]
    assert events == [temporary, (temporary, str(tmp_path / "file")), str(tmp_path)]
    events.clear()
    runs.train(PROBLEM, CONFIG, tmp_path / "run", progress_bar=False)
    folder = str(tmp_path / "run" / "checkpoints")
    new, last = f"{folder}/new.safetensors", f"{folder}/last.safetensors"
    written = next(i for i, event in enumerate(events) if event[1:] == (new,))
    assert events[written - 1] == events[written][0]
    assert events[written + 1 :] == [folder, (new, last), folder]


@pytest.mark.slow
def test_the_command_saves_at_a_hangup(tmp_path):
    """And at three signals at once."""
    command = [sys.executable, "-m", "factorax.cli", "train", "contextual-bandit:2", "--out", str(tmp_path / "run")]
    command += ["--total-timesteps", "100000000", "--n-envs", "2", "--n-steps", "4"]
    command += ["--batch-size", "8", "--hidden", "4"]
    rows = tmp_path / "run" / "metrics.jsonl"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (rows.exists() and rows.stat().st_size):
            threading.Event().wait(0.05)
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "stopped; run the same command again to resume" in errors
    assert steps(tmp_path / "run") == runs.read_metrics(tmp_path / "run")[-1]["time/total_timesteps"]
