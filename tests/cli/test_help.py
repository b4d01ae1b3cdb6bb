"""`--help` of each command, compared with the text files in `help/` (see `same_help` in conftest.py)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

import factorax.cli as cli
from factorax.cli.train import GROUPS
from factorax.ppo.presets import read_preset


@pytest.mark.parametrize("name", cli._COMMANDS)
def test_help_is_that_of_the_snapshot(name, same_help):
    same_help(name, Path(__file__).parent / "help")


@pytest.mark.filterwarnings("ignore:.*get_parser:DeprecationWarning")
@pytest.mark.parametrize("name", cli._COMMANDS)
def test_every_option_has_a_help(name):
    parser = tyro.extras.get_parser(cli.command_of(name))
    texts = {
        action.dest: re.sub(r"\((default:.*|required)\)$", "", str(action.help)).strip() for action in parser._actions
    }
    assert len(texts) > 2
    assert [option for option, text in texts.items() if not text.endswith((".", "exit"))] == []
    assert "Args:" not in str(parser.description)


def test_every_setting_has_a_title():
    """Except those of PPO, under whose title all others are."""
    titled = [name for names in GROUPS.values() for name in names]
    assert len(set(titled)) == len(titled)
    assert {"network", "out", "n_envs", "hidden", ...} <= set(titled)


@pytest.mark.parametrize(
    ("arguments", "preset"),
    [
        (["queues:4x4"], "queues"),
        (["--seed", "3", "queues:4x4"], "queues"),
        (["CartPole-v1", "--preset", "queues"], "queues"),
        (["--preset=queues", "chain:4"], "queues"),
        (["CartPole-v1"], None),
        (["--preset", "none", "queues:4x4"], None),
    ],
)
def test_help_of_train_says_what_the_preset_changes(arguments, preset, factorax):
    _, out, _ = factorax("train", *arguments, "--help")
    assert ("The preset queues changes defaults" in out) == (preset is not None)
    if preset is not None:
        assert f"learning_rate {read_preset('queues').config.learning_rate}" in out


def test_the_list_of_commands_is_printed_without_tyro_and_jax():
    """It takes less than 0.2 s of CPU time, most of which either of them would take."""
    program = "import sys; from factorax import cli; sys.argv = ['factorax', '--help']; cli.main()"
    program += "; print(sorted({'tyro', 'jax', 'numpy', 'rich'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, capture_output=True, text=True, check=True)
    *rows, modules = done.stdout.splitlines()
    assert modules == "[]"
    for name in cli.commands():
        assert any(row.startswith(f"  {name} ") for row in rows)


def test_the_list_of_commands_says_what_their_docstrings_say():
    for name, (_, about) in cli._COMMANDS.items():
        first = " ".join((cli.command_of(name).__doc__ or "").split("\n\n")[0].split())
        assert first == about


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_help_and_errors_are_printed_in_any_encoding(encoding):
    command = [sys.executable, "-m", "factorax.cli", "train"]
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for arguments, code in (["--help"], 0), (["λ→ψ"], 2):
        done = subprocess.run([*command, *arguments], env=environment, capture_output=True)
        assert done.returncode == code
        assert b"Traceback" not in done.stderr
    assert rb"\u03bb" in done.stderr


def test_a_reader_who_has_seen_enough_ends_a_command_quietly(tmp_path):
    """As in `factorax … | head`: also where the output is written only when Python ends."""
    for arguments in (["--help"], ["train", "--help"]):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "factorax.cli", *arguments]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        assert (done.returncode, done.stderr) == (1, b"")
