"""What stands in `info`, in the observation and before a network that depends on it."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import factorax as fx
from factorax.spec import Spec

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
        return self.np_random.normal(size=2), {
            "weather": {"wind": self.wind},
            "price": np.array([[1.0, self.time]]),
            "nothing": None,
        }

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


@pytest.mark.slow
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
    assert np.isfinite(np.asarray(model.predict(np.zeros((1, 5), np.float32))[0][0])).all()


@pytest.mark.parametrize(
    ("paths", "error", "message"),
    [
        ("weather", TypeError, "observe: got 'weather', want a list of paths"),
        (["price", "price"], ValueError, "want different paths"),
        (
            ["weather.rain"],
            ValueError,
            "there is no 'rain'; info\\['weather'\\] has 'wind'. want it in every info, including that of reset",
        ),
        (["weather"], ValueError, r"info\['weather'\] is .*, want numbers"),
        (["nothing"], ValueError, r"info\['nothing'\] is None, want numbers"),
    ],
)
def test_wrong_paths_are_named(paths, error, message):
    with pytest.raises(error, match=message):
        wrapped(paths)()


def test_rewards_are_made_of_what_the_environment_gave():
    def last(obs, action, reward, info):
        assert obs.shape == (2,)
        return [obs[-1], reward]

    env = fx.wrap(Turbines(), NET, reward=last, check_sum=False, observe=["weather.wind"])
    env.reset(seed=0)
    obs, _, _, _, info = env.step(np.ones(2))
    assert np.float32(info["vector_reward"][0]) == obs[1]


def test_what_the_first_environment_showed_holds_for_all():
    """The others need not be reset to see how many numbers there are."""
    resets = []

    class Counted(Turbines):
        def reset(self, *, seed=None, options=None):
            resets.append(seed)
            return super().reset(seed=seed)

    make = fx.wrap(Counted, NET, observe=["weather.wind", "price"])
    first = make()
    resets.clear()
    second = make()
    assert resets == []
    assert second.observed_info == first.observed_info
    np.testing.assert_array_equal(second.reset(seed=3)[0], first.reset(seed=3)[0])


def test_wrapped_twice_both_are_there():
    env = fx.wrap(fx.wrap(Turbines(), NET, observe=["weather.wind"]), observe=["price.0.1"])
    assert env.observed_info == (("weather.wind", 2, 3), ("price.0.1", 3, 4))
    assert env.reset(seed=0)[0][3] == 0
    assert env.step(np.ones(2))[0][3] == 1


class Camera(gym.Env):
    """An image, alone or in a Dict or Tuple, and what `info` says."""

    action_space = spaces.MultiDiscrete([2, 3])
    image = spaces.Box(0, 255, (8, 8, 3), np.uint8)

    def __init__(self, form="Box", **info):
        self.form, self.info = form, {"action_mask": np.int8([[1, 0, 1, 1, 0]])} | info
        speed = spaces.Box(-1.0, 1.0, (2,), np.float32)
        kinds = {"Box": self.image, "vector": speed, "Tuple": spaces.Tuple([self.image, speed])}
        self.observation_space = kinds.get(form, spaces.Dict(camera=self.image, speed=speed))

    def local(self, obs):
        image = {"Box": lambda: obs, "Tuple": lambda: obs[0], "Dict": lambda: obs["camera"]}[self.form]()
        return image[..., :2, :2, 0]

    def observe(self):
        image, speed = np.full((8, 8, 3), 255, np.uint8), np.float32([0.5, 1])
        return {"Box": image, "vector": speed, "Tuple": (image, speed)}.get(
            self.form, {"camera": image, "speed": speed}
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observe(), self.info

    def step(self, action):
        return self.observe(), 0.0, True, False, self.info | {"vector_reward": np.zeros(2)}


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ("Box", ["observation", "action_mask"]),
        ("Tuple", ["observation", "action_mask"]),
        ("Dict", ["camera", "speed", "action_mask"]),
    ],
)
def test_images_keep_their_rows_and_columns(form, names):
    env = fx.wrap(Camera(form), NET, observe=["action_mask"])
    assert list(env.observation_space.spaces) == names
    own = env.env.observation_space
    assert (own if form == "Dict" else {"observation": own}).items() <= env.observation_space.spaces.items()
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    np.testing.assert_array_equal(obs["action_mask"], [1, 0, 1, 1, 0])
    np.testing.assert_array_equal(env.local(obs), np.full((2, 2), 255))  # it sees the original observation
    spec = Spec.of(lambda: env)
    row = spec.observations.row(obs)
    assert spec.observed_info == (("action_mask", row.size - 5, row.size),)
    assert (spec.action_mask.start, spec.action_mask.choices) == (row.size - 5, (2, 3))
    assert spec.local_of(row, np).shape == (2, 2)
    with pytest.raises(TypeError, match=r"got an image of shape \(8, 8, 3\), want vectors"):
        spec.observations.encoded(row, np)


def test_an_image_in_info_is_an_entry_too():
    seen = np.arange(12, dtype=np.uint8).reshape(3, 4)
    env = fx.wrap(lambda: Camera("vector", seen=seen), NET, observe=["seen"])
    first, second = env(), env()
    assert first.observation_space == second.observation_space
    np.testing.assert_array_equal(second.reset(seed=0)[0]["seen"], seen)
    assert Spec.of(env, local=lambda obs: obs["seen"][..., :2, :]).observations.images[0].shape == (3, 4)
    more = fx.wrap(second, observe=["action_mask"])
    assert more.observed_info == (("seen", 2, 14), ("action_mask", 14, 19))
    assert list(more.observation_space.spaces) == ["observation", "seen", "action_mask"]


@pytest.mark.slow
def test_convolutions_see_the_image_and_policies_the_mask():
    make = fx.wrap(partial(Camera, "Box"), NET, observe=["action_mask"])
    settings = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "architecture": "conv", "n_epochs": 1, "hidden": (4,)}
    model = fx.FactoredPPO(make, **settings).learn(16, progress_bar=False)
    obs, _ = make().reset(seed=0)
    choices = {tuple(model.predict(obs, deterministic=False)[0].tolist()) for _ in range(20)}
    assert choices <= {(0, 0), (0, 1)}


def test_a_wrapper_that_moves_observations_is_refused():
    def make():
        env = wrapped()()
        more = spaces.Box(-np.inf, np.inf, (6,), np.float32)
        return gym.wrappers.TransformObservation(env, lambda obs: np.append(np.float32(0), obs), more)

    with pytest.raises(ValueError, match="want the wrappers that change observations inside"):
        fx.FactoredPPO(make, NET)


def test_a_size_that_changes_is_an_error():
    class Grows(Turbines):
        def _seen(self):
            obs, info = super()._seen()
            return obs, info | {"price": np.ones(1 + self.time)}

    env = fx.wrap(Grows(), NET, observe=["price"])
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"info\['price'\] has 2 numbers, want 1"):
        env.step(np.ones(2))
