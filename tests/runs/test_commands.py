"""Commands that train a run again: what they say is what the run was."""

import dataclasses
import json
import shlex

import pytest

from factorax.cli.arguments import check_arguments
from factorax.cli.train import train
from factorax.learning import Config
from factorax.runs.commands import train_command


def stored(config, problem="chain:4"):
    return {"problem": problem} | json.loads(json.dumps(dataclasses.asdict(config)))


@pytest.mark.parametrize(
    "config",
    [
        Config(),
        Config(hidden=(32, 16), anneal=("learning_rate",), normalize_advantage=False, gamma=0.9, seed=5),
        Config(policy="shared", critic="factor", target_kl=0.02, bounded="tanh", n_envs=4, n_steps=32, batch_size=16),
    ],
)
def test_the_command_is_one_that_the_command_line_takes_and_has_the_settings(config):
    command = train_command(stored(config), seed=config.seed, network="complete", estimator="vanilla", out="runs/a b")
    program, *arguments = shlex.split(command)
    assert program == "factorax"
    check_arguments(arguments, {"train": train})
    assert arguments[:2] == ["train", "chain:4"]
    assert arguments[-2:] == ["--out", "runs/a b"]
    assert "--no-normalize-advantage" in arguments or config.normalize_advantage
    for name, value in (("--gamma", config.gamma), ("--seed", config.seed)):
        assert name not in arguments or float(arguments[arguments.index(name) + 1]) == value


def test_a_schedule_is_named_because_only_python_takes_it():
    settings = stored(Config()) | {"learning_rate": [[0.0, 1e-3], [1.0, 0.0]]}
    command = train_command(settings, seed=0, network="own", estimator="factored")
    assert command.endswith("# and the schedule of learning_rate, which only Python accepts")
