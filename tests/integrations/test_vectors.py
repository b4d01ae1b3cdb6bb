"""`fx.wrap` of vector environments: the rewards of all environments and their parts, in every autoreset mode."""

from dataclasses import replace
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from integrations.environments import Plain
from rollouts.environments import Drift
from rollouts.helping import assert_same, inline
from rollouts.vectors import N, Own, sync, vector_plan

import factorax as fx
from factorax.integrations import FactoredVector
from factorax.spec import Spec

EYE = np.eye(2)
MODES = list(AutoresetMode)


def plain(mode=MODES[0], n=2, **options):
    """Vectors of Gymnasium keep the last observation by reference while they reset, so it is copied."""
    return SyncVectorEnv([partial(Plain, observe=np.copy, **options)] * n, autoreset_mode=mode)


def weighted(obs, actions, rewards, info):
    """Targets of all environments from their observations and actions."""
    return np.stack([obs[:, 0], actions.sum(axis=1)], axis=1)


@pytest.mark.parametrize("mode", MODES)
def test_paths_into_info_and_functions_give_what_single_environments_give(mode):
    """Also in the last step of an episode, whose `info` and observation are elsewhere in the mode SAME_STEP."""

    def one(obs, action, reward, info):
        return [obs[0], action.sum()]

    for vector_reward, reward in (("info:a,b.c",) * 2, (weighted, one)):
        options = {"weights": [1.0, 1.0], "check_sum": isinstance(reward, str)}
        envs = fx.wrap(plain(mode, ends=3), EYE, reward=vector_reward, **options)
        alone = fx.wrap(Plain(ends=3), EYE, reward=reward, **options)
        envs.reset(seed=4)
        alone.reset(seed=4)
        action = np.float32([0.5, -0.25])
        for t in range(1, 4):
            _, total, terminated, _, info = envs.step(np.stack([action, action]))
            _, want, ended, _, of_one = alone.step(action)
            np.testing.assert_allclose(info["vector_reward"][0], of_one["vector_reward"], rtol=1e-7)
            np.testing.assert_allclose(total[0], want, rtol=1e-7)
            assert terminated[0] == ended == (t == 3)


@pytest.mark.parametrize("mode", MODES)
def test_training_sees_the_same_through_the_wrapper(mode):
    wrapped = fx.wrap(partial(sync, mode, masks=True))
    assert wrapped.num_envs == N
    assert_same(inline(vector_plan(wrapped)), inline(vector_plan(partial(Drift, masks=True))))
    own = [vector_plan(make) for make in (fx.wrap(partial(Own, mode)), partial(Own, mode))]
    assert_same(*map(inline, own))


def test_its_description():
    net = fx.InfluenceNetwork(EYE, targets=["a", "b.c"])
    make = fx.wrap(plain, net, reward="info:b.c,a", weights=[1.0, 1.0])
    spec = Spec.of(make)
    assert spec.network.static.targets == ("b.c", "a")
    assert (spec.num_envs, spec.problem_defines_network) == (2, False)
    env = make()
    assert isinstance(env, FactoredVector)
    assert repr(env).startswith("<FactoredVector of 2 factors and 2 targets around SyncVectorEnv")
    assert env.reward_space.shape == (2,)
    with pytest.warns(fx.structure.StructureWarning, match="reward: is one number"):
        assert Spec.of(fx.wrap(lambda: gym.make_vec("CartPole-v1", num_envs=2))).n_targets == 1


