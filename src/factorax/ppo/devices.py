"""Devices of a training: which ones, the distribution of environments over them, and their memory."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._checks import Whole
from ..choices import Choice, Menu

if TYPE_CHECKING:
    from .config import Config
    from .state import TrainState

AXIS = "environments"
GIB = 2**30


@dataclass(frozen=True)
class Device(Choice):
    """Devices for training: the environments of a JAX problem are distributed over several of them.

    Results agree with those of one device up to rounding.
    """

    count: Whole = 0
    """Number of local devices; 0 for one on a CPU, and elsewhere for as many as divide `n_envs` and `batch_size`."""


DEVICES = Menu(
    "device",
    {name: dataclass(frozen=True)(type(name.title(), (Device,), {})) for name in ("auto", "cpu", "gpu", "cuda", "tpu")},
    {"cuda:0": "cuda", "gpu:0": "gpu"},
)


def local_devices(config: "Config") -> list[Any]:
    """Return the devices of this machine that the setting `device` allows."""
    name = config.device.name
    try:
        return jax.local_devices(backend={"auto": None, "cuda": "gpu"}.get(name, name))
    except RuntimeError:
        kinds = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise ValueError(f"device: got {name!r}, but JAX finds only {kinds}; want 'auto' or one of these") from None


def device_mesh(config: "Config") -> Mesh | None:
    """Return the devices that share the environments; None for a single one, the default on a CPU."""
    local, count = local_devices(config), config.device.count
    together = gcd(config.n_envs, config.batch_size)
    if count > len(local) or (count and together % count):
        raise ValueError(
            f"device: got count={count}, want at most {len(local)}, the number of local devices, and a divisor of both "
            f"n_envs = {config.n_envs} and batch_size = {config.batch_size}"
        )
    most = 1 if local[0].platform == "cpu" else len(local)  # devices of a CPU are shares of the same cores
    count = count or max(n for n in range(1, most + 1) if together % n == 0)
    return None if count == 1 else Mesh(np.array(local[:count]), (AXIS,))


def placed_samples(mesh: Mesh) -> Callable[[Any], Any]:
    """Return a function that distributes samples over the devices."""
    shared = NamedSharding(mesh, PartitionSpec(AXIS))
    return lambda samples: jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, shared), samples)


def shardings(mesh: Mesh, state: "TrainState", lead: int = 0) -> "TrainState":
    """Return the placement of each array of a state: environments are distributed, everything else is replicated."""

    def first(x: Any) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*[None] * lead, AXIS))

    def last(x: Any) -> NamedSharding:  # states of environments have their axis last
        return NamedSharding(mesh, PartitionSpec(*[None] * (x.ndim - 1), AXIS))

    everywhere = jax.tree.map(lambda x: NamedSharding(mesh, PartitionSpec()), state)
    states, *others = state.environments
    return everywhere._replace(
        environments=(jax.tree.map(last, states), *jax.tree.map(first, others)),
        discounted=first(state.discounted),
        critic_memory=None if state.critic_memory is None else first(state.critic_memory),
    )


def check_memory(needed: int, free: int | None, config: "Config") -> None:
    """Raise MemoryError if an update needs more bytes than available, with an `n_envs` that would fit."""
    if free is None or needed <= free:
        return
    c = config
    most = int(c.n_envs * free / needed)  # all but the parameters, which are small, is proportional to n_envs
    fits = next((n for n in range(most, 0, -1) if n * c.n_steps % c.batch_size == 0), None)
    raise MemoryError(
        f"n_envs: got {c.n_envs}, but an update of {c.n_envs} environments × {c.n_steps} steps needs "
        f"{needed / GIB:.3g} GiB and the device has {free / GIB:.3g}; want "
        f"{'a smaller n_steps' if fits is None else f'n_envs={fits}'}, or fewer seeds at once"
    )


def available_memory(config: "Config") -> int | None:
    """Return the number of bytes that a program may still allocate on the device; None if unknown."""
    stats = local_devices(config)[0].memory_stats()
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats["bytes_in_use"]
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    kib = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if kib is None else 1024 * int(kib)


def peak_memory(config: "Config") -> dict[str, float]:
    """Return the peak memory of the device, or of this process on a CPU, as a metric; empty if unknown."""
    stats = local_devices(config)[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return {"time/peak_gib": stats["peak_bytes_in_use"] / GIB}
    try:
        import resource
    except ImportError:  # on Windows
        return {}
    unit = 1 if sys.platform == "darwin" else 1024
    return {"time/peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GIB}
