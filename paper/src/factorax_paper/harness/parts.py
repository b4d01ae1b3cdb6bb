"""Run work in parallel parts with a progress bar; results of finished parts are kept and not computed again."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from factorax._files import write_whole
from factorax.ppo.callbacks import progress_bar

Arrays = dict[str, np.ndarray]


class Stopped(Exception):
    """Raised by a part that is asked to stop, after it has written its checkpoint."""


@dataclass(frozen=True)
class Progress:
    """How a part tells how far it is, and learns that it must stop."""

    checkpoint: Path
    """A file for the state of a part that is stopped."""
    report: Callable[[float], Any] = lambda done: None
    """Called with the fraction done."""
    stop: threading.Event = field(default_factory=threading.Event)

    def tick(self, done: float) -> None:
        """Report the fraction done; raise `Stopped` if the part must stop."""
        self.report(done)
        if self.stop.is_set():
            raise Stopped

    @property
    def runs(self) -> Path:
        """The folder ``runs`` of the experiment, for the files of processes."""
        folder = self.checkpoint.parent.parent / "runs"
        folder.mkdir(exist_ok=True)
        return folder


@dataclass(frozen=True)
class Part:
    """A piece of work of an experiment."""

    name: str
    cost: float
    """Relative amount of work, in any unit, for the progress bar."""
    compute: Callable[[Progress], Arrays]


def run_parts(parts: Sequence[Part], folder: Path, *, workers: int, console: Console, title: str) -> list[Arrays]:
    """Return the results of all parts, in order; those already in `folder` are read instead of computed.

    On Ctrl-C, or if a part fails, each part writes its checkpoint before the exception is raised.
    """
    folder.mkdir(exist_ok=True)
    done = [folder / f"{i:03d}.npz" for i in range(len(parts))]
    stop = threading.Event()
    with progress_bar(console=console, disable=not console.is_terminal) as progress:
        old = sum(part.cost for part, path in zip(parts, done, strict=True) if path.exists())
        bar = progress.add_task(title, total=sum(part.cost for part in parts), completed=round(old))

        def work(part: Part, path: Path) -> None:
            last = 0.0

            def tick(fraction: float) -> None:
                nonlocal last
                progress.advance(bar, part.cost * (fraction - last))
                last = fraction

            checkpoint = path.with_suffix(".partial.npz")
            result = part.compute(Progress(checkpoint, tick, stop))
            write_whole(path, lambda file: np.savez(file, allow_pickle=False, **result))
            checkpoint.unlink(missing_ok=True)
            if not console.is_terminal:
                console.print(f"{title}: {part.name} done")

        # Start the longest first, so that cores finish at about the same time.
        todo = sorted((p for p in zip(parts, done, strict=True) if not p[1].exists()), key=lambda p: -p[0].cost)
        with ThreadPoolExecutor(max_workers=workers) as pool:
            try:
                futures = [pool.submit(work, part, path) for part, path in todo]
                wait(futures, return_when=FIRST_EXCEPTION)
                for future in futures:
                    if future.done():
                        future.result()  # raises what the part raised
            finally:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
    return [_read(path) for path in done]


def _read(path: Path) -> Arrays:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return dict(archive)
    except Exception as error:  # a damaged archive may raise any exception of zip and zlib
        raise ValueError(f"{path}: damaged; remove it and run the experiment again") from error
