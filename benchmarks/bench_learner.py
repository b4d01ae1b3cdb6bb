"""The learner: one update compared with Stable-Baselines3's on the same batch, and the cost of factoring.

Stable-Baselines3 and PyTorch are optional: without them (``pip install stable-baselines3 torch==2.13.0``) their rows
are left out.
"""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from factorax_paper.harness.sb3_baseline import ppo
from factorax_traffic import lanes

from factorax.ppo import AdaptiveNetwork, Compiled, Config, FactoredPPO, Learner, Rollout
from factorax.problems import contextual_bandit, queues
from factorax.structure import patterns

from .timing import Row, at_least, at_most, medians

CARTPOLE = Config(n_envs=8, n_steps=128, batch_size=64, n_epochs=10, method="ppo")


def cartpole() -> gym.Env:
    return gym.make("CartPole-v1")


def stable_baselines(config: Config, make: Callable[[], gym.Env], seed: int = 0) -> Any:
    """Return Stable-Baselines3's PPO with the same settings, or None if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return ppo(DummyVecEnv([make] * config.n_envs), config, seed)


def update(learner: Learner, rollout: Rollout) -> Any:
    """Return the compiled update of a learner on a rollout."""
    state, key = learner.init(0), jax.random.key(0)
    compiled = eqx.filter_jit(
        lambda agent, optimiser, rollout: learner.rule.learn(agent, optimiser, rollout, key=key)[:2]
    )
    return lambda: jax.block_until_ready(compiled(state.agent, state.optimiser, rollout)[0].policy.spread.log_std)


def random_rollout(learner: Learner, seed: int = 0) -> Rollout:
    """Return a rollout of noise, on which an update takes as long as on any other."""
    rng = np.random.default_rng(seed)
    c, spec = learner.config, learner.spec
    shape = (c.n_steps, c.n_envs)
    obs = jnp.asarray(rng.normal(size=(*shape, spec.n_inputs)).astype(np.float32))
    return Rollout(
        obs=obs,
        local=learner.rule.local(obs),
        action=jnp.asarray(rng.integers(0, 2, (*shape, len(spec.components))).astype(np.float32)),
        psi=jnp.asarray(rng.normal(size=(*shape, spec.n_targets)).astype(np.float32)),
        next_obs=obs,
        terminated=jnp.asarray(rng.random(shape) < 0.01),
        truncated=jnp.zeros(shape, bool),
    )


def rows() -> Iterator[Row]:
    plain = Learner.of(cartpole, None, CARTPOLE)
    theirs = stable_baselines(CARTPOLE, cartpole)
    if theirs is not None:
        theirs.learn(CARTPOLE.n_envs * CARTPOLE.n_steps)  # fill its buffer
        ours, other = medians(update(plain, random_rollout(plain)), theirs.train, repeats=7)
        yield at_least(
            "PPO update, CartPole-v1, 1024 samples, 10 epochs", 1 / ours, 1 / other, "Stable-Baselines3", 6.0, "/s"
        )
        yield end_to_end("CartPole-v1", FactoredPPO(cartpole, **vars(CARTPOLE)), theirs, bound=1.5, rollouts=3)
    for n, bound in ((9, 1.15), (100, 1.30)):
        problem = contextual_bandit(n)
        settings: dict[str, Any] = {"n_envs": 16, "n_steps": 64, "batch_size": 128, "n_epochs": 4}
        settings |= {"policy": "joint", "critic": "target"}
        net = patterns.banded(n, 2)
        learners = [Learner.of(problem, net, Config(method=method, **settings)) for method in ("factored", "ppo")]
        ours, other = medians(*(update(learner, random_rollout(learner)) for learner in learners), repeats=31)
        yield at_most(f"factored update, n = m = {n}", ours, other, "method ppo", bound)
    yield from scaling()
    yield from varying()
    yield seeds()


def varying() -> Iterator[Row]:
    """Measure a complete update on 3×3 traffic lights, including the rollout, with networks that vary and a fixed
    one."""
    problem = lanes(3, 3, slots=20)
    sizes = {"n_envs": 8, "n_steps": 400, "batch_size": 320, "n_epochs": 5, "hidden": (32, 32, 32)}
    config = Config(policy="shared", critic="target", check_network=False, **sizes)
    corridor = problem.influence("corridor")
    networks = {
        "fixed": (corridor, config),
        "by lag": (problem.influence("travel"), config),
        "adaptive": (AdaptiveNetwork(corridor), config),
        "fixed, tested for missing edges": (corridor, replace(config, check_network=True)),
    }
    runs = []
    for network, settings in networks.values():
        learner = Learner.of(problem, network, settings)
        state, compiled = learner.init(0), eqx.filter_jit(learner.update)
        runs.append(lambda compiled=compiled, state=state: jax.block_until_ready(compiled(state)))
    fixed, *others = medians(*runs, repeats=5)
    for name, taken in zip(list(networks)[1:], others, strict=True):
        yield at_most(f"update on 3×3 traffic lights, network {name}", taken, fixed, "fixed", 1.5)


def end_to_end(name: str, ours: FactoredPPO, theirs: Any, *, bound: float, rollouts: int) -> Row:
    """Measure steps per second of complete training, with equal vectorisation."""
    steps = rollouts * ours.config.rollout_steps
    mine, other = medians(
        lambda: ours.learn(steps, reset_num_timesteps=False, progress_bar=False),
        lambda: theirs.learn(steps, reset_num_timesteps=False),
        repeats=7,
    )
    ours.close()
    what = f"PPO training, {name}, {ours.config.n_envs} environments"
    return at_least(what, steps / mine, steps / other, "Stable-Baselines3", bound, "steps/s")


def scaling() -> Iterator[Row]:
    """Measure time per factor and step as the number of factors grows."""
    per_factor = []
    for side in (3, 10, 100):
        sizes: dict[str, Any] = {"n_envs": 4, "n_steps": 8, "batch_size": 32, "n_epochs": 1, "hidden": (32, 32)}
        config = Config(policy="shared,identity=8", critic="factor", **sizes)
        learner = Learner.of(queues(side, side), None, config)
        state, compiled = learner.init(0), Compiled(learner)
        (taken,) = medians(lambda c=compiled, s=state: jax.block_until_ready(c.updates(s)[0].timesteps), repeats=5)
        per_factor.append(taken / (side * side * 32))
    first, _, last = per_factor
    yield at_most("shared policy, a factor-step, n = 10,000", last, first, "n = 9", 1.0)


def seeds() -> Row:
    """Measure eight seeds at once on two cores."""
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-m", "benchmarks.eight_seeds"]
    done = subprocess.run(command, env=os.environ | devices, capture_output=True, text=True, check=True)
    together, single = json.loads(done.stdout)
    return at_most("training, eight seeds in one vmap over two cores", together, single, "one seed", 4.0)
