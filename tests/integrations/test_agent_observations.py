"""Observations of all agents as one, in which images keep their shape."""

import gymnasium as gym
import numpy as np
import pytest
from integrations.environments import Agents

import factorax as fx
from factorax.integrations.agent_observations import AgentObservations
from factorax.spec import Spec

IMAGE = gym.spaces.Box(0, 255, (4, 4, 3), np.uint8)
CHOICE = gym.spaces.Discrete(3, start=2)
SPACES = {
    0: IMAGE,
    "one": gym.spaces.Dict(camera=IMAGE, gear=CHOICE),
    "two": gym.spaces.Tuple([gym.spaces.Box(1.0, 2.0, (2,), np.float32), gym.spaces.MultiDiscrete([2, 3])]),
}


def test_without_images_they_are_one_vector():
    spaces = {"a": CHOICE, "b": gym.spaces.Box(0, 1, (2, 2))}
    assert isinstance(AgentObservations(spaces, dict.fromkeys(spaces, CHOICE)).space, gym.spaces.Box)


def test_with_an_image_they_are_a_dict_by_agent():
    observe = AgentObservations(SPACES, dict.fromkeys(SPACES, CHOICE))
    assert isinstance(observe.space, gym.spaces.Dict)
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
    spec = Spec.of(make)
    assert [part.shape for part in spec.observations.images] == [IMAGE.shape] * 3
    settings = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "policy": "shared,identity=3"}
    with pytest.raises(TypeError, match=r"observation space\['agent_0'\]: got an image of shape \(4, 4, 3\), want vec"):
        fx.FactoredPPO(make, **settings)


@pytest.mark.parametrize("base", [Agents, Cameras])
def test_masks_of_agents_are_one_mask(base):
    """Dead agents, and agents without a mask, have no invalid choices."""

    class Masks(base):
        def observation_space(self, agent):
            own, mask = super().observation_space(agent), gym.spaces.MultiBinary(3)
            return own if agent == "agent_1" else gym.spaces.Dict(observation=own, action_mask=mask)

        def observe(self):
            masks = {"agent_0": np.int8([0, 0, 1]), "agent_2": np.int8([1, 0, 0])}
            observed = super().observe()
            return observed | {
                agent: {"observation": observed[agent], "action_mask": mask}
                for agent, mask in masks.items()
                if agent in observed
            }

    make = fx.wrap(Masks, fx.InfluenceNetwork.identity(3))
    env = make()
    first, _ = env.reset(seed=0)
    assert env.observation_space.contains(first)
    np.testing.assert_array_equal(first["action_mask"], [0, 0, 1, 1, 1, 1, 1, 0, 0])
    for _ in range(3):
        obs = env.step(env.action_space.sample())[0]
    np.testing.assert_array_equal(obs["action_mask"], [1, 1, 1, 1, 1, 1, 1, 0, 0])
    spec = Spec.of(make)
    assert spec.action_mask.choices == (3, 3, 3)
    if base is Agents:
        row = spec.observations.row(first)
        np.testing.assert_array_equal(spec.local_of(row, np), first["observation"].reshape(3, 3))
    else:
        assert env.local is None
        assert list(env.observation_space.spaces) == [*env.possible_agents, "action_mask"]


def test_a_mask_of_another_size_is_an_error():
    spaces = {"a": gym.spaces.Dict(observation=IMAGE, action_mask=gym.spaces.MultiBinary(4))}
    with pytest.raises(ValueError, match="observation space of 'a': its action_mask has 4 numbers, want 3, one per"):
        AgentObservations(spaces, {"a": CHOICE})
