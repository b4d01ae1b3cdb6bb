"""Simulators that allow one instance per process: everywhere, from Python and from the command line."""

import os
import sys
from functools import partial

import numpy as np
import pytest
from rollouts.environments import OnlyOne

import factorax as fx
from factorax.cli import main

SMALL = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "hidden": (4,), "policy": "joint"}
NET = fx.InfluenceNetwork.identity(3)


@pytest.fixture(autouse=True)
def _closed():
    yield
    was_open, OnlyOne.is_open = OnlyOne.is_open, False
    assert not was_open, "an environment was left open"


@pytest.mark.filterwarnings("ignore:policy. all actors read the full observation")
@pytest.mark.parametrize("wrapped", [False, True])
def test_processes_step_none_in_the_process_of_the_learner(tmp_path, wrapped):
    make = partial(OnlyOne, str(tmp_path))
    make = fx.wrap(make, NET) if wrapped else make
    model = fx.FactoredPPO(make, n_envs=2, rollouts="processes", **SMALL)
    model.learn(32, progress_bar=False)
    first = model.evaluate(3)["episodes"]
    np.testing.assert_array_equal(model.evaluate(3)["episodes"], first)
    model.learn(16, progress_bar=False, reset_num_timesteps=False)
    model.close()
    stepped = {int(name) for name in os.listdir(tmp_path)}
    assert len(stepped) >= 2 + 1 + 2 + 2  # training, the check of what actors observe, and two evaluations
    assert os.getpid() not in stepped


@pytest.mark.filterwarnings("ignore:policy. all actors read the full observation")
def test_one_environment_in_this_process_trains_and_is_evaluated():
    """An evaluation closes the environment of training, which is then replayed."""
    models = [fx.FactoredPPO(OnlyOne, n_envs=1, **SMALL | {"batch_size": 8}) for _ in range(2)]
    models[0].learn(32, progress_bar=False)
    models[0].close()
    model = models[1].learn(16, progress_bar=False)
    in_process = model.evaluate(3)["episodes"]
    model.learn(16, progress_bar=False, reset_num_timesteps=False).close()
    for ours, theirs in zip(*(m.learner.behaviour(m.state).arrays().kernels for m in models), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    by_workers = fx.FactoredPPO(OnlyOne, n_envs=1, rollouts="processes", **SMALL | {"batch_size": 8})
    by_workers.learn(16, progress_bar=False)
    np.testing.assert_array_equal(by_workers.evaluate(3)["episodes"], in_process)
    by_workers.close()


@pytest.mark.parametrize("rollouts", ["inline", "processes"])
def test_all_are_closed_after_an_error(rollouts):
    model = fx.FactoredPPO(
        partial(OnlyOne, crash=True), n_envs=1, rollouts=rollouts, check_network=False, **SMALL | {"batch_size": 8}
    )
    with pytest.raises(KeyError, match="lane 7"):
        model.learn(8, progress_bar=False)
    with pytest.raises(KeyError, match="lane 7"):
        model.evaluate(2)


def test_checks_and_discovery_use_one_environment():
    fx.check_problem(OnlyOne, steps=20)
    fx.check_problem(fx.wrap(OnlyOne, NET), steps=20)
    with pytest.raises(fx.rollouts.ProblemError, match="got 3 targets"):
        fx.check_problem(OnlyOne, np.ones((3, 2)), weights=np.ones(2), steps=20)
    with pytest.raises(KeyError, match="lane 7"):
        fx.check_problem(partial(OnlyOne, crash=True))
    network = fx.discover(fx.wrap(OnlyOne, NET), horizon=2, trials=1)
    assert network.shape == (3, 3)
    with pytest.raises(KeyError, match="lane 7"):
        fx.discover(partial(OnlyOne, crash=True), horizon=2, trials=1)
    with pytest.raises(ValueError, match="exogenous"):
        fx.discover(OnlyOne, horizon=2, trials=1, exogenous=[99])


wrapped = fx.wrap(OnlyOne, NET)
"""A module that the command line imports: this starts nothing."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:policy. all actors read the full observation")
def test_commands(tmp_path, monkeypatch):
    run, this = str(tmp_path / "run"), "rollouts.test_one_per_process:wrapped"
    sizes = ["--n-envs", "2", "--n-steps", "8", "--batch-size", "16", "--total-timesteps", "32", "--policy", "joint"]
    for arguments in (
        ["train", this, "--rollouts", "processes", *sizes, "--out", run],
        ["evaluate", run, "--problem", this],
        ["report", run, "--problem", this, "--out", str(tmp_path / "report.html")],
        ["discover", this, "--method", "score", "--horizon", "2", "--samples", "200"],
        ["discover", this, "--horizon", "2", "--trials", "1", "--out", str(tmp_path / "net.npz")],
    ):
        monkeypatch.setattr(sys, "argv", ["factorax", *arguments])
        main()
        assert not OnlyOne.is_open
    assert "no episode could be played" not in (tmp_path / "report.html").read_text()
