"""The command `factorax`."""

import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from ..problems.failures import EpisodeLost
from ..rollouts.supervising import WorkerDied
from ..structure.labels import printable
from .arguments import check_arguments
from .discovery import discover
from .paper import claims, reproduce
from .report import report
from .runs import compare, evaluate, plot, watch
from .train import train, train_with_preset

_LINES = "\n\t"
_OF_PATHS = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)


def commands(arguments: Sequence[str] = ()) -> dict[str, Callable[..., None]]:
    """Return the function of each command; `train` gets the default values that these arguments select."""
    return {
        "reproduce": reproduce,
        "claims": claims,
        "train": train_with_preset(arguments[1:]) if arguments[:1] == ["train"] else train,
        "evaluate": evaluate,
        "watch": watch,
        "plot": plot,
        "compare": compare,
        "report": report,
        "discover": discover,
    }


def main() -> int:
    """Parse the command line and run the command. Warnings and errors that the user can fix are printed on one line.

    Returns the exit code: 2 if the command or a file that it names cannot be used; 1 if the command failed while it
    ran, for example on a full disk; 130 if it was interrupted.
    """
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP, and nohup ignores it
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _each_once()
            available = commands(sys.argv[1:])
            check_arguments(sys.argv[1:], available)
            tyro.extras.subcommand_cli_from_dict(
                available,
                prog="factorax",
                config=(tyro.conf.FlagCreatePairsOff,),
                description="Factored policy gradients: credit each action only with the targets that it influences.",
            )
    except KeyboardInterrupt:
        print("stopped; run the same command again to resume", file=sys.stderr)
        return 130
    except (ValueError, TypeError, ImportError, *_OF_PATHS) as error:
        print(f"factorax: {printable(error, keep=_LINES)}", file=sys.stderr)
        return 2
    except (OSError, FloatingPointError, MemoryError, EpisodeLost, WorkerDied) as error:
        print(f"factorax: {printable(error, keep=_LINES)}", file=sys.stderr)
        return 1
    return 0


def _each_once() -> Any:
    """Return a hook that prints each warning once on stderr, without its position in the code."""
    shown: set[str] = set()

    def show(message: Warning | str, *where: Any, **options: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            print(f"factorax: warning: {printable(message, keep=_LINES)}", file=sys.stderr)

    return show
