"""The commands train, evaluate, plot and compare: what they print and write, and how they end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from factorax import runs
from factorax.ppo import Config, FactoredPPO

PATHS = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
SETTINGS = ["--n-envs", "4", "--n-steps", "8", "--batch-size", "32", "--n-epochs", "1", "--hidden", "8"]


pytestmark = pytest.mark.usefixtures("surroundings")


@pytest.mark.slow
def test_from_a_problem_to_a_comparison(factorax, tmp_path):
    for method in ("factored", "ppo"):
        code, out, err = factorax(
            "train", "contextual-bandit:3", *SETTINGS, "--method", method, "--total-timesteps", 64
        )
        assert (code, err) == (0, "")
        assert "64 steps; return of 10 episodes" in out
    folders = sorted((tmp_path / "runs").iterdir())
    assert [f.name for f in folders] == ["contextual-bandit-3-factored-0", "contextual-bandit-3-ppo-0"]
    assert json.loads((folders[0] / "config.json").read_text())["config"]["hidden"] == [8]
    assert len(runs.read_metrics(folders[0])) == 2
    code, out, _ = factorax("evaluate", folders[0], "--episodes", 7)
    assert code == 0
    assert "(standard error, 7 episodes)" in out
    assert len(out.splitlines()) == 1 + 3  # and a line for every target
    code, out, _ = factorax("compare", *folders)
    assert code == 0
    assert "method factored" in out
    assert "P(" not in out  # one seed does not tell how likely an improvement is
    code, out, _ = factorax("compare", *folders, "--json")
    assert json.loads(out)["final"]["method ppo, policy joint"]["seeds"] == 1
    code, out, _ = factorax("plot", *folders, "--out", "both.png")
    assert code == 0
    assert (tmp_path / "both.png").read_bytes()[:4] == b"\x89PNG"
    code, _, err = factorax("train", "contextual-bandit:3", *SETTINGS, "--total-timesteps", 64, "--gamma", 0.5)
    assert code == 2
    assert "gamma: 0.99 in the folder, 0.5 requested" in err


@pytest.mark.slow
def test_a_score_is_kept_until_settings_change(factorax, tmp_path):
    """Also at the same number of steps, and if the command that changed them ended before it could score."""
    train = ["train", "contextual-bandit:3", *SETTINGS, "--total-timesteps", 64, "--out", "run"]
    path = tmp_path / "run" / "evaluation.json"
    assert factorax(*train)[0] == 0
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | {"episodes": [123.0] * 10}))
    assert "return of 10 episodes 123 ±" in factorax(*train)[1]
    code, out, err = factorax(*train, "--gamma", 0.5, "--force")
    assert (code, err) == (0, "")
    assert "return of 10 episodes 123 ±" not in out
    assert json.loads(path.read_text()) == found  # the policy has learnt nothing since
    config = Config.read(runs.read_config(path.parent)["config"])
    runs.train("contextual-bandit:3", config, path.parent, force=True)
    assert not path.exists()


@pytest.mark.slow
def test_who_steps_may_change_in_the_middle_of_a_run(factorax):
    for steps, rollouts in ((32, "inline"), (64, "processes")):
        code, out, err = factorax(
            "train", "CartPole-v1", *SETTINGS, "--total-timesteps", steps, "--rollouts", rollouts, "--out", "run"
        )
        assert (code, err) == (0, "")
        assert f"{steps} steps; return" in out


@pytest.mark.slow
def test_a_finished_training_is_reported_in_any_encoding():
    command = [sys.executable, "-m", "factorax.cli", "train", "contextual-bandit:3", *SETTINGS]
    command += ["--total-timesteps", "64", "--out", "r\u202e"]
    environment = os.environ | PATHS | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(command, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\xb1" in done.stdout
    assert rb"the run is in r\u202e" in done.stdout


def test_a_second_interrupt_ends_quietly(tmp_path):
    """While the process ends, for example in the `atexit` functions of JAX."""
    program = """if True:
        import atexit, pathlib, sys, time
        from factorax import cli
        def interrupted(*_): raise KeyboardInterrupt
        def wait():
            pathlib.Path("waiting").touch()
            time.sleep(60)
        atexit.register(wait)
        cli.command_of = interrupted
        sys.argv = ["factorax", "train"]
        sys.exit(cli.main())"""
    process = subprocess.Popen([sys.executable, "-c", program], env=os.environ | PATHS, stderr=subprocess.PIPE)
    while not Path("waiting").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[1] == b"stopped; run the same command again to resume\n"
    assert process.returncode == 130


def test_numbers_that_are_none_end_in_an_error(factorax, monkeypatch):
    def fail(*_, **__):
        raise FloatingPointError("environment 1, step 2 of this rollout: target 3 is nan")

    monkeypatch.setattr(FactoredPPO, "learn", fail)
    code, _, err = factorax("train", "contextual-bandit:3", *SETTINGS)
    assert code == 1
    assert err == "factorax: environment 1, step 2 of this rollout: target 3 is nan\n"
