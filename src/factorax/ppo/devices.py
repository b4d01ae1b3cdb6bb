"""Devices of an update: distribution of its environments over local devices, and a check of their memory.

The program is that of one device; XLA partitions it and adds up the gradients. Results agree with those of one device
up to rounding.
"""

import sys
from collections.abc import Callable
from math import gcd
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._programs import OwnCompiled, OwnJit
from .config import Config
from .state import TrainState

AXIS = "environments"
GIB = 2**30


def local_devices(config: Config) -> list[Any]:
    """Return the devices of this machine that the setting `device` allows."""
    platform = {"auto": None, "cuda": "gpu"}.get(config.device, config.device)
    try:
        return jax.local_devices(backend=platform)
    except RuntimeError:
        kinds = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise ValueError(
            f"device: got {config.device!r}, but JAX finds only {kinds}; want 'auto' or one of these"
        ) from None


def mesh(config: Config) -> Mesh | None:
    """Return the devices that share the environments: as many as set, or as divide both `n_envs` and `batch_size`.

    None for a single device, the default on a CPU, whose devices are shares of the same cores.
    """
    local = local_devices(config)
    together = gcd(config.n_envs, config.batch_size)
    if config.devices > len(local):
        raise ValueError(f"devices: got {config.devices}, want at most {len(local)}, the number of local devices")
    if config.devices and together % config.devices:
        raise ValueError(
            f"devices: got {config.devices}, want a divisor of both n_envs = {config.n_envs} and "
            f"batch_size = {config.batch_size}"
        )
    most = 1 if local[0].platform == "cpu" else len(local)
    count = config.devices or max(n for n in range(1, most + 1) if together % n == 0)
    return None if count == 1 else Mesh(np.array(local[:count]), (AXIS,))


def shard_minibatch(devices: Mesh | None, samples: Any) -> Any:
    """Return samples distributed over the devices."""
    if devices is None:
        return samples
    shared = NamedSharding(devices, PartitionSpec(AXIS))
    return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, shared), samples)


def shardings(devices: Mesh, state: TrainState, lead: int = 0) -> TrainState:
    """Return the placement of each array of a state: environments are distributed, everything else is replicated.

    `lead` is the number of axes before those of a single state, such as an axis of seeds.
    """
    front = [None] * lead

    def everywhere(tree: Any) -> Any:
        return jax.tree.map(lambda x: NamedSharding(devices, PartitionSpec()) if eqx.is_array(x) else None, tree)

    def first(x: Any) -> NamedSharding:
        return NamedSharding(devices, PartitionSpec(*front, AXIS))

    def last(x: Any) -> NamedSharding:
        return NamedSharding(devices, PartitionSpec(*[None] * (x.ndim - 1), AXIS))

    states, *others = state.environments
    environments = (jax.tree.map(last, states), *jax.tree.map(first, others))
    remembered = None if state.critic_memory is None else first(state.critic_memory)
    return everywhere(state)._replace(
        environments=environments, discounted=first(state.discounted), critic_memory=remembered
    )


def place(devices: Mesh | None, state: TrainState, config: Config, lead: int = 0) -> TrainState:
    """Return the state with each array on its devices."""
    if devices is None:
        return state if config.device == "auto" else jax.device_put(state, local_devices(config)[0])
    arrays, rest = eqx.partition(state, eqx.is_array)
    where = shardings(devices, arrays, lead)
    return eqx.combine(jax.tree.map(jax.device_put, arrays, where), rest)


def compiled(
    update: Callable[[TrainState], Any],
    state: TrainState,
    config: Config,
    devices: Mesh | None,
    *,
    seeds: int | None = None,
) -> OwnCompiled:
    """Return an update compiled for states like this one; with `seeds`, for that many stacked states (`jax.vmap`).

    Raises `MemoryError` if it needs more memory than the device has.
    """
    lead = 0 if seeds is None else 1

    def placed(state: TrainState) -> Any:
        new, metrics = update(state)
        return (new if devices is None else place(devices, new, config, lead)), metrics

    program = OwnJit(placed).compile(state)
    check_program(program.compiled, config, seeds)
    return program


def check_program(compiled: Any, config: Config, seeds: int | None) -> None:
    """Raise MemoryError if a compiled program needs more memory than the device has."""
    sizes = compiled.memory_analysis()
    if sizes is not None:  # not available on some backends
        parts = sizes.argument_size_in_bytes, sizes.output_size_in_bytes, sizes.temp_size_in_bytes
        check_memory(sum(parts) - sizes.alias_size_in_bytes, available_memory(config), config, seeds or 1)


def saves_launches(config: Config, devices: Mesh | None) -> bool:
    """Return whether an update runs on one device on which fewer, larger operations are faster: anything but a CPU."""
    return devices is None and local_devices(config)[0].platform != "cpu"


def check_memory(needed: int, free: int | None, config: Config, seeds: int = 1) -> None:
    """Raise `MemoryError` if an update needs more bytes than available, with an `n_envs` that would fit.

    The need is proportional to the number of environments, except for the parameters, which are small.
    """
    if free is None or needed <= free:
        return
    c = config
    most = int(c.n_envs * free / needed)
    fits = next((n for n in range(most, 0, -1) if n * c.n_steps % c.batch_size == 0), None)
    wanted = "a smaller n_steps" if fits is None else f"n_envs={fits}"
    work = f"{c.n_envs} environments × {c.n_steps} steps" + (f" × {seeds} seeds" if seeds > 1 else "")
    raise MemoryError(
        f"n_envs: got {c.n_envs}, but an update of {work} needs {needed / GIB:.3g} GiB and the device has "
        f"{free / GIB:.3g}; want {wanted}"
    )


def available_memory(config: Config) -> int | None:
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


def peak_memory(config: Config) -> dict[str, float]:
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
