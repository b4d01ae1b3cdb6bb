"""Commands that train a run again: what they say is what the run was."""

import dataclasses
import shlex
from contextlib import suppress
from pathlib import Path

import pytest

from factorax import runs
from factorax.ppo import Config
from factorax.runs.folder import settings_as_json
from factorax.runs.gain import train_command


def stored(config, problem="chain:4"):
    return {"problem": problem} | settings_as_json(config)


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(hidden=(32, 16), anneal=("learning_rate",), normalize_advantage=False, gamma=0.9, seed=5),
        Config(policy="shared", target_kl=0.02, distribution="tanh", n_envs=4, n_steps=32, batch_size=16),
    ],
)
def test_the_command_trains_with_these_settings(config, factorax, monkeypatch):
    caught = []
    monkeypatch.setattr(runs, "train", lambda *arguments, **options: caught.append((*arguments, options["network"])))
    command = train_command(stored(config), seed=config.seed, network="complete", method="ppo", out="runs/a b")
    program, *arguments = shlex.split(command)
    assert program == "factorax"
    with suppress(AttributeError):  # of the model that was not trained
        factorax(*arguments)
    assert caught == [("chain:4", dataclasses.replace(config, method="ppo"), Path("runs/a b"), "complete")]


def test_a_schedule_is_named_because_only_python_takes_it():
    settings = stored(Config()) | {"learning_rate": [[0.0, 1e-3], [1.0, 0.0]]}
    command = train_command(settings, seed=0, network="own", method="factored")
    assert command.endswith("# and the schedule of learning_rate, which only Python accepts")
