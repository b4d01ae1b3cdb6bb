"""Training of several seeds and networks in one compiled program, each with its own run folder."""

import copy
import dataclasses
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_different, check_type, listed, path_of
from ..ppo.callbacks import progress_bar as bar_of_training
from ..ppo.compiled import Compiled
from ..ppo.config import Config
from ..ppo.devices import peak_memory
from ..ppo.hints import CLIPPED_UPDATES, warn_if_clipped, warn_if_short
from ..ppo.metrics import checked_metrics
from ..ppo.missing_edges import warn_if_missing
from ..ppo.model import SECONDS, FactoredPPO
from ..ppo.state import TrainState
from ..rollouts.observability import warn_if_actors_respond
from ..structure import BaseNetwork, InfluenceNetwork
from ..structure.base_network import KArray, RolloutView, TrainingSizes
from .training import Interrupts, Recorder, check_training, open_run, record_warnings


def train_seeds(
    problem: str,
    config: Config,
    outs: Sequence[Path],
    *,
    network: str = "own",
    force: bool = False,
    progress_bar: bool = True,
) -> list[FactoredPPO]:
    """Train with the seeds `config.seed`, `config.seed` + 1, …, one per folder, or resume the runs there.

    The problem must be a JAX problem: `update` is vectorised over the seeds. Results agree with those of separate runs
    up to rounding.
    """
    return train_networks(problem, config, {network: outs}, force=force, progress_bar=progress_bar)


def train_networks(
    problem: str,
    config: Config,
    outs: Mapping[str, Sequence[Path]],
    *,
    force: bool = False,
    progress_bar: bool = True,
) -> list[FactoredPPO]:
    """Train several networks at once, as `train_seeds` does for one: `outs` lists the folders of the seeds by network
    name.

    All networks must be fixed. Results agree with those of separate runs up to rounding.
    """
    check_type("outs", outs, Mapping, "folders for each seed, by the names of networks")
    want = "a folder for each seed"
    runs: list[tuple[str, Path, Config]] = []
    for network, folders in outs.items():
        paths = [path_of("outs", out, want) for out in listed("outs", folders, want)]
        check_training(problem, config, paths, network=network, force=force, progress_bar=progress_bar)
        runs += [(network, out, dataclasses.replace(config, seed=config.seed + i)) for i, out in enumerate(paths)]
    if not runs:
        raise ValueError("outs: got an empty dictionary, want a folder for each seed")
    check_different("outs", [str(out) for _, out, _ in runs])
    with ExitStack() as stack:
        write_warnings = stack.enter_context(record_warnings())
        networks = dict.fromkeys(network for network, _, _ in runs)
        firsts = {network: FactoredPPO(problem, network, **vars(config)) for network in networks}
        first = firsts[runs[0][0]]
        if not first.compiled.collector.traced:
            raise ValueError(
                f"seeds: {problem!r} is a Gymnasium environment, but several seeds at once need a JAX problem; want "
                "one seed per command, without --seeds"
            )
        chosen = _chosen(firsts)
        seeds_of_runs = [each.seed for _, _, each in runs]
        initial = None if chosen is not None else first.compiled.init_seeds(seeds_of_runs)
        states = [None] * len(runs) if initial is None else apart(initial, len(runs))
        models, recorders = [], []
        for (network, out, config_of_seed), state in zip(runs, states, strict=True):
            model = copy.copy(firsts[network])  # shares the learner, so that it is compiled only once
            model.config, model.history = dataclasses.replace(model.config, seed=config_of_seed.seed), []
            model.state = model.compiled.init(config_of_seed.seed) if state is None else state
            models.append(model)
            run = open_run(out, model, problem=problem, config=config_of_seed, network=network, force=force)
            recorders.append(stack.enter_context(run))
        write_warnings([out for _, out, _ in runs])
        _align(models, recorders)
        with Interrupts() as interrupts:
            seeds = _Seeds(models, [network for network, _, _ in runs], chosen)
            if all(model.state is state for model, state in zip(models, states, strict=True)):  # none was resumed
                seeds.initial = initial
            del initial, states  # their memory is that of the device
            try:
                with interrupts.allow():
                    _learn(seeds, recorders, interrupts, progress_bar)
            finally:
                seeds.set_states()
                for recorder in recorders:
                    recorder.keep()
        return models


