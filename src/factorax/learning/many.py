"""Many seeds as one program: every one has a run folder, as if it had been trained alone."""

import copy
import dataclasses
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _progress
from ..problems.problem import Problem
from . import device_memory, influence, runs, sharding, sight
from .config import Config
from .factored_ppo import FactoredPPO, finished
from .recording import Recorder
from .state import TrainState


def train_seeds(
    problem: str,
    config: Config,
    outs: Sequence[Path],
    *,
    network: str = "own",
    force: bool = False,
    progress_bar: bool = True,
) -> list[FactoredPPO]:
    """Train with the seeds `config.seed`, `config.seed` + 1, …, one for each folder, or go on there.

    The problem must be a JAX one: `update` is mapped over the seeds, and what each of them gives agrees with a run of
    its own to rounding.
    """
    configs = [dataclasses.replace(config, seed=config.seed + i) for i in range(len(outs))]
    first = runs.make(problem, network, dataclasses.asdict(config))
    if not isinstance(first.learner.problem, Problem):
        raise ValueError(f"seeds: {problem!r} is stepped on the host, and seeds side by side need a JAX problem")
    with ExitStack() as stack:
        models, recorders = [], []
        for out, own in zip(outs, configs, strict=True):
            model = copy.copy(first)  # with the learner of all, so that all is compiled once
            model.config, model.state, model.history = own, first.learner.init(own.seed), []
            models.append(model)
            has_last = stack.enter_context(runs.opened(Path(out), problem, own, model, network=network, force=force))
            recorders.append(Recorder(Path(out), model, has_last=has_last))
        _at_one_step(models)
        try:
            _learn(models, recorders, progress_bar)
        finally:
            for recorder in recorders:
                recorder.keep()
    return models


def _at_one_step(models: Sequence[FactoredPPO]) -> None:
    """A crash between two checkpoints leaves some seeds further than others."""
    steps = [model.timesteps for model in models]
    if len(set(steps)) > 1:
        raise ValueError(
            f"seeds: their runs are at {sorted(set(steps))} steps, want the same for all; go on with --seed for those "
            "behind, or remove their folders"
        )


def _learn(models: Sequence[FactoredPPO], recorders: Sequence[Recorder], progress_bar: bool) -> None:
    config, learner = models[0].config, models[0].learner
    if models[0].timesteps >= config.total_timesteps:
        return
    if not models[0].timesteps and models[0].state.validity is not None:
        sight.warn_if_actors_answer(learner)
    states = sharding.place(learner.devices, _stacked([model.state for model in models]), lead=1)

    def update_all(states: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        new, metrics = eqx.filter_vmap(learner.update)(states)
        return sharding.place(learner.devices, new, lead=1), metrics

    update = device_memory.compiled(update_all, states, config, len(models))
    begun, steps, warned = time.perf_counter(), models[0].timesteps, False
    with _progress.progress_bar(disable=not progress_bar) as progress:
        bar = progress.add_task("", total=config.total_timesteps, completed=steps)
        try:
            while steps < config.total_timesteps:
                started = time.perf_counter()
                new, metrics = update(states)
                metrics = {name: np.asarray(value) for name, value in metrics.items()}
                now = time.perf_counter()
                times = {"time/fps": config.n_envs * config.n_steps / (now - started), "time/time_elapsed": now - begun}
                times |= device_memory.peak()
                each = [finished({k: v[i] for k, v in metrics.items()}, config, steps) for i in range(len(models))]
                for recorder, own in zip(recorders, each, strict=True):
                    recorder.write(own | times)
                # Only now: a run that goes on drops rows beyond its checkpoint, and would not miss those before it.
                states, steps = new, steps + config.n_envs * config.n_steps
                if not warned:
                    first = jax.tree.map(lambda leaf: leaf[0], states.validity)
                    warned = influence.warn_if_edges_are_missing(learner, first, each[0]["time/iterations"])
                mean = np.mean([own.get("rollout/ep_rew_mean", np.nan) for own in each])
                progress.update(bar, completed=steps, description=f"mean return of {len(models)} seeds {mean:.4g}")
                if recorders[0].due:
                    _give(states, models)
                    for recorder in recorders:
                        recorder.keep()
        finally:
            _give(states, models)


def _stacked(states: Sequence[TrainState]) -> TrainState:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *states)


def _give(states: TrainState, models: Sequence[FactoredPPO]) -> None:
    for i, model in enumerate(models):
        model.state = jax.tree.map(lambda leaf, i=i: leaf[i] if eqx.is_array(leaf) else leaf, states)
