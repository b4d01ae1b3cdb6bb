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

from .. import plugins

_OF_PATHS = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)
_MAX_MESSAGE = 10_000
"""Number of characters of a message that are printed: it may quote a file."""

_ABOUT = "Factored policy gradients: credit each action only with the targets that it influences."
_COMMANDS = {
    "train": ("train", "Train with factored PPO, or resume a run that was stopped."),
    "evaluate": ("runs", "Evaluate the policy of a run, or a controller of a family of problems, over full episodes."),
    "plot": ("runs", "Plot the learning curves of runs."),
    "compare": ("runs", "Compare runs over seeds."),
    "report": ("runs", "Write a self-contained HTML report of runs."),
    "discover": ("discovery", "Estimate which action influences which target."),
}
"""Module and first line of the docstring of each command: ``factorax --help`` imports none of them."""


def commands() -> dict[str, Callable[..., None]]:
    """Return the function of each command."""
    return {name: command_of(name) for name in [*_COMMANDS, *plugins.commands()]}


def command_of(name: str) -> Callable[..., None]:
    """Return the function of a command."""
    if name in _COMMANDS:
        return getattr(import_module(f".{_COMMANDS[name][0]}", __name__), name)
    from .arguments import command

    return command(plugins.imported(plugins.commands()[name].function))


def main() -> int:
    """Parse the command line and run the command. Warnings and errors that the user can fix are printed on one line.

    Returns the exit code: 2 if the command or a file that it names cannot be used; 1 if the command failed while it
    ran, for example on a full disk; 130 if it was interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an encoding without "±" must not end a training that is done
            stream.reconfigure(errors="backslashreplace")
    _on_signals(signal.default_int_handler, "SIGTERM", "SIGHUP")
    try:
        try:
            with warnings.catch_warnings():
                shown: set[str] = set()

                def show(message: Warning | str, *where: Any, **options: Any) -> None:
                    if str(message) not in shown:
                        shown.add(str(message))
                        _say(f"warning: {message}")

                warnings.showwarning = show
                _run(sys.argv[1:])
        finally:
            sys.stdout.flush()  # raises here if nobody reads, instead of when Python ends, which prints it
    except BrokenPipeError:  # of `factorax … | head`: pipes of workers are watched where they are used
        # Python flushes the stream once more when it ends, and would print another error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        _on_signals(lambda *_: os._exit(130), "SIGINT", "SIGTERM", "SIGHUP")  # a second one, while the process ends
        print("stopped; run the same command again to resume", file=sys.stderr)
        return 130
    except Exception as error:
        code = _exit_code(error)
        if code is None:  # a defect, whose traceback helps to find it
            raise
        _say(error)
        return code
    return 0


def _run(words: Sequence[str]) -> None:
    """Run the command that the first word names."""
    chosen = words[0] if words else "none"
    abouts = {name: about for name, (_, about) in _COMMANDS.items()}
    abouts |= {name: command.about for name, command in plugins.commands().items()}
    if chosen in ("-h", "--help"):  # not by tyro: importing it takes most of the 0.2 s that this list may take
        print("usage: factorax COMMAND [OPTIONS]", "", _ABOUT, "", "commands, each with its --help:", sep="\n")
        for name, about in abouts.items():
            print(f"  {name:<12}{about}")
        return
    if chosen not in abouts:
        from .._text import did_you_mean

        want = f", want {', '.join(abouts)}{did_you_mean(chosen, abouts)}"
        raise ValueError(f"command: got {chosen}{plugins.missing_distribution(chosen) or want}")
    use_compilation_cache()  # before anything imports JAX
    import tyro

    function, description = command_of(chosen), None
    if chosen == "train" and not {"-h", "--help"}.isdisjoint(words):
        description = import_module(".train", __name__).help_text(words[1:])
    tyro.cli(function, prog=f"factorax {chosen}", description=description, args=words[1:])


def _on_signals(handler: Callable[..., Any], *names: str) -> None:
    """Set the handler of signals, except of those that are ignored, as nohup ignores SIGHUP."""
    for name in names:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _exit_code(error: Exception) -> int | None:
    """Return the exit code of an error that the user can fix, None for any other."""
    if isinstance(error, (ValueError, TypeError, ImportError, *_OF_PATHS)):
        return 2
    # Imported only now, since a command that ends well does not need them.
    from ..problems.failures import EpisodeLost
    from ..rollouts.backend import WorkerDied

    return 1 if isinstance(error, (OSError, FloatingPointError, MemoryError, EpisodeLost, WorkerDied)) else None


def _say(message: object) -> None:
    """Print a message on stderr, without control characters and without its position in the code."""
    from .._text import printable

    text = printable(message, keep="\n\t", limit=_MAX_MESSAGE)
    print(f"factorax: {text}", file=sys.stderr)


SETTING = "FACTORAX_COMPILATION_CACHE"
"""Environment variable with the folder of the cache, or ``off``."""
JAX_FOLDER = "JAX_COMPILATION_CACHE_DIR"
MAX_SIZE = 2**30
"""Size of the cache in bytes above which JAX deletes the programs that were not used for longest."""


def use_compilation_cache() -> None:
    """Make JAX store compiled programs in a folder of the user; must be called before JAX is imported.

    The folder is ``$XDG_CACHE_HOME/factorax/compiled``, with one folder per type of processor. Does nothing if the
    folder is not writable, if ``FACTORAX_COMPILATION_CACHE`` is ``off``, or if ``JAX_COMPILATION_CACHE_DIR`` is set.
    With jaxlib before 0.10, the folder must be named by ``FACTORAX_COMPILATION_CACHE``.
    """
    setting = os.environ.get(SETTING, "")
    if setting.lower() in ("off", "0", "none") or JAX_FOLDER in os.environ or "jax" in sys.modules:
        return
    # These versions log false errors about the processor for every program that they load.
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
    # XLA compiles for the instructions of the processor, and machines may share a home folder.
    return base / "factorax" / "compiled" / hashlib.sha256(_processor().encode()).hexdigest()[:12]


def _processor() -> str:
    """Return a text that distinguishes processors with different instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {platform.processor()} {flags}"
