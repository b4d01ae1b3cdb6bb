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
    """Return the function of every command; that of train has the defaults that these arguments choose."""
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
    """Parse the command line and run the command; errors that the user can fix, and warnings, are one line each.

    Returns the exit code: 2 if the command, or a file that it names, cannot be used as it is; 1 if the command failed
    on the way, as on a full disk; 130 if it was stopped.
    """
    for name in ("SIGTERM", "SIGHUP"):  # there is no SIGHUP on Windows, and nohup ignores it
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
                description="Factored policy gradients: credit every action with the objectives it influences.",
            )
    except KeyboardInterrupt:
        print("stopped; the same command resumes it", file=sys.stderr)
        return 130
    except (ValueError, TypeError, ImportError, *_OF_PATHS) as error:
        print(f"factorax: {printable(error, keep=_LINES)}", file=sys.stderr)
        return 2
    except (OSError, FloatingPointError, MemoryError, EpisodeLost, WorkerDied) as error:
        print(f"factorax: {printable(error, keep=_LINES)}", file=sys.stderr)
        return 1
    return 0


def _each_once() -> Any:
    """Return a hook that shows each warning once, on the error stream, without its place in the code."""
    shown: set[str] = set()

    def show(message: Warning | str, *where: Any, **options: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            print(f"factorax: warning: {printable(message, keep=_LINES)}", file=sys.stderr)

    return show
