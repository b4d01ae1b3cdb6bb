"""The processor cores that this process may use."""

import math
import os
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""File in which Linux tells a container its limit: microseconds of processor time, and per how many microseconds."""


def available_cores() -> int:
    """Return the number of cores that this process may use, which `taskset` or a container may restrict."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota())))


def _quota() -> float:
    """Return the number of cores whose time a container may use, as ``docker run --cpus`` limits it; infinite if there
    is no limit, or none that this function understands."""
    try:
        limit, period = QUOTA.read_text(encoding="ascii").split()
        return int(limit) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # not Linux, or "max"
        return math.inf
