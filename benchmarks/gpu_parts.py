"""Measure where the time of an update goes on a GPU: kernels by name from a trace, and parts timed separately.

    python -m benchmarks.gpu_parts --name base --settings '{"n_envs": 64, …}' [--trace]

`--lock` names a lock file that is held during measurements, so that several of these programs can compile in parallel
and measure one after another.
"""

import argparse
import contextlib
import fcntl
import glob
import gzip
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

BEGAN = time.time()

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from factorax.ppo.minibatches import shuffled  # noqa: E402

from .gpu_tuning import evaluation, make_learner  # noqa: E402


@contextlib.contextmanager
def alone(path):
    """Hold the lock file, if one was given."""
    if path is None:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def stacked(learner, seeds):
    """Return stacked initial states of these seeds, on the default device."""
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        states = eqx.filter_vmap(learner.init)(np.arange(seeds))
    arrays, rest = eqx.partition(states, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, jax.devices()[0]), rest)


def seconds(program, *args, least=0.3):
    """Return the median time of a call, after one call to warm up."""
    jax.block_until_ready(program(*args))
    times, began = [], time.perf_counter()
    while time.perf_counter() - began < least or len(times) < 3:
        t = time.perf_counter()
        jax.block_until_ready(program(*args))
        times.append(time.perf_counter() - t)
    return float(np.median(times))


def compiled(function, *args):
    """Return a compiled function of pytrees, and the seconds of compilation."""
    t = time.perf_counter()
    arrays, rest = eqx.partition(args, eqx.is_array)
    holder = {}

    def run(arrays):
        out = function(*eqx.combine(arrays, rest))
        out, holder["rest"] = eqx.partition(out, eqx.is_array)
        return out

    program = jax.jit(run).lower(arrays).compile()
    taken = time.perf_counter() - t

    def call(*args):
        return program(eqx.partition(args, eqx.is_array)[0])

    return call, taken, program


def traced(program, states, updates, folder):
    """Return count and total microseconds of the kernels of some updates, by HLO operation."""
    with jax.profiler.trace(str(folder)):
        for _ in range(updates):
            jax.block_until_ready(program(states))
    path = sorted(glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True))[-1]
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    kernels: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, 0.0])
    first, last = 1e30, 0.0
    for event in events:
        on = processes.get(event.get("pid"), "")
        if event.get("ph") != "X" or "GPU" not in on or "Stream" not in threads.get((event["pid"], event["tid"]), ""):
            continue
        row = kernels[event.get("args", {}).get("hlo_op", ""), event["name"][:80]]
        row[0] += 1
        row[1] += event["dur"]
        first, last = min(first, event["ts"]), max(last, event["ts"] + event["dur"])
    rows: list[Any] = sorted(([*k, *v] for k, v in kernels.items()), key=lambda row: -float(row[3]))
    total = {"kernels": sum(r[2] for r in rows), "busy_us": sum(r[3] for r in rows), "span_us": last - first}
    return {"updates": updates, "processes": list(processes.values()), **total, "rows": rows[:600]}


def main():
    """Compile, measure and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--problem", default="traffic:3x3,slots=20")
    parser.add_argument("--settings", type=json.loads, default={})
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", action="store_true", help="also time the parts separately")
    parser.add_argument("--trace", action="store_true", help="count kernels")
    parser.add_argument("--hlo", action="store_true", help="write the optimised program")
    parser.add_argument("--lock")
    parser.add_argument("--out", type=Path, default=Path("."))
    args = parser.parse_args()
    result = {"name": args.name, "problem": args.problem, "settings": args.settings, "seeds": args.seeds}
    result |= {"flags": os.environ.get("XLA_FLAGS", ""), "seconds_import": time.time() - BEGAN}

    def write():
        (args.out / f"parts_{args.name}.json").write_text(json.dumps(result) + "\n", encoding="utf-8")

    learner = make_learner(args.problem, args.settings)
    c = learner.config
    states = stacked(learner, args.seeds)
    result["seconds_until_states"] = time.time() - BEGAN
    update, result["seconds_compile"], program = compiled(eqx.filter_vmap(learner.update), states)
    result["seconds_until_compiled"] = time.time() - BEGAN
    steps = args.seeds * c.n_envs * c.n_steps
    with alone(args.lock):
        result["seconds_update"] = seconds(update, states, least=1.0)
    result["steps_per_second"] = steps / result["seconds_update"]
    memory = program.memory_analysis()
    result["bytes"] = {n: getattr(memory, f"{n}_size_in_bytes") for n in ("argument", "output", "temp")}
    write()
    if args.hlo:
        with gzip.open(args.out / f"hlo_{args.name}.txt.gz", "wt") as file:
            file.write(str(program.as_text()))
    if args.trace:
        with alone(args.lock):
            try:
                result["trace"] = traced(update, states, 2, Path("/tmp") / f"trace_{args.name}_{os.getpid()}")
            except Exception as error:
                result["trace"] = {"error": repr(error)}
        write()
    if args.parts:
        result["parts"] = parts(learner, states, args, write, result)
    result["seconds"] = time.time() - BEGAN
    write()
    print(args.name, {k: v for k, v in result.items() if k not in ("trace", "settings")}, flush=True)


def parts(learner, states, args, write, result):
    """Return the seconds of each part of an update, compiled separately."""
    c, vmap = learner.config, eqx.filter_vmap
    collector, rule = learner.collector, learner.rule

    def simulate(state):
        """Step the environments with actions that need no policy."""
        n = len(learner.spec.components)
        act = lambda key, obs: jnp.broadcast_to(obs[:, :1] > 0, (len(obs), n)).astype(jnp.int32)  # noqa: E731
        return collector.environments.collect(state.environments, act, state.key, c.n_steps)[0]

    rollout, taken, _ = compiled(vmap(learner.collect), states)
    found: dict[str, Any] = {"compile_rollout": taken}
    with alone(args.lock):
        found["rollout"] = seconds(rollout, states)
    _, transitions = rollout(states)
    result["parts"] = found
    write()

    def prepare(state, transitions):
        agent, hyper = state.agent, state.hyper
        rollout, _, _ = learner.rollout(state, transitions)
        learned = agent, state.optimiser
        _, credit = rule.method.credit(rule, learned, rollout, rule.network.static, hyper, state.key)
        return rule.samples(agent, rollout, credit)

    def order(state):
        return jax.vmap(lambda key: shuffled(key, c.n_envs * c.n_steps))(jax.random.split(state.key, c.n_epochs))

    def policy(state, transitions):
        return state.agent.policy(transitions.obs[0], rule.local(transitions.obs[0]))[0]

    def local(state, transitions):
        return rule.local(transitions.obs)

    todo = {
        "simulate": (simulate, (states,)),
        "samples": (prepare, (states, transitions)),
        "learn_from": (learner.learn_from, (states, transitions)),
        "shuffle": (order, (states,)),
        "policy_one_step": (policy, (states, transitions)),
        "local": (local, (states, transitions)),
    }
    for name, (function, given) in todo.items():
        try:
            call, taken, _ = compiled(vmap(function), *given)
            with alone(args.lock):
                found[name] = seconds(call, *given)
            found[f"compile_{name}"] = taken
        except Exception as error:
            found[name] = repr(error)[:300]
        write()
    score = evaluation(learner, 10)
    t = time.perf_counter()
    jax.block_until_ready(score(states))
    found["compile_evaluation"] = time.perf_counter() - t
    with alone(args.lock):
        found["evaluation"] = seconds(score, states)
    return found


if __name__ == "__main__":
    main()
