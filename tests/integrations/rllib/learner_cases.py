"""Learners of RLlib and random episodes, for the tests of factored PPO in RLlib."""

import warnings

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.distributions import Spread
from factorax.integrations.rllib import FactoredPPOConfig
from factorax.networks.arrangements import Encoded, Joint
from factorax.networks.mlp import LayerSettings
from factorax.networks.policies import Agent, Critic, Policy
from factorax.observations import ObservationSpace
from factorax.ppo import Rollout

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("ray.rllib", reason="RLlib is an extra, in an environment of its own", exc_type=ImportError)
    import torch
    from ray.rllib.core.columns import Columns
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode


T, B, INPUTS = 6, 3, 4  # steps, episodes, length of an observation
GAMMA, TRACE, CLIP, ENTROPY, KL, VALUE = 0.9, 0.8, 0.1, 0.02, 0.3, 0.7
SPACES = {
    "box": gym.spaces.Box(-1.0, 1.0, (3,), np.float32),
    "choices": gym.spaces.MultiDiscrete([3, 3, 3]),
}
NETWORK = fx.InfluenceNetwork([[1, 0], [1, 1], [0, 1]])
LAM = np.array([0.5, 2.0])


class Spaces(gym.Env):
    """What a learner has to know of an environment."""

    def __init__(self, action_space):
        self.action_space = action_space
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (INPUTS,), np.float32)


def make_learner(action_space, kind=FactoredPPOConfig, **settings):
    """Of our algorithm or of RLlib's, with small networks."""
    config = (
        kind()
        .training(gamma=GAMMA, lambda_=TRACE, clip_param=CLIP, entropy_coeff=ENTROPY, kl_coeff=KL, vf_loss_coeff=VALUE)
        .training(vf_clip_param=float("inf"), **settings)
        .rl_module(
            model_config={
                "fcnet_hiddens": [8, 8],
                "fcnet_activation": "tanh",
                "head_fcnet_hiddens": [],
                "free_log_std": isinstance(action_space, gym.spaces.Box),
            }
        )
    )
    config.validate()
    torch.manual_seed(0)
    return config.build_learner(env=Spaces(action_space))


class Data:
    """Episodes of random numbers: one that ends, one that is cut short, and one that goes on."""

    def __init__(self, action_space, n, m, masks=False):
        rng = np.random.default_rng(0)
        action_space.seed(0)
        self.obs = rng.normal(size=(T + 1, B, INPUTS)).astype(np.float32)
        self.action = np.stack([[action_space.sample() for _ in range(B)] for _ in range(T)])
        self.psi = rng.normal(size=(T, B, m))
        self.terminated, self.truncated = np.zeros((2, T, B), bool)
        self.terminated[-1, 0] = self.truncated[-1, 1] = True
        self.mask = rng.random((T, B, n)) < 0.7 if masks else None
        self.stop = (rng.random((T, B, m)) < 0.2).cumsum(axis=0) > 0 if masks else None

    def infos(self, t, b):
        info = {"vector_reward": self.psi[t, b]}
        return info | (
            {} if self.mask is None else {"factor_mask": self.mask[t, b], "target_terminated": self.stop[t, b]}
        )

    def episodes(self, module):
        """As env runners make them, by the policy of a module."""
        with torch.no_grad():
            inputs = module.forward_train({Columns.OBS: torch.as_tensor(self.obs[:-1]).reshape(-1, INPUTS)})
        inputs = inputs[Columns.ACTION_DIST_INPUTS]
        flat = torch.as_tensor(self.action.reshape(T * B, *self.action.shape[2:]))
        logp = module.get_exploration_action_dist_cls().from_logits(inputs).logp(flat)
        inputs, logp = inputs.numpy().reshape(T, B, -1), logp.numpy().reshape(T, B)
        return [
            SingleAgentEpisode(
                observations=list(self.obs[:, b]),
                actions=list(self.action[:, b]),
                rewards=(self.psi[:, b] @ np.ones(self.psi.shape[-1])).tolist(),
                infos=[{}, *(self.infos(t, b) for t in range(T))],
                terminated=bool(self.terminated[-1, b]),
                truncated=bool(self.truncated[-1, b]),
                extra_model_outputs={
                    Columns.ACTION_DIST_INPUTS: list(inputs[:, b]),
                    Columns.ACTION_LOGP: list(logp[:, b]),
                },
                len_lookback_buffer=0,
            )
            for b in range(B)
        ]

    def train_batch(self, of):
        """What the pipeline of a learner makes of the episodes."""
        found = of._learner_connector(
            rl_module=of.module, batch={}, episodes=self.episodes(of.module["default_policy"]), shared_data={}
        )
        return found["default_policy"]

    def ours(self):
        """The same for our learner."""
        pair = (None, None) if self.mask is None else (jnp.asarray(self.mask), jnp.asarray(self.stop))
        action, psi = jnp.asarray(self.action, jnp.float32), jnp.asarray(self.psi, jnp.float32)
        obs, ends = jnp.asarray(self.obs), (jnp.asarray(self.terminated), jnp.asarray(self.truncated))
        return Rollout(
            obs=obs[:-1],
            local=None,
            action=action,
            psi=psi,
            next_obs=obs[1:],
            terminated=ends[0],
            truncated=ends[1],
            factor_mask=pair[0],
            target_terminated=pair[1],
        )


def agent_of(module, c):
    """Our agent with the parameters of RLlib's module."""
    p = {name: jnp.asarray(value.detach().numpy()) for name, value in module.named_parameters()}

    def network(encoder, head, outputs, width):
        encoded = Encoded(ObservationSpace.of(gym.spaces.Box(-1.0, 1.0, (INPUTS,))))
        net = Joint(jax.random.key(0), encoded, (outputs, width), 1.0, LayerSettings((8, 8)))
        names = [f"encoder.{encoder}.net.mlp.0", f"encoder.{encoder}.net.mlp.2", f"{head}.net.mlp.0"]
        object.__setattr__(net.net, "kernels", [p[f"{name}.weight"].T for name in names])
        object.__setattr__(net.net, "biases", [p[f"{name}.bias"] for name in names])
        return net

    outputs = p["pi.net.mlp.0.bias"].size
    spread = Spread(p.get("pi.log_std", jnp.zeros(c)), jnp.zeros((0, 0, 0)))
    policy = Policy(network("actor_encoder", "pi", c, outputs // c), spread)
    return Agent(policy, Critic(network("critic_encoder", "vf", p["vf.net.mlp.0.bias"].size, 1)))


def gradient_of(loss, module):
    module.zero_grad()
    loss.backward()
    return {name: value.grad.numpy() for name, value in module.named_parameters()}


def loss_of(of, batch):
    module = of.module["default_policy"]
    out = module.forward_train(batch)
    return of.compute_loss_for_module(module_id="default_policy", config=of.config, batch=batch, fwd_out=out)


def move(module):
    """Away from the policy that acted, so that ratios are clipped."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.15 * torch.randn_like(parameter)
