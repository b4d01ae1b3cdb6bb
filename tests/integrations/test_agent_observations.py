"""Observations of all agents as one, in which images keep their shape."""

import gymnasium as gym
import numpy as np
import pytest
from integrations.environments import Agents

import factorax as fx
from factorax.integrations.agent_observations import ByAgent, Padded, agent_observations

IMAGE = gym.spaces.Box(0, 255, (4, 4, 3), np.uint8)
CHOICE = gym.spaces.Discrete(3, start=2)
SPACES = {
    0: IMAGE,
    "one": gym.spaces.Dict(camera=IMAGE, gear=CHOICE),
    "two": gym.spaces.Tuple([gym.spaces.Box(1.0, 2.0, (2,), np.float32), gym.spaces.MultiDiscrete([2, 3])]),
}


def test_without_images_they_are_one_vector():
    assert isinstance(agent_observations({"a": CHOICE, "b": gym.spaces.Box(0, 1, (2, 2))}), Padded)


def test_with_an_image_they_are_a_dict_by_agent():
    observe = agent_observations(SPACES)
    assert isinstance(observe, ByAgent)
    assert list(observe.space.spaces) == ["0", "one", "two"]
    assert observe.space["0"] == IMAGE
    given = {agent: space.sample() for agent, space in SPACES.items()}
    obs = observe(given)
    assert observe.space.contains(obs)
    np.testing.assert_array_equal(obs["one"]["camera"], given["one"]["camera"])
    given["one"]["camera"][:] = 7  # environments may reuse their arrays
    assert (obs["one"]["camera"] != 7).any()
    dead = observe({})
    assert observe.space.contains(dead)
    assert not dead["0"].any()
    assert not dead["two"][0].any()


class Cameras(Agents):
    """Agents that see images."""

    def __init__(self, **options):
        super().__init__(**options)
        self._spaces = {agent: (IMAGE, action) for agent, (_, action) in self._spaces.items()}

    def observe(self):
        return {agent: np.full(IMAGE.shape, 9, np.uint8) for agent in self.agents}


def test_images_of_agents_reach_networks_in_rows_and_columns():
    make = fx.wrap(Cameras, fx.InfluenceNetwork.identity(3))
    env = make()
    assert env.local is None
    env.reset(seed=0)
    for _ in range(3):
        obs = env.step(env.action_space.sample())[0]
    assert [obs[agent].mean() for agent in env.possible_agents] == [0, 9, 9]  # the first has died
    spec = fx.Spec.of(make)
    assert [part.shape for part in spec.observations.images] == [IMAGE.shape] * 3
    settings = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "policy": "shared"}
    with pytest.raises(TypeError, match=r"observation space\['agent_0'\]: got an image of shape \(4, 4, 3\), want vec"):
        fx.FactoredPPO(make, **settings)
