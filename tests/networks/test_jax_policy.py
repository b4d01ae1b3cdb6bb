"""Policies that workers compute with JAX: the same batches for every number of workers."""

import dataclasses

import equinox as eqx
import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium import spaces

from factorax import FactoredPPO
from factorax.ppo import Compiled, Config, Learner

SETTINGS = {"n_envs": 5, "n_steps": 8, "batch_size": 8, "n_epochs": 1, "hidden": (8,)}


class Watching(gym.Env):
    """Episodes of different lengths."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Tuple([spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Discrete(3)])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(2, 7))
        return self._obs(), {}

    def _obs(self):
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def step(self, action):
        self.left -= 1
        return self._obs(), float(action[0][0]) + int(action[1]), self.left == 0, False, {}


class Camera(Watching):
    observation_space = spaces.Dict(image=spaces.Box(0, 255, (5, 5, 1), np.uint8), gear=spaces.Discrete(3))

    def _obs(self):
        image = self.np_random.integers(0, 256, (5, 5, 1), dtype=np.uint8)
        return {"image": image, "gear": int(self.np_random.integers(3))}


class Own(eqx.Module):
    """A user's module, with a function among its fields and an array that is not learnt."""

    layers: list[eqx.nn.Linear]
    activation: object
    order: jax.Array

    def __init__(self, spec, key):
        c, width = len(spec.components), spec.components.width
        one, two = jax.random.split(key)
        self.layers = [eqx.nn.Linear(spec.n_inputs, 8, key=one), eqx.nn.Linear(8, c * width, key=two)]
        self.activation, self.order = jax.nn.relu, jax.numpy.arange(c)[::-1]

    def __call__(self, obs, local):
        x = self.layers[1](self.activation(self.layers[0](obs)))
        return x.reshape(len(self.order), -1)[self.order]


CASES = {
    "a user's module": (Watching, {"policy": Own, "normalize_obs": True}),
    "gru": (Watching, {"architecture": "gru,sequence_length=4"}),
    "lstm, state-dependent, normalised": (
        Watching,
        {"architecture": "lstm,sequence_length=4", "policy": "shared,identity=8", "normalize_obs": True}
        | {"distribution": "scale,std=state"},
    ),
    "conv": (Camera, {"architecture": "conv"}),
    "attention": (Watching, {"architecture": "attention", "policy": "shared,identity=8"}),
    "layer norm": (Watching, {"architecture": "mlp,layer_norm=true", "policy": "independent"}),
}


WORKERS = {"gru": (1, 3)}
"""Numbers of workers, two for the other cases: only memory would show who played which environment."""


def learner_of(env, settings, **who):
    return Learner.of(env, config=Config(**SETTINGS | settings | who))


def rollouts(env, settings, **who):
    """Three rollouts with a policy that changes in between, and the memory that is stored with them."""
    program = Compiled(learner_of(env, settings, **who))
    state, found = program.learner.init(), []
    for _ in range(3):
        _, key, transitions = program.collector.collect(program.learner.behaviour(state), state.environments, state.key)
        found.append(jax.tree.map(np.array, transitions))
        state = state._replace(
            key=jax.random.split(key)[0],
            agent=jax.tree.map(lambda x: x * 1.1 if eqx.is_inexact_array(x) else x, state.agent),
            timesteps=state.timesteps + 40,
        )
    episodes = program.collector.episodes
    program.close()
    return found, episodes


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_workers_give_what_this_process_gives(name):
    env, settings = CASES[name]
    here, episodes = rollouts(env, settings)
    for workers in WORKERS.get(name, (2,)):
        there, others = rollouts(env, settings, rollouts=f"processes,workers={workers}")
        for ours, theirs in zip(here, there, strict=True):
            for field, a, b in zip(ours._fields, ours, theirs, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=field)
        for a, b in zip(episodes, others, strict=True):
            np.testing.assert_array_equal(a.memory, b.memory)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gru", "lstm, state-dependent, normalised", "conv", "a user's module"])
def test_the_policy_of_a_worker_is_that_of_the_learner(name):
    """Its parameters, up to rounding, from the stored memory."""
    env, settings = CASES[name]
    learner = learner_of(env, settings)
    state = learner.init()
    program = Compiled(learner)
    _, _, t = program.collector.collect(program.learner.behaviour(state), state.environments, state.key)
    policy, arrays = program.collector.plan.policy, learner.behaviour(state).arrays()
    policy = dataclasses.replace(policy, local=None)
    noise = np.zeros((8, 5, len(learner.spec.components), learner.spec.components.width), np.float32)
    outputs = []
    act = policy.playing(arrays, 0, noise, outputs)
    ended = t.terminated | t.truncated
    for step in range(8):
        act(t.obs[step])
        if t.memory is not None:
            np.testing.assert_array_equal(act.memories[step], t.memory[step])
        for i in np.flatnonzero(ended[step]):
            act.restart(int(i))
    obs = learner.normalised(state.obs, t.obs)
    parameters, _ = state.agent.policy.at(obs, learner.rule.local(obs), t.memory)
    np.testing.assert_allclose(np.stack(outputs), parameters, atol=1e-5)
    program.close()


@pytest.mark.slow
def test_a_run_with_memory_resumes_bit_for_bit(tmp_path):
    whole = FactoredPPO(Watching, architecture="gru,sequence_length=4", **SETTINGS).learn(160, progress_bar=False)
    half = FactoredPPO(Watching, architecture="gru,sequence_length=4", **SETTINGS).learn(80, progress_bar=False)
    half.save(tmp_path / "half")
    again = FactoredPPO.load(tmp_path / "half", Watching)
    again.learn(80, reset_num_timesteps=False, progress_bar=False)
    for a, b in zip(jax.tree.leaves(whole.state.agent), jax.tree.leaves(again.state.agent), strict=True):
        np.testing.assert_array_equal(a, b)
    for model in (whole, half, again):
        model.close()
