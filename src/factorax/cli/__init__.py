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
from .runs import compare, evaluate, plot, watch
from .train import train, train_with_preset


def main() -> int:
    """Parses the command line and runs the command; errors that the user can mend, and warnings, are one line each."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _each_once()
            tyro.extras.subcommand_cli_from_dict(
                {
                    "reproduce": reproduce,
                    "claims": claims,
                    "train": train_with_preset(sys.argv[2:]) if sys.argv[1:2] == ["train"] else train,
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
        print("stopped; the same command resumes it", file=sys.stderr)
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
    """Returns a hook that shows each warning once, on the error stream, without its place in the code."""
    shown: set[str] = set()

    def show(message: Warning | str, *where: Any, **options: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            print(f"factorax: warning: {message}", file=sys.stderr)

    return show
