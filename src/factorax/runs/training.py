"""Training in the folder of a run: what is written there, and when, so that it resumes after a signal or a crash."""

import json
import os
import platform
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np

from .._checks import check_type, checked, path_of
from .._files import append_text, remove_leftovers, sync_folder, write_json, write_whole
from .._text import shown
from ..ppo import checkpoints
from ..ppo.callbacks import Callback
from ..ppo.config import Config
from ..ppo.logger import MAX_VECTOR, check_formats, configure
from ..ppo.metrics import Metrics
from ..ppo.model import FactoredPPO
from ..ppo.model_files import NETWORK_COPY, first_intact
from ..ppo.named_networks import is_file
from ..structure import InfluenceNetwork
from ..structure.labels import edge_label
from .folder import (
    CONFIG,
    FILES,
    FORMAT,
    MAX_WARNINGS,
    METRICS,
    SCORE,
    STEPS,
    VERSIONS,
    WARNINGS,
    check_folder,
    check_settings,
    lock,
    metric_rows,
    read_warnings,
    settings_as_json,
)

EPISODES = 10
"""Number of episodes with which a trained policy is scored."""
SECONDS_BETWEEN_CHECKPOINTS = 30.0
MAX_WARNING = 2000
"""Number of characters of a warning that are stored."""
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def train(
    problem: str,
    config: Config,
    out: Path,
    *,
    network: str = "own",
    force: bool = False,
    progress_bar: bool = True,
    loggers: Sequence[str] = (),
) -> FactoredPPO:
    """Train in the folder `out`, or resume the run there; return the trained model.

    `problem` and `network` are names, as for `find_problem` and `find_network`; a network file is copied into the
    folder.

    `loggers` names additional formats for the metrics, as in `factorax.ppo.configure`; they are written to
    ``logs/``.

    With `force`, changed settings are accepted as long as the shapes still fit.
    """
    check_training(problem, config, [out], network=network, force=force, progress_bar=progress_bar)
    if loggers:
        check_formats(loggers, "loggers")  # before anything is written
    out = Path(out)
    with ExitStack() as stack:
        write_warnings = stack.enter_context(record_warnings())
        model = FactoredPPO(problem, network, **vars(config))
        run = open_run(out, model, problem=problem, config=config, network=network, force=force)
        recorder = stack.enter_context(run)
        write_warnings([out])
        if loggers:
            model.set_logger(configure(out / "logs", loggers))

        try:
            with Interrupts() as interrupts:

                class AfterUpdate(Callback):
                    every_update = False  # several updates in one program: each gets its row when the program ends

                    def on_rollout_end(self, model: FactoredPPO, metrics: Metrics) -> None:
                        recorder.write(metrics)
                        # Not between the rows of a program: a crash would leave a checkpoint ahead of its metrics.
                        if time.monotonic() > recorder.is_due_at and metrics[STEPS] == model.num_timesteps:
                            recorder.keep()
                        interrupts.check()

                try:
                    steps = max(config.total_timesteps - model.num_timesteps, 0)
                    with interrupts.allow():
                        model.learn(steps, AfterUpdate(), reset_num_timesteps=False, progress_bar=progress_bar)
                finally:  # an interrupt may have come between updates and their rows
                    for metrics in model.history:
                        if recorder.last_row < metrics[STEPS] <= model.num_timesteps:
                            recorder.write(metrics)
                    recorder.keep()
        finally:  # last, because environments may fail to close, or hang
            try:
                model.close()
            finally:
                model.logger.close()
    return model


