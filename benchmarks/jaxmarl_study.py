"""Compare factored PPO with IPPO and MAPPO of JaxMARL: `python -m benchmarks.jaxmarl_study --help`.

- ``spread``: MPE_simple_spread_v3, 3 agents. Our targets are the agents' rewards.
- ``hopper``, ``ant``: MABrax hopper_3x1 and ant_4x2. All agents get the same reward. Our targets are the terms of
  Brax's reward, with one control cost per agent. JaxMARL has no MAPPO for these tasks.

Our settings are those of JaxMARL's IPPO for the task, read from its files: numbers of environments, steps, epochs and
minibatches, learning rate and its decay, γ, λ, clipping, layers of 64 and 64, no bootstrapping at a time limit, actions
without bounds. MAPPO has its own settings. Seeds train side by side, for the same number of steps. The policies of all
methods are evaluated by the same function, with sampled actions, before the first update and after the last.

``python -m benchmarks.jaxmarl_study TASK --methods NAME --jaxmarl FOLDER --out FILE`` trains one method, so that
several methods can run in parallel with separate files. Its state is saved next to the file every minute and after
``--seconds``, and the same command continues from there. ``… draw FILE…`` merges such files, prints the tables and
draws ``docs/images/jaxmarl_study.png``.
"""

import argparse
import dataclasses
import json
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from factorax.ppo import Compiled, Learner
from factorax.problems import Problem

from . import jaxmarl_baselines as baselines
from .jaxmarl_report import draw, interval, merged, print_tables, read, versions
from .jaxmarl_tasks import SETTINGS, STEPS, TASKS, Ours, Theirs

RESULTS = Path(__file__).with_suffix(".json")
FIGURE = Path(__file__).parent.parent / "docs" / "images" / "jaxmarl_study.png"
MOST_POINTS = 100
"""Maximum number of points of a learning curve in the file."""
SECONDS_BETWEEN_FILES = 60


@dataclasses.dataclass(frozen=True)
class Run:
    """The options of the command line."""

    checkout: Path
    steps: int
    seeds: int
    episodes: int
    seconds: float
    """Seconds after which training stops, counted from `started`."""
    started: float


@dataclasses.dataclass(frozen=True)
class Training:
    """A method of JaxMARL or ours, trained a few updates at a time; states have a leading axis of seeds."""

    problem: Problem
    start: Callable[[], Any]
    updates: Callable[[Any, int], tuple[Any, Any]]
    """Maps a state and a number of updates to the new state and the returns ``(seeds, updates)``."""
    total: int
    rollout_steps: int
    policies: Callable[[Any], Any]
    """Maps a state to the first argument of `act`, arrays with a leading axis of seeds."""
    act: Callable[..., Any]
    memory: Any


def training_of(method: Theirs | Ours, run: Run) -> Training:
    return _theirs(method, run) if isinstance(method, Theirs) else _ours(method, run)


def _theirs(method: Theirs, run: Run) -> Training:
    problem = method.problem
    local = problem.local
    assert local is not None
    found = baselines.baseline(run.checkout, method.script, method.env_name, run.steps, run.seeds)
    agents = jax.eval_shape(local, jnp.zeros(problem.observation_space.shape)).shape[0]

    def act(parameters: Any, key: jax.Array, obs: jax.Array, memory: Any) -> Any:
        action, memory = found.act(parameters, key, local(obs), memory)
        return action.reshape(-1), memory

    return Training(
        problem,
        found.start,
        found.updates,
        found.total,
        found.rollout_steps,
        found.parameters,
        act,
        found.memory(agents),
    )


def _ours(method: Ours, run: Run) -> Training:
    with warnings.catch_warnings(action="ignore"):  # a dense K and actions without bounds are intended
        learner = Learner.of(method.problem, None, method.config)
    compiled = Compiled(learner)
    start = lambda: eqx.filter_vmap(learner.init)(jnp.arange(run.seeds))  # noqa: E731
    rest = eqx.partition(eqx.filter_eval_shape(start), _is_array)[1]

    def updates(states: Any, length: int) -> Any:
        returns, left = [], length
        while left:
            count = min(left, compiled.max_updates)
            states, metrics = compiled.updates(states, count)
            returns.append(metrics["rollout/ep_rew_mean"][:count])
            left -= count
        return states, np.concatenate(returns).T

    def act(arrays: Any, key: jax.Array, obs: jax.Array, memory: Any) -> Any:
        action = learner.act(eqx.combine(arrays, rest), key, obs)
        return learner.spec.components.to_environment(action, jnp), memory

    config = method.config
    total = config.total_timesteps // config.rollout_steps
    policies = lambda states: eqx.filter(states, eqx.is_array)  # noqa: E731
    return Training(method.problem, start, updates, total, config.rollout_steps, policies, act, None)


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


