"""The command `factorax`."""

import signal
import sys
import warnings
from typing import Any

import tyro

from ..problems.failures import EpisodeLost
from ..rollouts.supervising import WorkerDied
from .discovery import discover
from .paper import claims, reproduce
from .runs import compare, evaluate, plot, train, watch


def main() -> int:
    """Parse the command line; errors that the user can mend are one line, not a traceback, and so are warnings."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _each_once()
            tyro.extras.subcommand_cli_from_dict(
                {
                    "reproduce": reproduce,
                    "claims": claims,
                    "train": train,
                    "evaluate": evaluate,
                    "watch": watch,
                    "plot": plot,
                    "compare": compare,
                    "discover": discover,
                },
                prog="factorax",
                config=(tyro.conf.FlagCreatePairsOff,),
                description="Factored policy gradients: credit every action with the objectives it influences.",
            )
    except KeyboardInterrupt:
        print("stopped; the same command continues where it was", file=sys.stderr)
        return 130
    except (
        ValueError,
        TypeError,
        OSError,
        FloatingPointError,
        ImportError,
        MemoryError,
        EpisodeLost,
        WorkerDied,
    ) as error:
        print(f"factorax: {error}", file=sys.stderr)
        return 1
    return 0


def _each_once() -> Any:
    """Show a warning on the error stream, without its place in the code, and none twice."""
    said: set[str] = set()

    def show(message: Warning | str, *where: Any, **options: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            print(f"factorax: warning: {message}", file=sys.stderr)

    return show