def evaluate_together(models: Sequence[FactoredPPO], episodes: int = EPISODES) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the returns of whole episodes of models that were trained together, ``(episodes,)`` each: with their most
    probable actions, and with sampled ones.

    Results are those of `FactoredPPO.evaluate`, but the programs of the first model, compiled once, play all of them.
    """
    compiled, scores = models[0].compiled, []
    for model in models:
        behaviour = compiled.learner.behaviour(model.state)
        best, sampled = (
            compiled.collector.play_episodes(behaviour, episodes, deterministic=most_probable, seed=0)
            for most_probable in (True, False)
        )
        scores.append((best @ model.spec.weights, sampled @ model.spec.weights))
    return scores


def check_training(problem: str, config: Config, outs: Sequence[Any], *, network: str, **flags: bool) -> None:
    """Raise if an argument of `train` or `train_seeds` has a wrong type, before anything is created or written."""
    check_type("problem", problem, str, "the name of a problem, such as 'chain:8'")
    check_type("config", config, Config, "a Config")
    check_type("network", network, str, "the name of a network, such as 'own', or a file")
    for out in outs:
        path_of("out", out, "a folder for the run")
    for name, value in flags.items():
        checked(name, value, bool)


@contextmanager
def open_run(
    out: Path, model: FactoredPPO, *, problem: str, config: Config, network: str = "own", force: bool = False
) -> "Iterator[Recorder]":
    """Lock the folder of a run, restore the model from its last checkpoint, and yield what records the training."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out: got {shown(str(out))}, cannot create it ({error.strerror}); want a folder") from None
    check_folder(out)  # before anything is written, including the lock
    with lock(out):
        check_folder(out)  # again: another process may have written to it
        remove_leftovers(out, *FILES)
        remove_leftovers(out / "checkpoints", "new.safetensors")
        requested = {"format": FORMAT, "problem": problem, "network": network, "config": settings_as_json(config)}
        if (out / CONFIG).exists() and not force:
            check_settings(out, requested)
        stored = out / NETWORK_COPY
        if stored.exists() and not force and InfluenceNetwork.load(stored) != model.spec.network.static:
            raise FileExistsError(
                f"network: has changed since the run in {str(out)!r} started; want another folder, or --force to "
                "continue with the new network"
            )
        last, previous = (out / "checkpoints" / f"{name}.safetensors" for name in ("last", "previous"))
        files, restored = [path for path in (last, previous) if path.exists()], None
        if files:  # the previous one if a crash damaged the last
            restored = first_intact(files, lambda path: (model.restore(path), path)[1])
        _cut_metrics(model, out)
        # Written only now: settings that do not fit the checkpoint must leave the folder unchanged.
        with disk_errors(out, model.num_timesteps):
            if force:
                (out / SCORE).unlink(missing_ok=True)
            write_json(out / CONFIG, requested)
            write_json(out / VERSIONS, versions())  # those of the last resumption replace earlier ones
            if is_file(network):
                model.spec.network.static.save(stored)
            (out / "checkpoints").mkdir(exist_ok=True)
            sync_folder(out)
            sync_folder(out.parent)
        yield Recorder(out, model, has_last=restored == last)


def _cut_metrics(model: FactoredPPO, out: Path) -> None:
    """Remove the metrics of updates after the step of the model."""
    path, step = out / METRICS, model.num_timesteps
    if path.exists():
        with disk_errors(out, step):
            # Checkpoints are rarer than rows: a resumed run makes the updates after its checkpoint again.
            rows = (line for line, row in metric_rows(path) if row[STEPS] <= step)
            write_whole(path, lambda file: file.writelines(rows))


class Recorder:
    """Writes ``metrics.jsonl`` and ``checkpoints/`` into the folder of a run.

    `has_last` tells whether ``checkpoints/last.safetensors`` exists and is intact.
    """

    def __init__(self, out: Path, model: FactoredPPO, *, has_last: bool):
        self.out, self.model, self.has_last = out, model, has_last
        self.saved = self.last_row = model.num_timesteps
        self.is_due_at = time.monotonic() + SECONDS_BETWEEN_CHECKPOINTS
        """When another checkpoint is due."""

    def write(self, metrics: Metrics) -> None:
        """Write the metrics of an update; edges added or removed by an adaptive network are written by name."""
        row: dict[str, Any] = {}
        for name, value in metrics.items():
            value, network = np.asarray(value), self.model.spec.network.static
            if name == "network/changed":
                for kind, sign in (("came", 1), ("went", -1)):
                    labels = [edge_label(network.actions[i], network.targets[j]) for i, j in np.argwhere(value == sign)]
                    row |= {f"network/{kind}": labels} if labels else {}
            elif value.size > MAX_VECTOR:
                row[name] = {"quartiles": np.quantile(value, [0, 0.25, 0.5, 0.75, 1]).tolist()}
            else:
                row[name] = value.tolist()
        with disk_errors(self.out, self.saved):
            append_text(self.out / METRICS, json.dumps(row, ensure_ascii=False) + "\n")
        self.last_row = row[STEPS]

    def keep(self, *, untrained: bool = False) -> None:
        """Save a checkpoint if the model has been trained since the last one, which is kept as the previous one.

        - `untrained`: whether to save one of a model that was never trained.
        """
        step = self.model.num_timesteps
        if step <= self.saved and (self.has_last or (not step and not untrained)):
            return
        folder = self.out / "checkpoints"
        new, last = folder / "new.safetensors", folder / "last.safetensors"
        with disk_errors(self.out, self.saved):
            # In this order, one of the two names has an intact checkpoint at any moment: `save` synchronises the new
            # file before the renames.
            self.model.save(new)
            if self.has_last and last.exists():  # false after an interrupt between the two renames
                os.replace(last, folder / "previous.safetensors")
            os.replace(new, last)
            sync_folder(folder)
        self.has_last, self.saved = True, step
        self.is_due_at = time.monotonic() + SECONDS_BETWEEN_CHECKPOINTS

    def step_back(self, step: int) -> bool:
        """Make the previous checkpoint the last one and restore it, if it is of this step; return whether it is."""
        last, previous = (self.out / "checkpoints" / f"{name}.safetensors" for name in ("last", "previous"))
        if not previous.exists() or checkpoints.about(previous).get("timesteps") != step:
            return False
        self.model.restore(previous)
        # The checkpoint before the metrics: after a crash in between, `open_run` cuts the rows behind it.
        with disk_errors(self.out, step):
            os.replace(previous, last)
            sync_folder(last.parent)
        _cut_metrics(self.model, self.out)
        self.saved = self.last_row = step
        return True


