"""`factorax watch --help`, compared with a text file."""

from pathlib import Path


def test_help_is_that_of_the_snapshot(same_help):
    same_help("watch", Path(__file__).parent / "help")
