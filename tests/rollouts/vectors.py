"""Vector environments for tests: stock ones around `Drift`, and one that resets its environments in its own way."""

from functools import partial

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from rollouts.environments import Drift

from factorax.rollouts import NumpyPolicy, Plan
from factorax.spaces import ActionSpace

N = 3


def sync(mode=AutoresetMode.NEXT_STEP, make=Drift, n=N, **options):
    return SyncVectorEnv([partial(make, **options)] * n, autoreset_mode=mode)


class Own(VectorEnv):
    """Environments in a vector that draws their later seeds itself, in any mode; it writes down what really happens.

    `truth` has for each environment a list of (observation, next observation, targets, terminated, truncated).
    """

    made = ()

    def __init__(self, mode=AutoresetMode.NEXT_STEP, make=Drift, n=N, **options):
        self.envs, self.mode, self.num_envs = [make(**options) for _ in range(n)], mode, n
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = (
            self.envs[0].observation_space,
            self.envs[0].action_space,
        )
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)
        self.network, self.weights, self.local = self.envs[0].network, self.envs[0].weights, self.envs[0].local
        self.truth, self.actions = [[] for _ in range(n)], [[] for _ in range(n)]
        Own.made = (*Own.made, self)

    def reset(self, *, seed=None, options=None):
        mask = np.ones(self.num_envs, bool) if options is None else options["reset_mask"]
        if options is None:
            self.obs = np.zeros(self.observation_space.shape, np.float32)
        assert seed is None or isinstance(seed, int)
        for i in np.flatnonzero(mask):
            self.obs[i] = self.envs[i].reset(seed=None if seed is None else seed + int(i))[0]
        self.over = np.zeros(self.num_envs, bool) if options is None else self.over & ~mask
        return self.obs.copy(), {}

    def step(self, actions):
        n, over = self.num_envs, self.over.copy()
        rewards, flags, info = np.zeros(n), np.zeros((2, n), bool), {}
        before = self.obs.copy()
        for i in range(n):
            if over[i]:
                assert self.mode is AutoresetMode.NEXT_STEP, "stepped without a reset"
                self.obs[i], one = self.envs[i].reset()
            else:
                self.obs[i], rewards[i], *flags[:, i], one = self.envs[i].step(actions[i])
                self.truth[i].append((before[i], self.obs[i].copy(), one["vector_reward"], *flags[:, i]))
                self.actions[i].append(actions[i])
                if self.mode is AutoresetMode.SAME_STEP and flags[:, i].any():
                    info = self._add_info(info, {"final_obs": self.obs[i].copy(), "final_info": one}, i)
                    self.obs[i], one = self.envs[i].reset()
            info = self._add_info(info, one, i)
        self.over = flags.any(axis=0) & (self.mode is not AutoresetMode.SAME_STEP)
        return self.obs.copy(), rewards, *flags, info


def vector_plan(make, n_envs=2 * N, n_steps=12, policy="joint", **options):
    """A plan for vectors of three, and one for the same environments one by one."""
    env = make()
    single = env.single_action_space if isinstance(env, VectorEnv) else env.action_space
    return Plan(
        make=make,
        policy=NumpyPolicy(ActionSpace.of(single), policy),
        n_envs=n_envs,
        n_steps=n_steps,
        n_inputs=5,
        n_factors=3,
        n_targets=3,
        num_envs=env.num_envs if isinstance(env, VectorEnv) else None,
        own_local=policy != "joint",
        **options,
    )


def cartpole(mode):
    return gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})
