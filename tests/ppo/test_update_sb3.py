"""The method ``ppo`` makes the same update as Stable-Baselines3's PPO, from the same rollout and parameters."""

import warnings
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.ppo import Agent, Config, Learner, Rollout
from ppo.helping import samples_of

pytestmark = [pytest.mark.sb3, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", reason="PyTorch is no dependency of factorax")
    sb3 = pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is no dependency of factorax")
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv

STEPS, ENVS = 64, 2


class Drift(gym.Env):
    """A point pushed by two actions: its episode terminates far from the origin, and is truncated after 11 steps."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Box(-0.8, 0.8, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at, self.t = self.np_random.normal(size=2), 0
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.array([*self.at, self.t / 11], np.float32)

    def step(self, action: np.ndarray) -> Any:
        assert self.action_space.contains(action)  # clipped by both libraries
        self.at, self.t = self.at + action, self.t + 1
        far = bool(np.abs(self.at).max() > 3)
        return self._obs(), float(1 - np.abs(self.at).sum()), far, self.t >= 11 and not far, {}


class Noted(BaseCallback):
    """Notes what followed every step, and the reward before Stable-Baselines3 adds the value of a truncated end."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[np.ndarray, ...]] = []

    def _on_step(self) -> bool:
        observed = np.array(self.locals["new_obs"])
        truncated = np.array([info["TimeLimit.truncated"] for info in self.locals["infos"]])
        dones = np.array(self.locals["dones"])
        for i in np.flatnonzero(dones):
            observed[i] = self.locals["infos"][i]["terminal_observation"]
        self.steps.append((np.array(self.locals["rewards"]), observed, dones & ~truncated, truncated))
        return True


def agent_of(model: Any, ours: Agent) -> Agent:
    """The parameters of theirs as an agent of ours."""
    policy = {name: jnp.asarray(value.detach().numpy().copy()) for name, value in model.policy.named_parameters()}

    def layers(kind: str, last: str) -> tuple[list[jax.Array], list[jax.Array]]:
        names = [f"mlp_extractor.{kind}_net.0", f"mlp_extractor.{kind}_net.2", last]
        return [policy[f"{name}.weight"].T for name in names], [policy[f"{name}.bias"] for name in names]

    actor, critic = layers("policy", "action_net"), layers("value", "value_net")
    where = lambda a: (  # noqa: E731
        a.policy.net.net.kernels,
        a.policy.net.net.biases,
        a.critic.net.net.kernels,
        a.critic.net.net.biases,
        a.policy.spread.log_std,
    )
    return eqx.tree_at(where, ours, (*actor, *critic, policy["log_std"]))


@pytest.mark.parametrize("more", [{}, {"clip_range_vf": 0.02}, {"target_kl": 1e-3}], ids=str)
def test_an_update_is_that_of_stable_baselines3(more):
    settings: dict[str, Any] = {"n_steps": STEPS, "batch_size": STEPS * ENVS, "n_epochs": 10, "ent_coef": 0.01} | more
    theirs = sb3.PPO("MlpPolicy", DummyVecEnv([Drift] * ENVS), seed=3, device="cpu", learning_rate=1e-3, **settings)
    noted = Noted()
    _, callback = theirs._setup_learn(STEPS * ENVS, noted)
    theirs.collect_rollouts(theirs.env, callback, theirs.rollout_buffer, STEPS)
    buffer = theirs.rollout_buffer
    rewards, observed, terminated, truncated = (np.stack(x) for x in zip(*noted.steps, strict=True))
    assert terminated.sum() > 2 < truncated.sum()

    config = Config(n_envs=ENVS, method="ppo", learning_rate=1e-3, distribution="clip", **settings)
    learner = Learner.of(Drift, None, config)
    state = learner.init(0)
    agent = agent_of(theirs, state.agent)
    rollout = Rollout(
        obs=jnp.asarray(buffer.observations),
        local=None,
        action=jnp.asarray(buffer.actions),
        psi=jnp.asarray(rewards[..., None], jnp.float32),
        next_obs=jnp.asarray(observed),
        terminated=jnp.asarray(terminated),
        truncated=jnp.asarray(truncated),
    )
    samples = samples_of(learner.rule, agent, rollout)
    for got, want in ((samples.credit, buffer.advantages), (samples.returns, buffer.returns)):
        np.testing.assert_allclose(np.asarray(got).reshape(STEPS, ENVS), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        np.asarray(samples.log_prob.sum(axis=-1)).reshape(STEPS, ENVS), buffer.log_probs, atol=1e-5
    )

    before = agent
    learn = eqx.filter_jit(learner.rule.learn)
    agent, _, _, metrics = learn(before, state.optimiser, rollout, key=jax.random.key(0))
    theirs.train()  # with one minibatch a pass, in whatever order its samples are
    for a, b, c in zip(*(jax.tree.leaves(x) for x in (agent, agent_of(theirs, agent), before)), strict=True):
        if a.size:
            assert np.abs(b - c).max() > (1e-3 if "target_kl" in more else 2e-3)  # steps of Adam, of about 1e-3 each
            np.testing.assert_allclose(a, b, atol=2e-6)
    assert (metrics["train/n_minibatches"] < 10) == ("target_kl" in more)
