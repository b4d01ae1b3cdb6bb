"""`--help` of each command, compared with the text files in `help/` (see `same_help` in conftest.py)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tyro

import factorax.cli as cli


@pytest.mark.parametrize("name", cli._COMMANDS)
def test_help_is_that_of_the_snapshot(name, same_help):
    same_help(name, Path(__file__).parent / "help")


@pytest.mark.filterwarnings("ignore:.*get_parser:DeprecationWarning")
@pytest.mark.parametrize("name", cli._COMMANDS)
def test_every_option_has_a_help(name):
    parser = tyro.extras.get_parser(cli.command_of(name, []))
    texts = {
        action.dest: re.sub(r"\((default:.*|required)\)$", "", str(action.help)).strip() for action in parser._actions
    }
    assert len(texts) > 2
    assert [option for option, text in texts.items() if not text.endswith((".", "exit"))] == []
    assert "Args:" not in str(parser.description)


def test_the_list_of_commands_says_what_their_docstrings_say():
    for name, (_, about) in cli._COMMANDS.items():
        first = " ".join((cli.command_of(name, []).__doc__ or "").split("\n\n")[0].split())
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
