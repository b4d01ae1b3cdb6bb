"""Gymnasium environments side by side: the same as each alone, whatever they do with what they return."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from factorax.rollouts import Environments
from factorax.rollouts.transitions import Transition, slim, whole
from factorax.spaces import ActionSpace


class Reuses(gym.Env):
    """Returns the same arrays every time, and draws its ends; parts too large for 32 bits to add."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self):
        self.obs, self.parts = np.zeros(2, np.float32), np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.obs[:] = self.np_random.normal(size=2)
        return self.obs, {}

    def step(self, action):
        self.obs[:] = self.np_random.normal(size=2)
        self.parts[:] = 2.0**25, self.obs[0]
        terminated, truncated = self.np_random.random(2) < 0.2
        return self.obs, 0.0, terminated, truncated, {"vector_reward": self.parts}


def test_a_rollout_is_that_of_each_environment_alone():
    """Observations before and after every step, flags, parts; returns of whole episodes, across rollouts."""
    hosts = Environments(Reuses, 3, ActionSpace.of(Reuses.action_space), 2)
    hosts.init(7)
    rollouts = [hosts.collect(lambda obs: np.zeros((3, 1), np.float32), T) for T in (1, 13, 26)]
    fields = [np.concatenate(field) if field[0] is not None else None for field in zip(*rollouts, strict=True)]
    obs, _, psi, next_obs, terminated, truncated, masks, stopped, episode_psi, episode_length, *_ = fields
    assert masks is None
    assert stopped is None
    assert (terminated & ~truncated).any()
    assert (truncated & ~terminated).any()
    for i in range(3):
        env, rng = Reuses(), np.random.default_rng([7, i])
        now, total, length = env.reset(seed=7 + i)[0].copy(), np.zeros(2), 0
        for t in range(40):
            np.testing.assert_array_equal(obs[t, i], now)
            after, _, *flags, info = env.step(np.zeros(1, np.float32))
            np.testing.assert_array_equal(next_obs[t, i], after)
            np.testing.assert_allclose(psi[t, i], info["vector_reward"], rtol=1e-6)
            assert [terminated[t, i], truncated[t, i]] == flags
            total, length = total + info["vector_reward"], length + 1
            over = any(flags)
            np.testing.assert_allclose(episode_psi[t, i], total * over, rtol=1e-14)
            assert episode_length[t, i] == length * over
            now = env.reset(seed=int(rng.integers(2**31)))[0].copy() if over else after.copy()
            total, length = total * (not over), length * (not over)


