"""Train many settings with one program: returns of final policies by learning rate, entropy bonus and length.

    python -m benchmarks.gpu_tuning --name wide --settings '{"n_envs": 256, …}' --grid '{"learning_rate": [1e-3, …]}'

Settings that determine the program are those of the preset `traffic-full`, unless `--settings` replaces them. Every
combination of `--grid` (fields of `Hyper`, or a list of such dictionaries) is trained with every seed, all in one
`vmap`. It is scored with most probable actions at its own `total_timesteps`, when its schedules end.
"""

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from factorax.ppo import Config, Learner, find_network
from factorax.ppo.presets import read_preset
from factorax.problems import find_problem
from factorax.rollouts.in_jax import JaxEnvironments


def combinations(grid):
    """Return all combinations of a dictionary of lists, or of several such dictionaries."""
    if isinstance(grid, list):
        return [each for part in grid for each in combinations(part)]
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def make_learner(problem, settings):
    """Return the learner of a problem by name, with the settings of the preset `traffic-full`."""
    preset = read_preset("traffic-full")
    config = Config.of(preset.settings | settings)
    made = find_problem(problem)
    return Learner.of(made, find_network(made, preset.network or "own", steps=1), config)


def use_optimiser(name):
    """Minimise with another optimiser of optax instead of Adam."""
    make = {"lamb": optax.lamb, "lion": lambda rate: optax.lion(rate, weight_decay=0.0)}[name]
    optax.adam = lambda rate, eps: make(rate)  # `Method.optimiser` clips before it
    if name == "lamb":  # the length of its steps is that of each layer
        optax.flatten = lambda inner: inner


def evaluation(learner, episodes):
    """Return a compiled function from states of several runs to returns, ``(runs, episodes)``."""
    problem = learner.spec.problem
    environments = JaxEnvironments(problem, episodes, learner.spec.components)
    horizon = problem.simulator.traffic.horizon
    weights = jnp.asarray(learner.spec.weights)

    def play(state, key):
        act = learner.behaviour(state).act
        most_probable = lambda key, obs: act(key, obs, deterministic=True)  # noqa: E731
        _, transitions = environments.collect(environments.init(key), most_probable, key, horizon)
        return (transitions.psi * weights).sum(axis=(0, 2))

    played = eqx.filter_jit(eqx.filter_vmap(play, in_axes=(eqx.if_array(0), None)))
    return lambda states: played(states, jax.random.key(0))


def main():
    """Train, score and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--problem", default="traffic:3x3,slots=20")
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("--grid", type=json.loads, default={"learning_rate": [1e-3]})
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which training stops")
    parser.add_argument("--optimiser", choices=["adam", "lamb", "lion"], default="adam")
    parser.add_argument(
        "--every", type=int, default=0, help="number of updates between evaluations, in addition to the final ones"
    )
    parser.add_argument("--save", action="store_true", help="save the parameters of all runs")
    parser.add_argument("--out", type=Path, default=Path("."))
    args = parser.parse_args()
    if args.optimiser != "adam":
        use_optimiser(args.optimiser)
    began = time.time()
    learner = make_learner(args.problem, args.settings)
    c = learner.config
    grid = combinations(args.grid)
    runs = [(hyper, seed) for hyper in grid for seed in range(args.first_seed, args.first_seed + args.seeds)]
    result = {"name": args.name, "problem": args.problem, "settings": args.settings, "device": str(jax.devices()[0])}
    result["optimiser"] = args.optimiser
    result |= {"seeds": args.seeds, "grid": grid, "final": [None] * len(grid), "curve": [], "evaluations": []}

    def write():
        path = args.out / f"tune_{args.name}.json"
        path.with_suffix(".tmp").write_text(json.dumps(result) + "\n", encoding="utf-8")
        path.with_suffix(".tmp").replace(path)

    names = sorted({name for hyper in grid for name in hyper} | {"total_timesteps"})
    columns = {n: np.array([float(h.get(n, getattr(c, n))) for h, _ in runs], np.float32) for n in names}
    seeds = np.array([seed for _, seed in runs])
    # On the CPU: many small operations, each of which would be compiled for the GPU.
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        states = eqx.filter_vmap(lambda seed, hyper: learner.init(seed, **hyper))(seeds, columns)
    arrays, rest = eqx.partition(states, eqx.is_array)
    states = eqx.combine(jax.device_put(arrays, jax.devices()[0]), rest)
    jax.block_until_ready(states.key)
    result["seconds_init"] = time.time() - began
    program: Any = eqx.filter_jit(eqx.filter_vmap(learner.update))
    update = program.lower(states).compile()
    result["seconds_compiled"] = time.time() - began
    score = evaluation(learner, args.episodes)
    ends = np.asarray(columns["total_timesteps"])
    last = int(ends.max())
    steps, count, training = 0, 0, time.time()
    per_update = []
    while steps < last and time.time() - began < args.limit:
        ticked = time.time()
        states, metrics = update(states)
        returns = np.asarray(metrics["rollout/ep_rew_mean"])
        per_update.append(time.time() - ticked)
        steps, count = steps + c.n_envs * c.n_steps, count + 1
        if count % 20 == 0:
            row = np.where(np.asarray(metrics["rollout/episodes"]) > 0, returns, np.nan)
            mean = np.nanmean(row.reshape(len(grid), -1), axis=1)
            result["curve"].append(
                [steps, round(time.time() - training, 3), [None if np.isnan(x) else round(float(x), 2) for x in mean]]
            )
            write()
        ended = (ends <= steps) & (ends > steps - c.n_envs * c.n_steps)
        if ended.any() or (args.every and count % args.every == 0) or time.time() - began >= args.limit:
            now = time.time()
            scores = np.asarray(score(states)).mean(axis=1).reshape(len(grid), -1)
            result["evaluations"].append([steps, round(now - training, 3), np.round(scores, 2).tolist()])
            for i, over in enumerate(np.atleast_1d(ended.reshape(len(grid), -1).any(axis=1))):
                if over or time.time() - began >= args.limit:
                    result["final"][i] = result["final"][i] or [steps, np.round(scores[i], 2).tolist()]
            write()
            training += time.time() - now  # without evaluations
    result |= {"seconds_training": time.time() - training, "updates": count, "steps": steps,
               "seconds_per_update": float(np.median(per_update)), "runs": len(runs)}  # fmt: skip
    result["seconds"] = time.time() - began
    write()
    if args.save:
        leaves = jax.tree.leaves(eqx.filter(states.agent.policy, eqx.is_array))
        np.savez_compressed(args.out / f"policy_{args.name}.npz", *map(np.asarray, leaves))
    print(args.name, *(f"{h}: {f}" for h, f in zip(grid, result["final"], strict=True)), sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