@contextmanager
def disk_errors(out: Path, saved: int) -> Iterator[None]:
    """Convert a disk error, such as no space left, to one that says which checkpoint is intact and what to do."""
    try:
        yield
    except OSError as error:
        if not out.is_dir():
            raise FileNotFoundError(f"out: the folder {str(out)!r} was moved or deleted during training") from error
        intact = f"the checkpoint of step {saved} is intact" if saved else "there is no checkpoint yet"
        message = (
            f"out: cannot write to {str(out)!r} ({error.strerror or error}); {intact}. Free some space and run the "
            "same command again to resume"
        )
        raise (OSError(message) if error.errno is None else OSError(error.errno, message)) from error


def versions() -> dict[str, str]:
    """Return the versions of factorax and its dependencies, and the device."""
    import jax

    device = jax.devices()[0]
    return {
        # Not imported, because packages may not import the top-level package.
        "factorax": sys.modules["factorax"].__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device": f"{device.device_kind}, {os.cpu_count()} cores" if device.platform == "cpu" else device.device_kind,
    }


@contextmanager
def record_warnings() -> Iterator[Callable[[Sequence[Path]], None]]:
    """Record warnings, which are displayed as usual; yield a function that writes past and future ones to folders."""
    # Models are created before their folders exist, and may warn.
    messages: dict[str, str] = {}
    written_to: list[Path] = []

    def write(folders: Sequence[Path], message: str) -> None:
        line = json.dumps({"category": messages[message], "message": message}, ensure_ascii=False) + "\n"
        for folder in folders:
            with suppress(OSError):  # a full disk is reported where metrics are written
                if message not in read_warnings(folder):  # may be stored by an earlier session of the run
                    append_text(folder / WARNINGS, line)

    def write_to(folders: Sequence[Path]) -> None:
        written_to.extend(folders)
        for message in messages:
            write(folders, message)

    with warnings.catch_warnings():
        display = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any, **options: Any) -> None:
            text = str(message)[:MAX_WARNING]
            if issubclass(category, UserWarning) and text not in messages and len(messages) < MAX_WARNINGS:
                messages[text] = category.__name__
                write(written_to, text)
            display(message, category, *where, **options)

        warnings.showwarning = show
        yield write_to


class Interrupts:
    """A context in which signals raise `KeyboardInterrupt` only in `allow`, and not while one is on its way.

    A signal that arrives elsewhere is remembered, and the context ends with a `KeyboardInterrupt`. Only handlers that
    raise `KeyboardInterrupt` are replaced, such as those of the command line for SIGINT, SIGTERM and SIGHUP. Outside
    the main thread, no handler is replaced.

        with Interrupts() as interrupts:
            try:
                with interrupts.allow():
                    for update in range(1000):
                        train()
                        interrupts.check()
            finally:
                save()
    """

    def __init__(self) -> None:
        self.is_allowed = self.is_pending = False
        self.raised: KeyboardInterrupt | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # Python lets no other thread set a handler.
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is signal.default_int_handler:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        # A signal that was only remembered, or whose exception was dropped, must stop the program; one whose exception
        # is on its way must not raise another.
        if kind is None or self.raised is None:
            self.check()

    @contextmanager
    def allow(self) -> Iterator[None]:
        """Let signals raise in this block. If one arrives while the block ends, its exception is the only one."""
        self.is_allowed = True
        try:
            yield
        finally:
            self.is_allowed = False

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a signal has arrived and nothing has stopped."""
        # Python prints and drops exceptions in callbacks of the garbage collector, in weak references and in
        # `__del__`: a signal that arrives there stops training here.
        if self.is_pending:
            self.raised = KeyboardInterrupt()
            raise self.raised

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Raise `KeyboardInterrupt` if allowed, otherwise remember the signal."""
        self.is_pending = True
        # Code that handles an earlier interrupt, as in a `finally` clause, must not be stopped by the next one.
        error = sys.exception()
        while error is not None and error is not self.raised:
            error = error.__context__
        if self.is_allowed and error is None:
            self.check()
