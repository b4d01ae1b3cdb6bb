"""What stands in `info`, in the observation and before a network that depends on it."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import factorax as fx

NET = fx.InfluenceNetwork.complete(2, 2)


class Turbines(gym.Env):
    """Two of them; the wind says which reaches the other."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.MultiBinary(2)
    network = NET

    def local(self, obs):
        return obs.reshape(*obs.shape[:-1], 2, 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._seen()

    def _seen(self):
        self.wind = float(self.np_random.integers(2))
        return self.np_random.normal(size=2), {"weather": {"wind": self.wind}, "price": np.array([[1.0, self.time]])}

    def step(self, action):
        self.time += 1
        first, second = action
        psi = np.array([first - 0.5 * second * self.wind, second - 0.5 * first * (1 - self.wind)])
        obs, info = self._seen()
        return obs, float(psi.sum()), False, self.time == 5, info | {"vector_reward": psi}


def wrapped(paths=("weather.wind", "price")):
    return fx.wrap(Turbines, NET, observe=paths)


def test_numbers_of_info_are_at_the_end_of_the_observation():
    env, plain = wrapped()(), Turbines()
    assert env.observation_space.shape == (5,)
    assert env.observed_info == (("weather.wind", 2, 3), ("price", 3, 5))
    obs, info = env.reset(seed=3)
    for t in range(4):
        want, told = plain.step(np.ones(2))[::4] if t else plain.reset(seed=3)
        np.testing.assert_array_equal(obs, np.float32([*want, told["weather"]["wind"], 1, t]))
        obs, _, _, _, info = env.step(np.ones(2))
        assert info["price"].shape == (1, 2)
    np.testing.assert_array_equal(env.local(np.arange(5.0)), [[0.0], [1.0]])  # what it saw before


@pytest.mark.parametrize("rollouts", ["inline", "processes"])
def test_a_network_that_depends_on_it(rollouts):
    """The function gets by name what the observation has, in every step."""

    def influence(obs, info):
        wind, price = info["weather.wind"], info["price"]
        assert (wind.shape[-1], price.shape[-1]) == (1, 2)
        return (
            np.eye(2)
            + wind[..., None] * np.array([[0, 0], [1, 0]])
            + (1 - wind[..., None]) * np.array([[0, 1], [0, 0]])
        )

    settings = {"n_envs": 2, "n_steps": 10, "batch_size": 10, "policy": "shared", "seed": 0, "rollouts": rollouts}
    model = fx.FactoredPPO(wrapped(), fx.StateNetwork(influence, NET), **settings)
    model.learn(20, progress_bar=False)
    assert np.isfinite(np.asarray(model.predict(np.zeros((1, 5), np.float32))[0])).all()


@pytest.mark.parametrize(
    ("paths", "error", "message"),
    [
        ("weather", TypeError, "observe: got 'weather', want a list of paths"),
        (["price", "price"], ValueError, "want different paths"),
        (["weather.rain"], ValueError, "there is no 'rain' in 'wind'; want it in every info, that of reset included"),
        (["weather"], ValueError, r"info\['weather'\] is .*, want numbers"),
    ],
)
def test_what_is_wrong_is_said(paths, error, message):
    with pytest.raises(error, match=message):
        wrapped(paths)()


def test_a_size_that_changes_is_an_error():
    class Grows(Turbines):
        def _seen(self):
            obs, info = super()._seen()
            return obs, info | {"price": np.ones(1 + self.time)}

    with pytest.raises(ValueError, match=r"info\['price'\] has 2 numbers, want 1"):  # wrap takes a step itself
        fx.wrap(Grows(), NET, observe=["price"])
