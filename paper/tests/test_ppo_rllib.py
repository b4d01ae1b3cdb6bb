"""With the preset ``traffic-paper``, an update by ``rllib07`` is that of RLlib's PPO: same rollout, same parameters.

RLlib's current PPO has the loss of version 0.7, but for the clipping of values, which neither reaches here. It appends
a step to every episode. Its losses leave that out, but not its standardisation of advantages: here they are
standardised without it, as in version 0.7. It goes through minibatches in the order of its rows: so minibatches hold
whole episodes here, and ours are put into the same order.
"""

import warnings
from dataclasses import replace
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.networks import Agent, make_policy
from factorax.ppo import Config, Rollout, Update
from factorax.ppo.presets import read_preset
from factorax.spec import Spec

pytestmark = [pytest.mark.rllib, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("ray.rllib", reason="RLlib is an extra, in an environment of its own", exc_type=ImportError)
    import torch
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.learner.training_data import TrainingData
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

T, B, N, LOCAL = 10, 4, 3, 5  # steps, environments, factors, what a factor sees
EPISODES_IN_A_MINIBATCH, EPOCHS = 2, 7
NETWORK = fx.InfluenceNetwork([[1, 0], [1, 1], [0, 1]])
PAPER = read_preset("traffic-paper").settings
METHOD = Config(method=PAPER["method"], n_steps=400).method


class Spaces(gym.Env):
    """What RLlib's learner has to know of an environment."""

    def __init__(self, inputs: int, actions: int):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (inputs,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (actions,), np.float32)


def rllib_learner(inputs: int, actions: int) -> Any:
    config = (
        PPOConfig()
        .training(
            gamma=PAPER["gamma"],
            lambda_=PAPER["gae_lambda"],
            clip_param=PAPER["clip_range"],
            kl_coeff=METHOD.kl_coef,
            kl_target=METHOD.kl_target,
            vf_loss_coeff=PAPER["vf_coef"],
            vf_clip_param=PAPER["clip_range_vf"],
            lr=PAPER["learning_rate"],
            entropy_coeff=0.0,
            grad_clip=None,
        )
        .rl_module(
            model_config={
                "fcnet_hiddens": PAPER["hidden"],
                "fcnet_activation": "tanh",
                "head_fcnet_hiddens": [],
                "vf_share_layers": False,
            }
        )
    )
    config.validate()
    torch.manual_seed(0)
    return config.build_learner(env=Spaces(inputs, actions))


def agent_of(module: Any, ours: Any, actions: int) -> Any:
    """Our agent with the parameters of RLlib's module, whose last layer has all means first, then all log σ."""
    p = {name: jnp.asarray(value.detach().numpy().copy()) for name, value in module.named_parameters()}
    hidden = [f"net.mlp.{2 * i}" for i in range(len(PAPER["hidden"]))]
    order = np.arange(2 * actions).reshape(2, actions).T.ravel()

    def layers(encoder: str, head: str, order: Any) -> tuple[list[jax.Array], list[jax.Array]]:
        names = [*(f"encoder.{encoder}.{name}" for name in hidden), f"{head}.net.mlp.0"]
        kernels, biases = [p[f"{name}.weight"].T for name in names], [p[f"{name}.bias"] for name in names]
        return [*kernels[:-1], kernels[-1][:, order]], [*biases[:-1], biases[-1][order]]

    where = lambda a: (  # noqa: E731
        a.policy.net.net.kernels,
        a.policy.net.net.biases,
        a.critic.net.net.kernels,
        a.critic.net.net.biases,
    )
    return eqx.tree_at(
        where, ours, (*layers("actor_encoder", "pi", order), *layers("critic_encoder", "vf", slice(None)))
    )


def episodes_of(module: Any, obs: Any, action: Any, reward: Any, terminated: Any) -> list[Any]:
    """Observations ``(E, T + 1, d)``, actions ``(E, T, a)`` and rewards ``(E, T)`` as env runners hand them on."""
    count, length, inputs = obs.shape[0], obs.shape[1] - 1, obs.shape[-1]
    with torch.no_grad():
        out = module.forward_train({Columns.OBS: torch.as_tensor(obs[:, :-1].reshape(-1, inputs))})
    out = out[Columns.ACTION_DIST_INPUTS]
    flat = torch.as_tensor(action.reshape(count * length, -1))
    log_prob = module.get_exploration_action_dist_cls().from_logits(out).logp(flat).numpy().reshape(count, length)
    out = out.numpy().reshape(count, length, -1)
    return [
        SingleAgentEpisode(
            observations=list(obs[e]),
            actions=list(action[e]),
            rewards=reward[e].tolist(),
            terminated=bool(terminated[e]),
            extra_model_outputs={Columns.ACTION_DIST_INPUTS: list(out[e]), Columns.ACTION_LOGP: list(log_prob[e])},
            len_lookback_buffer=0,
        )
        for e in range(count)
    ]


@pytest.mark.parametrize("policy", ["shared", "joint"])
def test_an_update_is_that_of_rllib(policy, monkeypatch):
    shared = policy == "shared"
    rng = np.random.default_rng(0)
    local = rng.normal(size=(T + 1, B, N, LOCAL)).astype(np.float32)
    action = rng.normal(size=(T, B, N)).astype(np.float32)
    psi = rng.normal(size=(T, B, 2)).astype(np.float32)
    terminated = np.array([True, False, True, False])  # the others are cut, and have a future
    credit = psi @ NETWORK.to_dense().T  # (T, B, N)

    # Episodes of RLlib: of a light each, or of all of them.
    if shared:
        obs = local.transpose(1, 2, 0, 3).reshape(B * N, T + 1, LOCAL)
        theirs = rllib_learner(LOCAL, 1)
        parts = action.transpose(1, 2, 0).reshape(B * N, T, 1), credit.transpose(1, 2, 0).reshape(B * N, T)
        ends = np.repeat(terminated, N)
    else:
        obs = local.transpose(1, 0, 2, 3).reshape(B, T + 1, N * LOCAL)
        theirs = rllib_learner(N * LOCAL, N)
        parts, ends = (action.transpose(1, 0, 2), psi.sum(axis=-1).T), terminated
    module = theirs.module["default_policy"]
    episodes = episodes_of(module, obs, *parts, ends)

    method = replace(METHOD, gae_steps=None, bootstrap="auto")
    if not shared:
        method = replace(method, ratio="joint", minibatch_of="steps")
    sizes = {"n_envs": B, "n_steps": T, "n_epochs": EPOCHS, "batch_size": EPISODES_IN_A_MINIBATCH * T}
    config = Config(**PAPER | sizes | {"policy": policy, "method": method})
    spaces = gym.spaces.Box(-np.inf, np.inf, (N * LOCAL,)), gym.spaces.Box(-1.0, 1.0, (N,))
    each_sees = lambda obs: obs.reshape(*obs.shape[:-1], N, LOCAL)  # noqa: E731
    spec = Spec.of_spaces(*spaces, NETWORK, distribution=config.distribution, local=each_sees)
    rule, key = Update(spec, config), jax.random.key(0)
    untrained = make_policy(spec, rule.config, key)
    untrained = Agent(untrained, method.critic(rule, untrained, key))
    agent = agent_of(module, untrained, 1 if shared else N)
    moments = method.optimiser(config.hyper).init(eqx.filter(agent, eqx.is_inexact_array))
    flat = jnp.asarray(local.reshape(T + 1, B, N * LOCAL))
    ended = np.zeros((T, B), bool)
    ended[-1] = True
    rollout = Rollout(
        obs=flat[:-1],
        local=jnp.asarray(local[:-1]) if shared else None,
        action=jnp.asarray(action),
        psi=jnp.asarray(psi),
        next_obs=flat[1:],
        terminated=jnp.asarray(ended & terminated),
        truncated=jnp.asarray(ended & ~terminated),
    )
    rows = np.arange(T * B * N).reshape(T, B, N).transpose(1, 2, 0) if shared else np.arange(T * B).reshape(T, B).T

    def in_their_order(key: Any, size: int) -> jax.Array:
        return jnp.asarray(rows.ravel()) if size == rows.size else jnp.arange(size)

    monkeypatch.setattr("factorax_paper.rllib07.shuffled", in_their_order)
    learnt, _, kl_coef, metrics = eqx.filter_jit(rule.learn)(
        agent, moments, rollout, key=key, k=rule.network.static, state=method.init_state()
    )

    connect = theirs._learner_connector

    def standardised(**inputs: Any) -> Any:
        batch = connect(**inputs)
        found = batch["default_policy"]
        real = found[Columns.LOSS_MASK]
        assert (~real).sum() == len(episodes)
        advantages = found[Columns.ADVANTAGES]
        found[Columns.ADVANTAGES] = (advantages - advantages[real].mean()) / advantages[real].std(correction=0)
        return batch

    monkeypatch.setattr(theirs, "_learner_connector", standardised)
    theirs.update(
        training_data=TrainingData(episodes=episodes),
        num_epochs=EPOCHS,
        minibatch_size=EPISODES_IN_A_MINIBATCH * (T + 1),
        shuffle_batch_per_epoch=False,
    )
    want = agent_of(module, untrained, 1 if shared else N)
    moved = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max(initial=0.0)), agent, want)
    assert max(jax.tree.leaves(moved)) > 5e-3  # all the epochs took place
    for got, expected in zip(jax.tree.leaves(learnt), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)
    theirs.after_gradient_based_update(timesteps={})
    assert metrics["train/clip_fraction"] > 0
    np.testing.assert_allclose(kl_coef, theirs.curr_kl_coeffs_per_module["default_policy"].item(), rtol=1e-6)
