"""`make bench`: every promise about speed, as a ratio to a named yardstick measured in the same run."""

import os
import platform
import sys

import jax
from rich.console import Console
from rich.table import Table

from . import (
    bench_credit,
    bench_discovery,
    bench_engine,
    bench_environments,
    bench_factorisation,
    bench_gradient,
    bench_learner,
    bench_rddl,
    bench_rollouts,
    bench_sumo_training,
    bench_traffic,
)

BENCHES = (
    bench_credit,
    bench_discovery,
    bench_factorisation,
    bench_gradient,
    bench_engine,
    bench_learner,
    bench_environments,
    bench_rddl,
    bench_traffic,
    bench_rollouts,
    bench_sumo_training,
)


def main() -> int:
    console = Console(width=max(160, Console().width) if not sys.stdout.isatty() else None)
    table = Table(title=f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, JAX {jax.__version__}")
    table.add_column()
    for column in ("ours", "yardstick", "ratio", "bound"):
        table.add_column(column, justify="right")
    missed = 0
    for bench in BENCHES:
        for row in bench.rows():
            mark = "" if row.kept else " ✗"
            missed += not row.kept
            table.add_row(row.name, row.ours, row.yardstick, f"{row.ratio:.2f}{mark}", row.bound)
    console.print(table)
    if missed:
        console.print(f"{missed} bound(s) missed: the machine may be busy; run again before you believe it")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
