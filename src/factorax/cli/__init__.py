"""The command `factorax`."""

import hashlib
import io
import os
import platform
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tyro

from .. import plugins

_OF_PATHS = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)
_MAX_MESSAGE = 10_000
"""Number of characters of a message that are printed: it may quote a file."""

_COMMANDS = {
    "train": ("train", "Train with factored PPO, or resume a run that was stopped."),
    "evaluate": ("runs", "Evaluate the policy of a run, or a controller of a family of problems, over full episodes."),
    "plot": (
        "runs",
        "Plot the learning curves of runs; runs that differ only in their seed form one curve with a band.",
    ),
    "compare": (
        "runs",
        "Compare runs over seeds: interquartile means, probabilities of improvement, and the part of a gain "
        "over vanilla PPO that comes from K.",
    ),
    "report": (
        "report",
        "Write a self-contained HTML report of runs: verdict, learning curves, influence network, variance "
        "reduction by K, targets, the policy in action, and how to reproduce the results. It loads nothing "
        "and can be shared as one file.",
    ),
    "discover": ("discovery", "Estimate which action influences which target."),
}
"""Module and first lines of the docstring of each command: ``factorax --help`` imports none of them."""


def _all_commands() -> dict[str, tuple[str, str]]:
    """Return the function's reference and the first line of the help of each command, those of plug-ins last."""
    ours = {name: (f"{__name__}.{module}:{name}", about) for name, (module, about) in _COMMANDS.items()}
    return ours | {name: (command.function, command.about) for name, command in plugins.commands().items()}


def commands() -> dict[str, Callable[..., None]]:
    """Return the function of each command."""
    return {name: command_of(name, ()) for name in _all_commands()}


def command_of(name: str, arguments: Sequence[str]) -> Callable[..., None]:
    """Return the function of a command; `train` gets the default values that these arguments select."""
    if name == "train" and arguments[:1] == ["train"]:
        return import_module(".train", __name__).train_with_preset(arguments[1:])
    from .arguments import command

    return command(plugins.imported(_all_commands()[name][0]))


def _listed(about: str) -> Callable[..., None]:
    """Return a function without options that stands for a command in the list of all."""

    def command() -> None: ...

    command.__doc__ = about
    return command


def main() -> int:
    """Parse the command line and run the command. Warnings and errors that the user can fix are printed on one line.

    Returns the exit code: 2 if the command or a file that it names cannot be used; 1 if the command failed while it
    ran, for example on a full disk; 130 if it was interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an encoding without "±" must not end a training that is done
            stream.reconfigure(errors="backslashreplace")
    _on_signals(signal.default_int_handler, "SIGTERM", "SIGHUP")
    line = sys.argv[1:]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _each_once()
            chosen = line[0] if line else ""
            known = _all_commands()
            missing = plugins.missing_distribution(chosen)
            if missing:
                raise ValueError(f"command: got {chosen}{missing}")
            if chosen in known:
                use_compilation_cache()  # before anything imports JAX
            tyro.extras.subcommand_cli_from_dict(
                {
                    name: command_of(name, line) if name == chosen else _listed(about)
                    for name, (_, about) in known.items()
                },
                prog="factorax",
                description="Factored policy gradients: credit each action only with the targets that it influences.",
            )
    except SystemExit:  # of help; before the exceptions below, which are imported where they are compared
        raise
    except KeyboardInterrupt:
        _on_signals(lambda *_: os._exit(130), "SIGINT", "SIGTERM", "SIGHUP")  # a second one, while the process ends
        print("stopped; run the same command again to resume", file=sys.stderr)
        return 130
    except (ValueError, TypeError, ImportError, *_OF_PATHS) as error:
        print(f"factorax: {_printable(error)}", file=sys.stderr)
        return 2
    except (OSError, FloatingPointError, MemoryError, *_failures()) as error:
        print(f"factorax: {_printable(error)}", file=sys.stderr)
        return 1
    return 0


def _on_signals(handler: Callable[..., Any], *names: str) -> None:
    """Set the handler of signals, except of those that are ignored, as nohup ignores SIGHUP."""
    for name in names:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _failures() -> tuple[type[Exception], ...]:
    """Return the exceptions of simulators and workers that failed."""
    from ..problems.failures import EpisodeLost
    from ..rollouts.backend import WorkerDied

    return EpisodeLost, WorkerDied


def _printable(text: Any) -> str:
    from ..structure.labels import printable

    return printable(text, keep="\n\t", limit=_MAX_MESSAGE)


def _each_once() -> Any:
    """Return a hook that prints each warning once on stderr, without its position in the code."""
    shown: set[str] = set()

    def show(message: Warning | str, *where: Any, **options: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            print(f"factorax: warning: {_printable(message)}", file=sys.stderr)

    return show


SETTING = "FACTORAX_COMPILATION_CACHE"
"""Environment variable with the folder of the cache, or ``off``."""
JAX_FOLDER = "JAX_COMPILATION_CACHE_DIR"
MAX_SIZE = 2**30
"""Size of the cache in bytes above which JAX deletes the programs that were not used for longest."""


def use_compilation_cache() -> None:
    """Make JAX store compiled programs in a folder of the user; must be called before JAX is imported.

    The folder is ``$XDG_CACHE_HOME/factorax/compiled``, with one folder per type of processor, because XLA compiles for
    the instructions of the machine. Does nothing if the folder is not writable, if ``FACTORAX_COMPILATION_CACHE`` is
    ``off``, or if ``JAX_COMPILATION_CACHE_DIR`` is set. With jaxlib before 0.10, the folder must be named by
    ``FACTORAX_COMPILATION_CACHE``: these versions log false errors about the processor for every program they load.
    """
    setting = os.environ.get(SETTING, "")
    if setting.lower() in ("off", "0", "none") or JAX_FOLDER in os.environ or "jax" in sys.modules:
        return
    if not setting and tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 10):
        return
    folder = Path(setting) if setting else _default()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return
    if os.access(folder, os.W_OK | os.X_OK):
        os.environ[JAX_FOLDER] = str(folder)
        os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(MAX_SIZE))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def _default() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "factorax" / "compiled" / hashlib.sha256(_processor().encode()).hexdigest()[:12]


def _processor() -> str:
    """Return a text that distinguishes processors with different instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {platform.processor()} {flags}"
