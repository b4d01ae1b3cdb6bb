"""`make bench`: check all performance bounds, as ratios to named yardsticks measured in the same run.

``python -m benchmarks rollouts bench_credit`` runs only these files.
"""

import gc
import os
import platform
import sys
import time
from types import ModuleType

import jax
from rich.console import Console
from rich.table import Table

from . import (
    bench_batched,
    bench_cities,
    bench_credit,
    bench_discovery,
    bench_engine,
    bench_environments,
    bench_factorisation,
    bench_gradient,
    bench_jax_environments,
    bench_learner,
    bench_policies,
    bench_rddl,
    bench_rollouts,
    bench_start,
    bench_sumo_training,
    bench_traffic,
)

BENCHES = (
    bench_start,
    bench_credit,
    bench_discovery,
    bench_factorisation,
    bench_gradient,
    bench_engine,
    bench_learner,
    bench_policies,
    bench_environments,
    bench_jax_environments,
    bench_rddl,
    bench_traffic,
    bench_rollouts,
    bench_batched,
    bench_sumo_training,
    bench_cities,
)


def chosen(names: list[str]) -> dict[str, ModuleType]:
    """Return the benchmarks with these names, or all of them."""
    named = {bench.__name__.rpartition("bench_")[2]: bench for bench in BENCHES}
    names = [name.removeprefix("bench_") for name in names]
    if wrong := [name for name in names if name not in named]:
        sys.exit(f"benchmarks: got {', '.join(wrong)}; want some of {', '.join(named)}, or nothing for all")
    return {name: named[name] for name in names or named}


def main() -> int:
    console = Console(width=max(160, Console().width) if not sys.stdout.isatty() else None)
    table = Table(title=f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, JAX {jax.__version__}")
    table.add_column()
    for column in ("ours", "yardstick", "ratio", "bound"):
        table.add_column(column, justify="right")
    kept = missed = 0
    start = time.perf_counter()
    benches = chosen(sys.argv[1:])
    for number, (name, bench) in enumerate(benches.items(), 1):
        minutes = (time.perf_counter() - start) / 60
        print(f"after {minutes:4.1f} minutes: {name}, {number} of {len(benches)}", file=sys.stderr, flush=True)
        gc.collect()
        gc.freeze()  # later collections do not visit what earlier files have left
        for row in bench.rows():
            mark = "" if row.kept else " ✗"
            missed += not row.kept
            kept += row.kept and row.bound != "–"
            table.add_row(row.name, row.ours, row.yardstick, f"{row.ratio:.2f}{mark}", row.bound)
    console.print(table)
    minutes = (time.perf_counter() - start) / 60
    hint = ": the machine may be busy; repeat the run to confirm" if missed else ""
    console.print(f"{kept} bounds kept, {missed} missed, in {minutes:.1f} minutes{hint}", highlight=False)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
