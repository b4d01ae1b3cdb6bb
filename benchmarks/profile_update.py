"""Measure the time of each part of an update, and how far each part is from its limit.

``python -m benchmarks.profile_update NAME`` measures on this machine and writes its results as the device NAME into
``benchmarks/profile_update.json``, next to those of other devices; ``python docs/profile_figure.py`` draws them. On a
CPU it runs on one core and counts processor time.

The parts of the passes over a rollout are differences between loops over its minibatches, each of which does more than
the one before: gather the samples, compute the mean squares of the networks' outputs and their gradient, compute the
loss of PPO and its gradient, make a step of the optimiser.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
REPEATS = 25


def clock() -> float:
    """Return the processor time on a CPU, which other work does not change, or the wall-clock time on other devices."""
    import jax

    return time.process_time() if jax.default_backend() == "cpu" else time.perf_counter()


def measured(function: Callable[..., Any], *arguments: Any, repeats: int = REPEATS) -> tuple[float, Any]:
    """Return the median seconds of a compiled function, and its result."""
    import jax

    compiled = jax.jit(function).lower(*arguments).compile()
    result = jax.block_until_ready(compiled(*arguments))
    taken = []
    for _ in range(repeats):
        start = clock()
        jax.block_until_ready(compiled(*arguments))
        taken.append(clock() - start)
    return statistics.median(taken), result


def seconds(function: Callable[..., Any], *arguments: Any) -> float:
    """Return the median seconds of a compiled function."""
    return measured(function, *arguments)[0]


def limits() -> dict[str, float]:
    """Return the operations per second of a large matrix product, and the bytes per second that a copy reads and
    writes."""
    import jax
    import jax.numpy as jnp

    size, numbers, times = 1024, 2**25, 8
    matrix, vector = jnp.ones((size, size)), jnp.ones(numbers)
    # Copy several times within one program: the first use of new memory costs more than the copy.
    copies = lambda x: jax.lax.fori_loop(0, times, lambda _, x: x + 1, x)  # noqa: E731
    return {
        "flops": 2 * size**3 / seconds(lambda x: x @ x, matrix),
        "bandwidth": times * 2 * 4 * numbers / seconds(copies, vector),
    }


def learners() -> dict[str, Any]:
    """Return learners of the preset `traffic` on 3×3 lights and, if Gymnax is installed, of CartPole as in the
    comparison with Rejax."""
    from factorax.ppo import Config, Learner, find_network
    from factorax.ppo.presets import read_preset
    from factorax.problems import find_problem

    found = {}
    try:
        from factorax.integrations import from_gymnax

        small = Config(n_envs=64, n_steps=64, batch_size=512, n_epochs=10, clip_range_vf=0.2, ent_coef=0.01)
        found["CartPole, 64 × 64 steps, minibatches of 512"] = Learner.of(from_gymnax("CartPole-v1"), None, small)
    except ImportError:
        print("CartPole is left out: Gymnax is not installed")
    preset, problem = read_preset("traffic"), find_problem("traffic:3x3")
    network = find_network(problem, preset.network or "own")
    found["traffic 3×3, preset `traffic`"] = Learner.of(problem, network, preset.config)
    return found


def profile(learner: Any, limit: dict[str, float]) -> list[dict[str, Any]]:
    """Return the milliseconds of each part of an update, and its limit."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from factorax.ppo.minibatches import shuffled

    c, rule, state = learner.config, learner.rule, learner.init(0)
    agent, old = state.agent, state.agent.policy.spread
    passes, size = c.n_epochs, c.n_envs * c.n_steps
    weights = [x for x in jax.tree.leaves(eqx.filter(agent, eqx.is_inexact_array)) if x.ndim == 2]
    rows = len(learner.spec.components) if c.policy.name == "shared" else 1
    forward = 2.0 * rows * sum(x.size for x in weights)
    """Number of operations of both networks for one sample."""

    def bytes_of(tree: Any) -> float:
        return float(sum(x.nbytes for x in jax.tree.leaves(eqx.filter(tree, eqx.is_array)) if hasattr(x, "nbytes")))

    arrays, static = eqx.partition(state, eqx.is_array)

    def rollout(arrays: Any) -> Any:
        return learner.collect(eqx.combine(arrays, static))[1]

    def samples(arrays: Any, transitions: Any) -> Any:
        state = eqx.combine(arrays, static)
        rollout, _, _ = learner.rollout(state, transitions)
        learned = state.agent, state.optimiser
        _, credit = rule.method.credit(rule, learned, rollout, rule.network.static, c.hyper, state.key)
        return rule.samples(state.agent, rollout, credit)

    playing, transitions = measured(rollout, arrays)
    preparing, drawn = measured(samples, arrays, transitions)
    optimiser = rule.method.optimiser(c.hyper)
    learnt, fixed = eqx.partition(agent, eqx.is_inexact_array)
    order = shuffled(jax.random.key(0), size).reshape(-1, c.batch_size)
    count = len(order)

    def loop(step: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that makes a step with every minibatch."""

        def run(carry: Any, drawn: Any, order: jax.Array) -> Any:
            take = rule.steps(drawn).take
            return jax.lax.scan(lambda carry, indices: (step(carry, take(indices)), None), carry, order)[0]

        return run

    def total(tree: Any) -> jax.Array:
        return jnp.stack([x.astype(jnp.float32).sum() for x in jax.tree.leaves(tree)]).sum()

    def outputs(learnt: Any, part: Any) -> jax.Array:
        out, value = rule.method.evaluate(rule, eqx.combine(learnt, fixed), part)
        return (out[0] ** 2).mean() + (value**2).mean()

    def loss(learnt: Any, part: Any) -> jax.Array:
        outputs = rule.method.evaluate(rule, eqx.combine(learnt, fixed), part)
        return rule.method.loss(rule, outputs, part, c.hyper, (None, old))[0]

    def moved(learnt: Any, gradient: Any) -> Any:
        return jax.tree.map(lambda x, y: x - 1e-6 * y, learnt, gradient)

    def whole(carry: Any, part: Any) -> Any:
        learnt, moments = carry
        changes, moments = optimiser.update(jax.grad(loss)(learnt, part), moments, learnt)
        return eqx.apply_updates(learnt, changes), moments

    gather = seconds(loop(lambda carry, part: carry + total(part)), jnp.float32(0), drawn, order)
    networks = seconds(loop(lambda x, part: moved(x, jax.grad(outputs)(x, part))), learnt, drawn, order)
    losses = seconds(loop(lambda x, part: moved(x, jax.grad(loss)(x, part))), learnt, drawn, order)
    steps = seconds(loop(whole), (learnt, optimiser.init(learnt)), drawn, order)
    sort = seconds(lambda key: shuffled(key, size), jax.random.key(0))
    parameters, moving = bytes_of(learnt), limit["bandwidth"]
    parts = [
        ("rollout", playing, bytes_of(transitions) / moving + size * forward / 2 / limit["flops"]),
        ("values and credits", preparing, size * forward / limit["flops"]),
        ("shuffle", passes * sort, passes * 8 * size / moving),
        ("gather minibatches", passes * gather, passes * 2 * bytes_of(drawn) / moving),
        ("networks", passes * (networks - gather), passes * size * 3 * forward / limit["flops"]),
        ("loss", passes * (losses - networks), passes * bytes_of(drawn) / moving),
        ("optimiser", passes * (steps - losses), passes * count * 7 * parameters / moving),
    ]
    return [{"part": name, "ms": 1e3 * max(taken, 0.0), "limit_ms": 1e3 * floor} for name, taken, floor in parts]


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "this machine"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    limit = limits()
    print({name: f"{value:.3g}" for name, value in limit.items()}, flush=True)
    found: dict[str, Any] = {"limits": limit, "problems": {}}
    for name, learner in learners().items():
        found["problems"][name] = profile(learner, limit)
        for row in found["problems"][name]:
            print(f"{name}: {row['part']:20s} {row['ms']:9.2f} ms, limit {row['limit_ms']:9.3f} ms", flush=True)
        known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
        FILE.write_text(json.dumps(known | {device: found}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