# ---- training, with pauses ----------------------------------------------------------------------------------


def trained(training: Training, run: Run, kept: Path, write: Callable[[dict[str, Any]], None]) -> None:
    """Train a method to its end or until the time limit, and write its results; its state is saved in `kept`."""
    state, returns, before, untrained = training.start(), np.zeros((run.seeds, 0)), 0.0, None
    play = player(training, run)
    if kept.exists():
        state, returns, before, untrained = restored(kept, state)
    else:
        untrained = play(state)
    wanted = training.total * training.rollout_steps

    def write_curves(final: np.ndarray | None) -> None:
        found = result(returns, np.zeros(0) if final is None else final, seconds, training.rollout_steps)
        about = {"trained": returns.shape[1] * training.rollout_steps, "wanted": wanted}
        write(found | about | {"untrained": np.round(untrained.astype(float), 3).tolist()})

    chunk = chunk_of(training.total)
    start = kept_at = time.perf_counter()
    seconds = before
    while returns.shape[1] < training.total and time.perf_counter() - run.started < run.seconds:
        state, more = training.updates(state, chunk)
        returns = np.concatenate([returns, np.asarray(more)], axis=1)
        seconds = before + time.perf_counter() - start
        if time.perf_counter() - kept_at > SECONDS_BETWEEN_FILES:
            keep(kept, state, returns, seconds, untrained)
            write_curves(None)
            kept_at = time.perf_counter()
    keep(kept, state, returns, seconds, untrained)
    write_curves(None)  # in case the process is killed during the evaluation
    write_curves(play(state))