class ChosenNetwork(BaseNetwork):
    """A network whose K is a constant part of the training state instead of the program.

    A program compiled for one network has its K built in, in the fastest form. With small kernels, one program for all
    networks of a study in parallel is still faster than one program after another.
    """

    def __init__(self, networks: Sequence[InfluenceNetwork]):
        self.networks = tuple(networks)
        shapes = {network.shape for network in self.networks}
        if len(shapes) != 1:
            raise ValueError(f"networks: got shapes {sorted(shapes)}, want the same for all")

    @property
    def static(self) -> InfluenceNetwork:
        """The first network, for labels and shape."""
        return self.networks[0]

    def init_state(self, sizes: TrainingSizes) -> Any:
        """Return K of the first network."""
        return self.matrix(0)

    def matrix(self, i: int) -> Any:
        """Return K of network i, ``(n, m)``."""
        return jnp.asarray(self.networks[i].to_dense(), jnp.float32)

    def for_rollout(self, state: Any, rollout: RolloutView) -> KArray:
        """Return the K of the state."""
        return KArray(state)


def _chosen(firsts: Mapping[str, FactoredPPO]) -> ChosenNetwork | None:
    """Return the network that represents several networks; None if there is only one."""
    if len(firsts) == 1:
        return None
    networks = []
    for name, model in firsts.items():
        network = model.spec.network
        if not isinstance(network, InfluenceNetwork):
            raise ValueError(
                f"networks: got {name!r}, which varies; want fixed networks, or a single one with --network"
            )
        if model.state.missing_edges is not None:
            raise ValueError("check_network: got True with several networks, want False (--no-check-network)")
        if model.learner.network is not network:
            raise ValueError(
                f"networks: got method={model.config.method.name!r}, which uses no network; want method='factored'"
            )
        networks.append(network)
    return ChosenNetwork(networks)


class _Seeds:
    """The models of several seeds, and their states stacked in one; None before training."""

    def __init__(self, models: Sequence[FactoredPPO], networks: Sequence[str], chosen: ChosenNetwork | None):
        self.models, self.networks, self.chosen = models, networks, chosen
        self.states: TrainState | None = None
        self.initial: TrainState | None = None
        first = models[0]
        self.compiled = first.compiled
        if chosen is not None:
            self.compiled = Compiled(dataclasses.replace(first.learner, spec=first.spec.with_network(chosen)))

    def stack(self) -> TrainState:
        """Return the states of all models stacked in one."""
        initial, self.initial = self.initial, None
        if initial is not None:
            return initial
        states = [model.state for model in self.models]
        if self.chosen is not None:
            order = list(dict.fromkeys(self.networks))
            matrices = [self.chosen.matrix(i) for i in range(len(order))]
            by_name = dict(zip(order, matrices, strict=True))
            states = [s._replace(network=by_name[name]) for s, name in zip(states, self.networks, strict=True)]
        return stacked(states)

    def set_states(self) -> None:
        """Set the state of each model from the stacked state."""
        states = [] if self.states is None else apart(self.states, len(self.models))
        for model, state in zip(self.models, states, strict=False):
            model.state = state if self.chosen is None else state._replace(network=None)


def _align(models: Sequence[FactoredPPO], recorders: Sequence[Recorder]) -> None:
    """Bring all runs to the same step: a crash while their checkpoints are written, one after the other, leaves some
    runs a checkpoint ahead of the others.

    Runs that are ahead go back to their previous checkpoint. New runs get a checkpoint before the first step, so that
    each has a previous one.
    """
    steps = [model.num_timesteps for model in models]
    has_new = any(not recorder.has_last and not recorder.saved for recorder in recorders)
    for recorder in recorders:
        model = recorder.model
        if model.num_timesteps > min(steps) and (has_new or not recorder.step_back(min(steps))):
            raise ValueError(
                f"seeds: got runs at {sorted(set(steps))} steps, want the same step for all; resume those that are "
                "behind one by one with --seed, or remove their folders"
            )
        recorder.keep(untrained=True)