@pytest.mark.parametrize("steps", [1, 2, 40])
def test_what_is_sent_without_repetitions_is_the_whole(steps):
    hosts = Environments(Reuses, 3, ActionSpace.of(Reuses.action_space), 2)
    hosts.init(7)
    rollout = hosts.collect(lambda obs: np.zeros((3, 1), np.float32), steps)
    sent = slim(rollout)
    for name, ours, theirs in zip(Transition._fields, whole(sent), rollout, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
        assert ours is None or ours.dtype == theirs.dtype
    if steps == 40:
        assert (rollout.terminated | rollout.truncated).sum() > 9
        assert sent.transitions.obs is None
        assert len(sent.begun) == (rollout.terminated | rollout.truncated)[:-1].sum()


@pytest.mark.parametrize("n_envs", [1, 2])
def test_observations_of_any_shape_are_flat(n_envs):
    class Table(Reuses):
        observation_space = spaces.Box(-np.inf, np.inf, (2, 3), np.float32)

        def reset(self, *, seed=None, options=None):
            return np.arange(6.0).reshape(2, 3), {}

        def step(self, action):
            return -np.arange(6.0).reshape(2, 3), 0.0, False, False, {"vector_reward": self.parts}

    hosts = Environments(Table, n_envs, ActionSpace.of(Table.action_space), 2)
    hosts.init(0)
    rollout = hosts.collect(lambda obs: np.zeros((n_envs, 1), np.float32), 2)
    np.testing.assert_array_equal(rollout.obs, np.broadcast_to([[np.arange(6)], [-np.arange(6)]], (2, n_envs, 6)))
    np.testing.assert_array_equal(rollout.next_obs, np.broadcast_to(-np.arange(6), (2, n_envs, 6)))
    rollout.next_obs[:] = 7  # a learner may do so
    np.testing.assert_array_equal(hosts.running.obs, np.broadcast_to(-np.arange(6), (n_envs, 6)))


class Fails(Reuses):
    count = 0

    def __init__(self, where="step"):
        super().__init__()
        self.number, self.where = Fails.count, where
        Fails.count += 1

    def reset(self, *, seed=None, options=None):
        if self.where == "reset" and self.number == 1 and seed != 1:
            raise RuntimeError("no connection")
        return super().reset(seed=seed)

    def step(self, action):
        if self.where == "step" and self.number == 1:
            raise KeyError("lane 7")
        if self.where == "size" and self.number == 1:
            return np.zeros(3), 0.0, False, False, {"vector_reward": self.parts}
        return (*super().step(action)[:2], True, False, {"vector_reward": self.parts})


@pytest.mark.parametrize(
    ("where", "kind", "message"),
    [
        ("step", KeyError, r"in environment 1 \(Fails\), step 1 of its episode with seed 1"),
        ("reset", RuntimeError, r"in environment 1 \(Fails\), reset with seed \d+"),
        (
            "size",
            ValueError,
            r"environment 1 \(Fails\), step 1 .*: observation: got 3 numbers",
        ),
    ],
)
def test_an_environment_that_fails_is_named(where, kind, message):
    Fails.count = 0
    hosts = Environments(lambda: Fails(where), 3, ActionSpace.of(Fails.action_space), 2)
    hosts.init(0)
    with pytest.raises(kind, match=message):
        hosts.collect(lambda obs: np.zeros((3, 1), np.float32), 4)


@pytest.mark.parametrize("n_envs", [1, 3])
def test_a_mask_that_is_none_or_missing_is_left_out(n_envs):
    """In all steps, or in some of some environments."""

    class Masks(Reuses):
        count, some = 0, False

        def step(self, action):
            self.count += 1
            mask = [False, True] if self.some and self.count == 2 else None
            info = {} if self.count == 3 else {"factor_mask": mask}
            return np.zeros(2), 0.0, False, False, {"vector_reward": self.parts} | info

    hosts = Environments(Masks, n_envs, ActionSpace.of(Masks.action_space), 2)
    hosts.init(0)
    assert hosts.collect(lambda obs: np.zeros((n_envs, 1), np.float32), 2).factor_mask is None
    env = hosts.batches[-1].env
    env.some, env.count = True, 0
    masks = hosts.collect(lambda obs: np.zeros((n_envs, 1), np.float32), 3).factor_mask
    assert masks.shape == (3, n_envs, 2)
    assert not masks[1, -1, 0]
    assert masks.sum() == masks.size - 1


def test_a_rollout_that_was_interrupted_continues_where_it_was():
    class Counts(Reuses):
        time = 0

        def step(self, action):
            self.time += 1
            if self.time == 5:
                raise KeyboardInterrupt
            return np.full(2, self.time), 0.0, False, False, {"vector_reward": self.parts}

    hosts = Environments(Counts, 1, ActionSpace.of(Counts.action_space), 2)
    hosts.init(0)
    with pytest.raises(KeyboardInterrupt):
        hosts.collect(lambda obs: np.zeros((1, 1), np.float32), 8)
    rollout = hosts.collect(lambda obs: np.zeros((1, 1), np.float32), 2)
    assert rollout.obs[:, 0, 0].tolist() == [4, 6]


def test_hosts_are_seeded():
    drawn = []
    for seed in (0, 0, 5):
        hosts = Environments(partial(gym.make, "CartPole-v1"), 3, ActionSpace.of(spaces.Discrete(2)), 1)
        hosts.init(seed)
        drawn.append(hosts.obs)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).all()
    assert (drawn[0][0] != drawn[0][1]).all()
