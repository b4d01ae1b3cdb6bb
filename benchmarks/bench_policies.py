"""Policies: the cost of a user's own module and of memory, and of a worker's step with each kind."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from factorax.learning import Config, Learner, Program
from factorax.learning.modules.mlp import ACTIVATIONS
from factorax.problems import queues
from factorax.spec import Spec

from .bench_learner import random_batch, update
from .timing import Row, at_most, medians

SIZES: dict[str, Any] = {"n_envs": 16, "n_steps": 128, "batch_size": 256, "n_epochs": 4, "check_network": False}


class Own(eqx.Module):
    """The built-in network of a joint policy, as a user would write it."""

    layers: list[eqx.nn.Linear]
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, spec: Spec, key: jax.Array):
        self.shape = len(spec.components), spec.components.width
        sizes = (spec.n_inputs, 64, 64, self.shape[0] * self.shape[1])
        keys = jax.random.split(key, 3)
        self.layers = [eqx.nn.Linear(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], keys, strict=True)]

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        for layer in self.layers[:-1]:
            obs = ACTIVATIONS["tanh"](layer(obs))
        return self.layers[-1](obs).reshape(self.shape)


class Still(gym.Env):
    """An environment that costs nothing, so that only the policy and its loop are measured."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (16,), np.float32)
    action_space = gym.spaces.MultiDiscrete([3] * 8)

    def __init__(self) -> None:
        self._obs = np.zeros(16, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._obs, {}

    def step(self, action: Any) -> Any:
        return self._obs, 0.0, False, False, {}


def _with_memory(learner: Learner) -> Any:
    """Return an update on a batch of noise, for a policy and a critic that may be recurrent."""
    batch, agent = random_batch(learner), learner.init(0).agent
    lead = batch.terminated.shape
    remembers = agent.critic.own_memory if agent.critic is not None else 0
    batch = batch._replace(
        memory=jnp.zeros((*lead, agent.policy.memory)) if agent.policy.memory else None,
        critic_memory=jnp.zeros((*lead, remembers)) if remembers else None,
    )
    return update(learner, batch)


def rows() -> Iterator[Row]:
    problem = queues(4)
    config = Config(**SIZES)
    ours, own = Learner.of(problem, config=config), Learner.of(problem, config=config, policy=Own)
    programs = [Program(learner) for learner in (own, ours)]
    states = [program.update(program.learner.init())[0] for program in programs]

    def whole(i: int) -> Any:
        return lambda: jax.block_until_ready(programs[i].update(states[i])[0].timesteps)

    theirs, ours_ = medians(whole(0), whole(1), repeats=15)
    yield at_most("update with a module of one's own, JAX problem", theirs, ours_, "ours", 1.05)
    for width in (64, 256):
        yield from remembering(width)
    yield from steps()


def remembering(width: int) -> Iterator[Row]:
    """Measure an update of a GRU relative to two layers; the cell replaces the second layer, or both."""
    layers = {"mlp": (width, width), "a layer and a GRU": (width, width), "a GRU alone": (width,)}
    updates = []
    for name, hidden in layers.items():
        config = Config(architecture="mlp" if name == "mlp" else "gru", **SIZES | {"hidden": hidden})
        updates.append(_with_memory(Learner.of(queues(4), config=config)))
    plain, *others = medians(*updates, repeats=9)
    for name, seconds in zip(list(layers)[1:], others, strict=True):
        # A wide cell behind a layer multiplies three times as much as two layers do: the bound is 1.1 of that floor.
        bound = 3.3 if name == "a layer and a GRU" and width >= 256 else 2.5
        yield at_most(f"update of {name}, width {width}, sequences of 16", seconds, plain, "two layers", bound)


def steps() -> Iterator[Row]:
    """Measure the time of a worker's step with 8 environments that cost nothing."""
    settings: dict[str, Any] = {"n_envs": 8, "n_steps": 128, "batch_size": 128}
    kinds = {"layers in NumPy": {}, "layers in JAX": {"layer_norm": True}, "a GRU in JAX": {"architecture": "gru"}}
    rollouts = []
    for given in kinds.values():
        program = Program(Learner.of(Still, config=Config(**settings | given)))
        state = program.learner.init()
        program.collector.collect(program.behaviour(state), None, state.key)
        rollouts.append(lambda p=program, s=state: p.collector.collect(p.behaviour(s), None, s.key))
    times = [seconds / 128 for seconds in medians(*rollouts, repeats=9)]
    for name, seconds in zip(list(kinds)[1:], times[1:], strict=True):
        yield at_most(f"a step of 8 environments, {name}", seconds, times[0], "layers in NumPy", 15.0)