def _learn(seeds: _Seeds, recorders: Sequence[Recorder], interrupts: Interrupts, progress_bar: bool) -> None:
    models, first = seeds.models, seeds.models[0]
    config, spec = first.config, first.spec
    if first.num_timesteps >= config.total_timesteps:
        return
    warn_if_short(config, config.total_timesteps - first.num_timesteps)
    if not first.num_timesteps and first.state.missing_edges is not None:
        warn_if_actors_respond(spec, config.policy.name, config.rollouts)
    seeds.states, steps, rollout = seeds.stack(), first.num_timesteps, config.rollout_steps
    began, warned = time.perf_counter(), False
    history: list[dict[str, Any]] = []

    def updates(states: TrainState, count: int) -> tuple[TrainState, Any, float, int]:
        start = time.perf_counter()
        new, rows = seeds.compiled.updates(states, count)
        return new, jax.device_get(rows), (time.perf_counter() - start) / count, count

    with bar_of_training(disable=not progress_bar) as progress, ThreadPoolExecutor(1) as device:
        bar = progress.add_task("", total=config.total_timesteps, completed=steps)
        running = device.submit(updates, seeds.states, 1)
        while running is not None:
            states, metrics, seconds, count = running.result()
            before, steps = steps, steps + count * rollout
            # The device computes the next updates while this process writes down the last ones.
            following = min(max(int(SECONDS / seconds), 1), seeds.compiled.max_updates)
            following = min(following, -(-(config.total_timesteps - steps) // rollout))
            running = device.submit(updates, states, following) if following > 0 else None
            times = {"time/fps": rollout / seconds, "time/time_elapsed": time.perf_counter() - began}
            times |= peak_memory(config)
            each: list[dict[str, Any]] = []
            for j in range(count):
                each = [
                    checked_metrics({k: v[j, i] for k, v in metrics.items()}, config, before + j * rollout)
                    for i in range(len(models))
                ]
                for recorder, row in zip(recorders, each, strict=True):
                    recorder.write(row | times)
                history = [*history[-CLIPPED_UPDATES:], each[0]]
                warn_if_clipped(config, history)
            # Only now: a resumed run drops rows after its checkpoint, but cannot restore missing rows before it.
            seeds.states = states
            if not warned:
                sums = jax.tree.map(lambda leaf: leaf[0], states.missing_edges)
                warned = warn_if_missing(spec, sums, before // rollout, steps // rollout)
            mean = np.mean([row.get("rollout/ep_rew_mean", np.nan) for row in each])
            progress.update(bar, completed=steps, description=f"mean return of {len(models)} seeds {mean:.4g}")
            if time.monotonic() > recorders[0].is_due_at:
                seeds.set_states()
                for recorder in recorders:
                    recorder.keep()
            interrupts.check()


def stacked(states: Sequence[TrainState]) -> TrainState:
    """Return states as one, each array with an axis of states in front."""
    arrays = [_on_host(eqx.filter(state, eqx.is_array)) for state in states]
    together = jax.tree.map(lambda *leaves: np.stack(leaves), *arrays)
    return _on_device(together, states[0])


def apart(states: TrainState, count: int) -> list[TrainState]:
    """Return the states that `stacked` made one of."""
    arrays = _on_host(eqx.filter(states, eqx.is_array))
    return [_on_device(jax.tree.map(lambda leaf, i=i: leaf[i], arrays), states) for i in range(count)]


def _is_key(x: Any) -> bool:
    return eqx.is_array(x) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _on_host(arrays: Any) -> Any:
    """Return arrays as NumPy arrays, and keys as their data."""
    return jax.device_get(jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, arrays))


def _on_device(arrays: Any, like: TrainState) -> TrainState:
    """Return arrays of the host on the default device, with keys and everything that is not an array as in `like`."""
    placed = jax.device_put(arrays)  # recent versions of JAX compile a program for `jnp.asarray`
    kept, rest = eqx.partition(like, eqx.is_array)
    wrap = lambda x, old: jax.random.wrap_key_data(x, impl=jax.random.key_impl(old)) if _is_key(old) else x  # noqa: E731
    return eqx.combine(jax.tree.map(wrap, placed, kept), rest)