def test_observations_that_are_no_box():
    """They keep their structure, as those of single environments, with fx.wrap and without it."""

    class Nested(Drift):
        def __init__(self):
            super().__init__()
            self.observation_space = gym.spaces.Dict(
                {"place": gym.spaces.Box(-9, 9, (2, 2), np.float32), "which": gym.spaces.Discrete(3)}
            )

        local = None

        def reset(self, **options):
            return self.nested(super().reset(**options)[0]), {}

        def step(self, action):
            obs, *rest = super().step(action)
            return self.nested(obs), *rest

        def nested(self, obs):
            return {"place": obs[:4].reshape(2, 2), "which": int(obs[4] > 0)}

    for mode in MODES:
        plans = vector_plan(Nested), vector_plan(partial(sync, mode, Nested))
        ours, theirs = (inline(replace(plan, n_inputs=5)) for plan in plans)
        assert_same(ours, theirs)
        wrapped = fx.wrap(partial(sync, mode, Nested))
        assert wrapped().single_observation_space == Nested().observation_space
        assert_same(inline(replace(vector_plan(wrapped), n_inputs=5)), ours)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("space", "first"),
    [
        (gym.spaces.Box(0, 255, (4, 4, 3), np.uint8), lambda obs: obs),
        (gym.spaces.Dict(camera=gym.spaces.Box(0, 255, (4, 4), np.uint8)), lambda obs: obs["camera"]),
        (gym.spaces.Tuple([gym.spaces.Discrete(9), gym.spaces.Box(0, 9, (2,), np.float32)]), lambda obs: obs[0]),
    ],
    ids=["image", "Dict", "Tuple"],
)
def test_rewards_of_structured_observations(mode, space, first):
    """Functions receive all of them, with the last observation of an episode in every mode."""

    class Counter(gym.Env):
        observation_space, action_space = space, gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.time = 0
            return self.observe(), {}

        def observe(self):
            match space:
                case gym.spaces.Box():
                    return np.full(space.shape, self.time, space.dtype)
                case gym.spaces.Dict():
                    return {"camera": np.full((4, 4), self.time, np.uint8)}
            return self.time, np.zeros(2, np.float32)

        def step(self, action):
            self.time += 1
            return self.observe(), 0.0, self.time == 3, False, {}

    def count(obs, actions, rewards, info):
        return first(obs).reshape(2, -1)[:, :1].astype(float)

    envs = fx.wrap(SyncVectorEnv([Counter] * 2, autoreset_mode=mode), [[1]], reward=count, check_sum=False)
    assert envs.single_observation_space == space
    envs.reset(seed=0)
    assert [envs.step(np.zeros(2, int))[4]["vector_reward"][1, 0] for _ in range(3)] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_rewards_of_mo_gymnasium():
    mo_gymnasium = pytest.importorskip("mo_gymnasium")
    from mo_gymnasium.wrappers.vector import MOSyncVectorEnv

    def one():
        return mo_gymnasium.make("deep-sea-treasure-v0")

    net = fx.InfluenceNetwork.complete(1, 2)
    vector, single = fx.wrap(lambda: MOSyncVectorEnv([one] * 2), net), fx.wrap(one, net)
    settings = {"n_steps": 16, "batch_size": 16, "hidden": (4,), "n_epochs": 1}
    models = fx.FactoredPPO(vector, **settings), fx.FactoredPPO(single, n_envs=2, **settings)
    bare = fx.FactoredPPO(lambda: MOSyncVectorEnv([one] * 2), net, **settings)
    returns = [model.learn(64, progress_bar=False).evaluate(4)["targets"] for model in (*models, bare)]
    np.testing.assert_array_equal(returns[0], returns[1])
    np.testing.assert_array_equal(returns[0], returns[2])


def test_a_seed_that_is_ignored():
    class Unseeded(Plain):
        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=seed)
            return obs + np.random.default_rng().random(obs.shape).astype(obs.dtype), info

    make = partial(SyncVectorEnv, [Unseeded])
    with pytest.raises(ValueError, match=r"check_seed: two episodes .* differ in the first observation"):
        fx.wrap(make, EYE, reward="info:a,b.c", check_seed=True)()


class Doors(gym.Env):
    """Three doors, one of them locked, which `info` tells."""

    observation_space, action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32), gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {"action_mask": np.array([True, False, True])}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, True, False, {"action_mask": np.array([True, False, True])}


ONE = fx.InfluenceNetwork.complete(1, 1)


@pytest.mark.parametrize("times", [1, 2])
def test_a_mask_that_the_environments_observe_stays_one(times):
    make = partial(SyncVectorEnv, [fx.wrap(Doors, ONE, observe=["action_mask"])] * 2)
    for _ in range(times):
        make = fx.wrap(make, ONE)
    spec = Spec.of(make)
    assert spec.observed_info == (("action_mask", 1, 4),)
    assert spec.action_mask.choices == (3,)


def test_observed_entries_that_a_wrapper_moves():
    class Moved(gym.vector.VectorWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.single_observation_space = gym.spaces.Box(-1.0, 1.0, (5,), np.float32)

    vector = SyncVectorEnv([fx.wrap(Doors, ONE, observe=["action_mask"])] * 2)
    with pytest.raises(ValueError, match="so the info entries that it adds cannot be located"):
        fx.wrap(Moved(vector), ONE)
