"""Measure the time to start the command and to import the library, relative to importing its dependencies."""

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

from .timing import Row, at_most

BASE = "import numpy, scipy.sparse, networkx"
PROGRAMS = {
    "base": ["-c", BASE],
    "import": ["-c", f"{BASE}; import factorax"],
    "structure": ["-c", "import factorax; factorax.InfluenceNetwork"],
    "help": ["-m", "factorax.cli", "--help"],
    "train": ["-m", "factorax.cli", "train", "--help"],
}


def cpu_seconds(arguments: list[str]) -> float:
    """Return the processor time of a Python process with these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True, env=os.environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows() -> Iterator[Row]:
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for repeat in range(8):
        for name, arguments in PROGRAMS.items():
            seconds = cpu_seconds(arguments)
            if repeat:  # the first run reads files from disk
                times[name].append(seconds)
    base, imported, structure, help_, train = (statistics.median(times[name]) for name in PROGRAMS)
    what = "`import numpy, scipy.sparse, networkx`; CPU time"
    names = {"these and import factorax": imported, "import factorax and use InfluenceNetwork": structure}
    for name, seconds in names.items():  # parts of the library are imported on first use
        extra = 1e3 * (seconds - base)
        row = at_most(f"start: {name}", seconds, base, what, 1.0)
        yield replace(row, bound=f"≤ + 80 ms ({extra:+.0f})", kept=extra <= 80, limit=None)
    yield at_most("start: factorax --help", help_, base, what, 1.2)
    yield replace(at_most("start: factorax train --help", train, base, what, 0.0), bound="–", kept=True)
