"""The processor cores that this process may use."""

import os


def available_cores() -> int:
    """Return the number of cores that this process may use, which `taskset` or a container may restrict to some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
