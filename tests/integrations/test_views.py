"""Problems for other trainers: Gymnasium's own suite, and the spaces of each factor."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from integrations.environments import Plain
from integrations.view_cases import PROBLEMS, every_problem

import factorax as fx
from factorax.integrations import to_gymnasium
from factorax.integrations.views import FactorViews


@every_problem
@pytest.mark.filterwarnings("ignore:.*(symmetric and normalized|maximum and minimum values are equal)")
def test_gymnasium_env_checker(problem):
    check_env(to_gymnasium(problem), skip_render_check=True)


def test_the_gymnasium_view_is_the_problem():
    problem = PROBLEMS["chain"]
    env = to_gymnasium(problem)
    first, _ = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, again)
    total = np.zeros(3)
    action = np.float32([0.1, 0.2, 0.3])
    for t in range(6):
        _, reward, terminated, truncated, info = env.step(action)
        assert (terminated, truncated) == (False, t == 5)
        np.testing.assert_allclose(reward, info["vector_reward"].sum(), rtol=1e-12)
        total += info["vector_reward"]
    assert (total < 0).all()
    assert env.network is problem.network
    with pytest.raises(TypeError, match="problem: got 'CartPole-v1', want a Problem or a function that returns a"):
        to_gymnasium("CartPole-v1")


def test_action_spaces_of_factors():
    space = gym.spaces.Dict({"a": gym.spaces.Box(-1, 1, (2,), np.float32), "b": gym.spaces.MultiDiscrete([2, 3])})
    make = fx.wrap(lambda: Plain(action_space=space), fx.InfluenceNetwork.complete(4, 2), reward="info:a,b.c")
    net = make().network
    groupings = {
        "each": (net, [("Box", (1,)), ("Box", (1,)), 2, 3]),
        "leaves": (net.factor([net.actions[:2], net.actions[2:]]), [("Box", (2,)), [2, 3]]),
        "mixed": (net.factor([net.actions[:3], net.actions[3:]]), ["Tuple", 3]),
    }
    for network, want in groupings.values():
        factors = FactorViews(make, network)
        for one, w in zip(factors.action_spaces, want, strict=True):
            match w:
                case int():
                    assert one == gym.spaces.Discrete(w)
                case list():
                    assert one == gym.spaces.MultiDiscrete(w)
                case ("Box", shape):
                    assert one.shape == shape
                case _:
                    assert isinstance(one, gym.spaces.Tuple)
        row = factors.join([one.sample() for one in factors.action_spaces])
        assert make().action_space.contains(factors.components.to_environment(row))
    with pytest.raises(ValueError, match="observe: got 'some', want 'local' or 'global'"):
        FactorViews(make, observe="some")
    schedule = fx.NetworkSchedule(net, net, steps=3)
    with pytest.raises(TypeError, match="network: got NetworkSchedule, want an InfluenceNetwork; a view"):
        FactorViews(make, schedule)


def test_a_component_with_one_choice_has_one_in_its_view():
    space = gym.spaces.MultiDiscrete([1, 3])
    make = fx.wrap(lambda: Plain(action_space=space), fx.InfluenceNetwork.complete(2, 2), reward="info:a,b.c")
    factors = FactorViews(make, make().network)
    assert factors.action_spaces == [gym.spaces.Discrete(1), gym.spaces.Discrete(3)]


def test_images_are_refused():
    image = gym.spaces.Box(0, 255, (4, 4, 3), np.uint8)
    make = lambda: Plain(observation_space=image, network=fx.InfluenceNetwork.complete(2, 2))  # noqa: E731
    with pytest.raises(TypeError, match=r"got an image of shape \(4, 4, 3\), want vectors, because views for other"):
        FactorViews(make)
