"""Policies: the cost of a user's own module and of memory, and of a worker's step with each kind."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from factorax.networks.mlp import ACTIVATIONS
from factorax.networks.numpy_policy import TILE
from factorax.ppo import Compiled, Config, Learner
from factorax.problems import queues
from factorax.spec import Spec

from .bench_learner import random_rollout, update
from .timing import Row, at_most, cpu_medians, medians

SIZES: dict[str, Any] = {"n_envs": 16, "n_steps": 128, "batch_size": 256, "n_epochs": 4, "check_network": False}
SIZES |= {"policy": "joint", "critic": "target"}


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
    """Return an update on a rollout of noise, for a policy and a critic that may be recurrent."""
    rollout, agent = random_rollout(learner), learner.init(0).agent
    sizes = {"memory": agent.policy.memory, "critic_memory": agent.critic_memory}
    memories = {name: jnp.zeros((*rollout.terminated.shape, size)) for name, size in sizes.items() if size}
    return update(learner, rollout._replace(**memories))


def rows() -> Iterator[Row]:
    problem = queues(4)
    config = Config(**SIZES)
    learners = [Learner.of(problem, config=replace(config, policy=policy)) for policy in (Own, config.policy)]
    programs = [Compiled(learner) for learner in learners]
    states = [program.updates(program.learner.init())[0] for program in programs]

    def whole(i: int) -> Any:
        return lambda: jax.block_until_ready(programs[i].updates(states[i])[0].timesteps)

    theirs, ours_ = medians(whole(0), whole(1), repeats=15)
    yield at_most("update with a module of one's own, JAX problem", theirs, ours_, "ours", 1.05)
    for width in (64, 256):
        yield from remembering(width)
    yield from steps()


def remembering(width: int) -> Iterator[Row]:
    """Measure an update of a GRU relative to two layers, in processor time; the cell replaces the second layer, or
    both."""
    layers = {"mlp": (width, width), "a layer and a GRU": (width, width), "a GRU alone": (width,)}
    updates = []
    for name, hidden in layers.items():
        config = Config(architecture="mlp" if name == "mlp" else "gru", **SIZES | {"hidden": hidden})
        updates.append(_with_memory(Learner.of(queues(4), config=config)))
    plain, *others = cpu_medians(*updates, repeats=9)
    for name, seconds in zip(list(layers)[1:], others, strict=True):
        # A wide cell after a layer needs three times the multiplications of two layers; the bound is 1.1 times that.
        bound = 3.3 if name == "a layer and a GRU" and width >= 256 else 2.5
        name = f"update of {name}, width {width}, sequences of 16"
        yield at_most(name, seconds, plain, "two layers; CPU time", bound)


class Camera(Still):
    """The same, with an image of the size of CIFAR's as the observation."""

    observation_space = gym.spaces.Box(0, 255, (32, 32, 3), np.uint8)

    def __init__(self) -> None:
        self._obs = np.zeros((32, 32, 3), np.uint8)


STEPS = 128
KINDS: dict[str, dict[str, Any]] = {
    "layers in NumPy": {},
    "layers in JAX": {"architecture": "mlp,layer_norm=true"},
    "a module of one's own in JAX": {"policy": Own},
    "a GRU in JAX": {"architecture": "gru"},
    "attention in JAX": {"architecture": "attention", "policy": "shared,identity=8"},
}


def _learner(env: Any, settings: dict[str, Any]) -> tuple[Learner, Any]:
    sizes: dict[str, Any] = {"n_envs": 8, "n_steps": STEPS, "batch_size": 128}
    learner = Learner.of(env, config=Config(**sizes | settings))
    return learner, learner.init()


def _rollout(learner: Learner, state: Any) -> Any:
    return lambda: learner.collector.collect(learner.behaviour(state), None, state.key)


def _network_alone(learner: Learner, state: Any) -> Any:
    """Return a function that calls the compiled policy network once per step of a rollout, on observations of zeros."""
    network = jax.jit(lambda policy, rows: policy(rows, None)[0])
    policy, rows = state.agent.policy, np.zeros((TILE, learner.spec.n_inputs), np.float32)

    def calls() -> None:
        for _ in range(STEPS):
            np.asarray(network(policy, rows))

    return calls


def steps() -> Iterator[Row]:
    """Measure the processor time of a worker's step with 8 environments that cost nothing.

    NumPy cannot evaluate convolutions. Their yardstick is the compiled network alone, so the row shows what a worker's
    step adds to it: noise, the choice of actions, and the arrays of the rollout.
    """
    rollouts = [_rollout(*_learner(Still, kind)) for kind in KINDS.values()]
    times = [seconds / STEPS for seconds in cpu_medians(*rollouts, repeats=9)]
    for name, seconds in zip(list(KINDS)[1:], times[1:], strict=True):
        yield at_most(f"a step of 8 environments, {name}", seconds, times[0], "layers in NumPy", 15.0)
    camera = _learner(Camera, {"architecture": "conv"})
    whole, alone = (seconds / STEPS for seconds in cpu_medians(_rollout(*camera), _network_alone(*camera), repeats=9))
    yield at_most("a step of 8 images of 32×32×3, convolutions in JAX", whole, alone, "the network alone", 2.0)
