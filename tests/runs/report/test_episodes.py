"""The policy in action: episodes by name, as the policy plays them."""

import gymnasium as gym
import numpy as np
import pytest
from small_settings import SMALL

from factorax.ppo import FactoredPPO
from factorax.problems import find_problem
from factorax.runs.report.episodes import episode, observation_names
from factorax.spec import Spec


@pytest.mark.slow
def test_an_episode_is_what_the_policy_does():
    model = FactoredPPO("chain:3,horizon=7", **SMALL)
    played = episode(model, seed=3)
    assert played["length"] == 7
    assert played["ended"]
    actions, targets, observations = played["parts"]
    assert [each["name"] for each in actions["series"]] == list(model.spec.network.static.actions)
    assert [each["name"] for each in targets["series"]] == list(model.spec.network.static.targets)
    total = sum(np.sum(each["y"]) for each in targets["series"])
    assert played["return"] == pytest.approx(total, rel=1e-3)
    first = np.array([each["y"][0] for each in observations["series"]], np.float32)
    row, _ = model.predict(first, deterministic=True)
    np.testing.assert_allclose(np.ravel(row), [each["y"][0] for each in actions["series"]], atol=1e-3)


@pytest.mark.slow
def test_environments_of_gymnasium_and_recurrent_policies_are_played_too():
    played = episode(FactoredPPO("CartPole-v1", **SMALL))
    assert played["return"] == played["length"]
    assert played["parts"][2]["total"] == 4
    recurrent = FactoredPPO("chain:3,horizon=7", architecture="gru,sequence_length=6", **SMALL)
    assert episode(recurrent)["length"] == 7


def test_observations_are_named_by_their_place_or_by_the_problem():
    assert observation_names(Spec.of(find_problem("CartPole-v1"))) == [f"observation[{k}]" for k in range(4)]

    class Named(gym.Env):
        observation_space = gym.spaces.Dict(
            speed=gym.spaces.Box(-1.0, 1.0, (2,)), gear=gym.spaces.Discrete(3), mode=gym.spaces.Box(0.0, 1.0, (1,))
        )
        action_space = gym.spaces.Discrete(2)

    assert observation_names(Spec.of(Named)) == ["speed[0]", "speed[1]", "gear", "mode"]
    Named.observation_names = ("a", "b", "c", "d")
    assert observation_names(Spec.of(Named)) == ["a", "b", "c", "d"]
    Named.observation_names = ("too", "few")
    assert len(observation_names(Spec.of(Named))) == 4