def chunk_of(updates: int) -> int:
    """Return how many updates are compiled as one program: a divisor of their number, because every other length would
    need another compilation."""
    return max(length for length in range(1, max(1, updates // MOST_POINTS) + 1) if updates % length == 0)


def keep(path: Path, state: Any, returns: np.ndarray, seconds: float, untrained: np.ndarray) -> None:
    leaves = [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in _arrays(state)]
    named: dict[str, Any] = {f"leaf_{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    np.savez(path, returns=returns, seconds=seconds, untrained=untrained, **named)


def restored(path: Path, like: Any) -> tuple[Any, np.ndarray, float, np.ndarray]:
    """Return what `keep` has saved, with a state of the same structure as `like`."""
    with np.load(path, allow_pickle=False) as file:
        leaves = [jnp.asarray(file[f"leaf_{i}"]) for i in range(len(_arrays(like)))]
        returns, seconds, untrained = file["returns"], float(file["seconds"]), file["untrained"]
    arrays, rest = eqx.partition(like, eqx.is_array)
    flat, structure = jax.tree.flatten(arrays)
    fitting = [
        jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(old)) if _is_key(old) else leaf
        for leaf, old in zip(leaves, flat, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(structure, fitting), rest), returns, seconds, untrained


def _arrays(state: Any) -> list[Any]:
    return jax.tree.leaves(eqx.filter(state, eqx.is_array))


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


# ---- the same evaluation for all --------------------------------------------------------------------------


def player(training: Training, run: Run) -> Callable[[Any], np.ndarray]:
    """Return a function from a state to the mean return λ·ψ of each seed, over episodes with sampled actions."""
    problem, act = training.problem, training.act
    weights = jnp.asarray(problem.weights, jnp.float32)
    steps = 25 if "MPE" in problem.name else 1000

    def episode(parameters: Any, key: jax.Array) -> jax.Array:
        for_reset, for_steps = jax.random.split(key)
        state, obs = problem.reset(for_reset)

        def step(carry: Any, key: jax.Array) -> Any:
            state, obs, memory, total, goes_on = carry
            for_action, for_step = jax.random.split(key)
            action, memory = act(parameters, for_action, obs, memory)
            new = problem.step(for_step, state, action)
            total = total + jnp.where(goes_on, new.psi @ weights, 0.0)
            return (new.state, new.obs, memory, total, goes_on & ~(new.terminated | new.truncated)), None

        start = (state, obs, training.memory, jnp.float32(0), jnp.array(True))
        return jax.lax.scan(step, start, jax.random.split(for_steps, steps))[0][3]

    means = lambda parameters, keys: jax.vmap(lambda key: episode(parameters, key))(keys).mean()  # noqa: E731
    compiled = jax.jit(jax.vmap(means))
    # Different episodes for each seed, so that intervals over seeds include the randomness of episodes.
    keys = jax.random.split(jax.random.key(12345), (run.seeds, run.episodes))
    return lambda state: np.asarray(compiled(training.policies(state), keys))


def result(returns: np.ndarray, final: np.ndarray, seconds: float, rollout_steps: int) -> dict[str, Any]:
    """Return the entry of a method in the file; curves are means of neighbouring updates, with at most `MOST_POINTS`
    points."""
    updates = returns.shape[1]
    if not updates:
        return {"final": [], "seconds": round(seconds, 1), "steps": [], "curves": [[] for _ in returns]}
    edges = np.unique(np.linspace(0, updates, min(MOST_POINTS, updates) + 1).astype(int))
    with warnings.catch_warnings(action="ignore"):  # updates in which no episode ended
        points = np.stack([np.nanmean(returns[:, a:b], axis=1) for a, b in pairwise(edges)], axis=1)
    return {
        "final": np.round(final.astype(float), 3).tolist(),
        "seconds": round(seconds, 1),
        "steps": (edges[1:] * rollout_steps).tolist(),
        "curves": [[None if np.isnan(x) else round(float(x), 2) for x in row] for row in points],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", nargs="+", help="task: spread, hopper or ant; or draw followed by result files")
    parser.add_argument("--jaxmarl", type=Path, help="folder of a checkout of JaxMARL")
    parser.add_argument("--methods", nargs="*", default=[], help="names of methods; all by default")
    parser.add_argument(
        "--steps", type=float, help="number of steps, summed over all environments; the default depends on the task"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, help="number of evaluation episodes per seed")
    parser.add_argument(
        "--seconds",
        type=float,
        default=float("inf"),
        help="stop training after this many seconds; the same command continues it",
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    given = parser.parse_args()
    started = time.perf_counter()
    if given.what[0] == "draw":
        found = merged([read(Path(file)) for file in given.what[1:]] or [read(given.out)])
        given.out.write_text(json.dumps(found) + "\n", encoding="utf-8")
        print_tables(found)
        draw(found, given.figure)
        return
    if given.jaxmarl is None:
        parser.error("--jaxmarl: left out, want the folder of a checkout of JaxMARL")
    for task in given.what:
        steps = int(given.steps or STEPS[task])
        episodes = given.episodes or (1000 if task == "spread" else 64)
        run = Run(given.jaxmarl, steps, given.seeds, episodes, given.seconds, started)
        about = {"device": jax.devices()[0].device_kind, "versions": versions(), "steps": steps}
        about |= {"seeds": run.seeds, "episodes": run.episodes}
        merged([read(given.out), {task: about | {"methods": {}}}])  # raises now rather than after training
        settings = baselines.settings_of(run.checkout, SETTINGS[task])
        for name, method in TASKS[task](settings, steps).items():
            if given.methods and name not in given.methods:
                continue

            def write(found: dict[str, Any], task: str = task, name: str = name, about: Any = about) -> None:
                together = merged([read(given.out), {task: about | {"methods": {name: found}}}])
                given.out.write_text(json.dumps(together) + "\n", encoding="utf-8")
                if found["final"]:
                    mean, half = interval(found["final"])
                    until = f"{found['trained']:,} of {found['wanted']:,} steps, {found['seconds']} s"
                    print(f"{task}: {name}: {mean:.2f} ± {half:.2f}, {until}", flush=True)

            given.out.parent.mkdir(parents=True, exist_ok=True)
            kept = given.out.with_name(f"{given.out.stem}-{task}-{name.replace(' ', '_')}-{steps}-{run.seeds}.npz")
            trained(training_of(method(), run), run, kept, write)


if __name__ == "__main__":
    main()
