"""Whether a program fits the memory of its device, asked before it runs; and how much there was of it at most."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from .config import Config

GIB = 2**30


def compiled(program: Callable[..., Any], state: Any, config: Config, seeds: int = 1) -> Callable[..., Any]:
    """An update for states like this one. Raises `MemoryError` if it needs more than its device has."""
    jitted: Any = eqx.filter_jit(program)
    made = jitted.lower(state).compile()
    sizes = made.compiled.memory_analysis()
    if sizes is not None:  # it is where a backend does not tell
        parts = sizes.argument_size_in_bytes, sizes.output_size_in_bytes, sizes.temp_size_in_bytes
        check(sum(parts) - sizes.alias_size_in_bytes, available(), config, seeds)
    return made


def check(needed: int, free: int | None, config: Config, seeds: int = 1) -> None:
    """Raise if an update needs more bytes than there are, and say which `n_envs` would do.

    What it needs grows in proportion to the environments, but for the parameters, which are small.
    """
    if free is None or needed <= free:
        return
    c = config
    most = int(c.n_envs * free / needed)
    fits = next((n for n in range(most, 0, -1) if n * c.n_steps % c.batch_size == 0), None)
    wanted = "a smaller n_steps" if fits is None else f"n_envs={fits}"
    work = f"{c.n_envs} environments × {c.n_steps} steps" + (f" × {seeds} seeds" if seeds > 1 else "")
    raise MemoryError(
        f"n_envs: got {c.n_envs}, and an update of {work} needs {needed / GIB:.3g} GiB; the device has "
        f"{free / GIB:.3g}; want {wanted}"
    )


def available() -> int | None:
    """Bytes that a program may still have on the device; None where that is unknown."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats["bytes_in_use"]
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kib is None else 1024 * int(kib)


def peak() -> dict[str, float]:
    """The most memory that there was in use so far, of the device or, if that is the CPU, of this process, as a metric;
    none where it is unknown."""
    stats = jax.local_devices()[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return {"time/peak_gib": stats["peak_bytes_in_use"] / GIB}
    try:
        import resource
    except ImportError:  # on Windows
        return {}
    unit = 1 if sys.platform == "darwin" else 1024
    return {"time/peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GIB}
