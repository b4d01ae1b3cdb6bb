"""Factored PPO in RLlib: its advantages and its gradient are ours, and with one factor and one target RLlib's own."""

import os
import warnings

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrations.environments import EYE
from integrations.rllib.test_rllib_views import HOST, mixed

import factorax as fx
from factorax.integrations.rllib import FactoredPPO, FactoredPPOConfig, JointEnv
from factorax.integrations.rllib.advantages import target_advantages
from factorax.learning.actions import ActionSpace, Spread
from factorax.learning.advantages import gae
from factorax.learning.config import Config
from factorax.learning.networks import Critic, Joint, Policy
from factorax.learning.ppo import Agent, Batch, Update

pytestmark = [pytest.mark.rllib, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("ray.rllib", reason="RLlib is an extra, in an environment of its own", exc_type=ImportError)
    import torch
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.connectors.learner import GeneralAdvantageEstimation
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


def learner(action_space, kind=FactoredPPOConfig, **settings):
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
        return Batch(obs[:-1], None, action, psi, obs[1:], None, *ends, *pair)


def agent_of(module, c):
    """Our agent with the parameters of RLlib's module."""
    p = {name: jnp.asarray(value.detach().numpy()) for name, value in module.named_parameters()}

    def network(encoder, head, outputs, width):
        net = Joint(jax.random.key(0), INPUTS, (outputs, width), (8, 8), 1.0)
        names = [f"encoder.{encoder}.net.mlp.0", f"encoder.{encoder}.net.mlp.2", f"{head}.net.mlp.0"]
        object.__setattr__(net.net, "weights", [p[f"{name}.weight"].T for name in names])
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


def test_advantages_of_episodes_end_to_end_are_ours():
    rng = np.random.default_rng(0)
    lengths, m = [1, 4, 7, 2], 3
    psi, values, stop, ended, theirs = [], [], [], [], []
    for k, length in enumerate(lengths):
        r, v = rng.normal(size=(length, m)), rng.normal(size=(length + 1, m))
        dead = (rng.random((length, m)) < 0.15).cumsum(axis=0) > 0
        dead[-1] |= k % 2 == 0
        last = np.arange(length)[:, None] == length - 1
        options = {"terminated": dead, "ended": last, "discount": GAMMA, "trace": TRACE}
        theirs += [gae(r.astype("f4"), v[:-1].astype("f4"), v[1:].astype("f4"), **options)[0], np.zeros((1, m))]
        psi += [r, np.zeros((1, m))]
        values.append(v)
        stop += [dead, np.zeros((1, m), bool)]
        ended += [last, np.zeros((1, 1), bool)]
    found = target_advantages(
        *map(np.concatenate, (psi, values)),
        terminated=np.concatenate(stop),
        ended=np.concatenate(ended),
        discount=GAMMA,
        trace=TRACE,
    )
    np.testing.assert_allclose(found, np.concatenate(theirs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("masks", [False, True], ids=["all-act", "masks"])
@pytest.mark.parametrize("grouped", [False, True], ids=["components", "groups"])
@pytest.mark.parametrize("space", SPACES)
def test_batch_and_gradient_are_those_of_our_learner(space, grouped, masks):
    network = NETWORK.factor([NETWORK.actions[:2], NETWORK.actions[2:]]) if grouped else NETWORK
    n, m = network.shape
    of = learner(SPACES[space], network=network, weights=LAM, standardise_advantages=False)
    module, data = of.module["default_policy"], Data(SPACES[space], n, m, masks)
    batch = data.train_batch(of)
    config = Config(
        discount=GAMMA,
        gae_lambda=TRACE,
        clip_range=CLIP,
        ent_coef=ENTROPY,
        kl_coef=KL,
        vf_coef=VALUE,
        normalise_advantage=False,
    )
    rule = Update(ActionSpace.of(SPACES[space]), n, LAM, np.array([0, 0, 1]) if grouped else None, config)
    old = agent_of(module, 3)
    samples = rule.samples(old, data.ours(), network)
    real = batch[Columns.LOSS_MASK].numpy()
    assert real.tolist() == ([True] * T + [False]) * B
    for name, ours in (("advantages", samples.credit), ("value_targets", samples.returns)):
        theirs = np.swapaxes(batch[name].numpy()[real].reshape(B, T, -1), 0, 1).reshape(T * B, -1)
        np.testing.assert_allclose(theirs, ours, rtol=2e-5, atol=2e-6)

    move(module)
    (loss, metrics), gradient = jax.value_and_grad(
        lambda agent: rule.loss(agent, samples, old.policy.spread, jnp.float32(KL)), has_aux=True
    )(agent_of(module, 3))
    assert 0.05 < metrics["train/clip_fraction"] < 0.95
    theirs = loss_of(of, batch)
    np.testing.assert_allclose(theirs.item(), loss, rtol=1e-5)
    found = gradient_of(theirs, module)
    nets = {"actor_encoder": gradient.policy.net.net, "critic_encoder": gradient.critic.net.net}
    for (encoder, net), head in zip(nets.items(), ("pi", "vf"), strict=True):
        names = [f"encoder.{encoder}.net.mlp.0", f"encoder.{encoder}.net.mlp.2", f"{head}.net.mlp.0"]
        for name, weight, bias in zip(names, net.weights, net.biases, strict=True):
            np.testing.assert_allclose(found[f"{name}.weight"].T, weight, rtol=1e-4, atol=2e-6, err_msg=name)
            np.testing.assert_allclose(found[f"{name}.bias"], bias, rtol=1e-4, atol=2e-6, err_msg=name)
    if space == "box":
        np.testing.assert_allclose(found["pi.log_std"], gradient.policy.spread.log_std, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("space", SPACES)
def test_with_one_factor_and_one_target_it_is_the_ppo_of_rllib(space):
    ones = fx.InfluenceNetwork.complete(3, 1)
    one = learner(SPACES[space], network=ones.factor([ones.actions]), standardise_advantages=False)
    stock = learner(SPACES[space], PPOConfig)
    stock.module["default_policy"].load_state_dict(one.module["default_policy"].state_dict())
    data = Data(SPACES[space], 1, 1)
    ours, theirs = data.train_batch(one), data.train_batch(stock)
    assert isinstance(stock._learner_connector.connectors[-1], GeneralAdvantageEstimation)
    real = theirs[Columns.LOSS_MASK]
    np.testing.assert_allclose(ours["value_targets"][real][:, 0], theirs["value_targets"][real], rtol=1e-5, atol=1e-6)
    # RLlib's are standardised, with the steps that it appended itself: the same but for a shift and a scale.
    slope = np.polyfit(ours["advantages"][real][:, 0], theirs["advantages"][real], 1)
    np.testing.assert_allclose(np.polyval(slope, ours["advantages"][real][:, 0]), theirs["advantages"][real], atol=1e-5)
    ours["advantages"] = theirs["advantages"][:, None]
    for of in (one, stock):
        move(of.module["default_policy"])
    a, b = loss_of(one, ours), loss_of(stock, theirs)
    np.testing.assert_allclose(a.item(), b.item(), rtol=1e-5)
    a, b = (gradient_of(*pair) for pair in ((a, one.module["default_policy"]), (b, stock.module["default_policy"])))
    for name, value in b.items():
        np.testing.assert_allclose(a[name], value, rtol=1e-4, atol=2e-6, err_msg=name)


def test_with_all_ones_the_gradient_at_the_policy_that_acted_is_that_of_rllib():
    """Away from it the joint ratio and a ratio for every factor are clipped differently."""
    ones = fx.InfluenceNetwork.complete(3, 1)
    every = learner(SPACES["box"], network=ones)
    stock = learner(SPACES["box"], PPOConfig)
    stock.module["default_policy"].load_state_dict(every.module["default_policy"].state_dict())
    data = Data(SPACES["box"], 3, 1)
    ours, theirs = data.train_batch(every), data.train_batch(stock)
    ours["advantages"] = theirs["advantages"][:, None].expand(-1, 3)
    a, b = (
        gradient_of(loss_of(of, batch), of.module["default_policy"]) for of, batch in ((every, ours), (stock, theirs))
    )
    for name, value in b.items():
        np.testing.assert_allclose(a[name], value, rtol=1e-4, atol=2e-6, err_msg=name)


def test_advantages_are_standardised_over_the_steps_that_count():
    of = learner(SPACES["box"], network=NETWORK, weights=LAM)
    batch = Data(SPACES["box"], 3, 2, masks=True).train_batch(of)
    counted = batch["advantages"][batch[Columns.LOSS_MASK]][batch["factor_mask"][batch[Columns.LOSS_MASK]].bool()]
    np.testing.assert_allclose([counted.mean(), counted.std(correction=0)], [0, 1], atol=1e-5)


def test_it_learns_and_is_saved_and_loaded(tmp_path):
    config = (
        FactoredPPOConfig()
        .problem("contextual-bandit:6")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(lr=5e-3, train_batch_size_per_learner=256, minibatch_size=128, num_epochs=4)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    for _ in range(8):
        found = algorithm.train()["env_runners"]
    assert found["episode_return_mean"] > 0.85 * 6  # chance has half of it
    folder = algorithm.save_to_path(str(tmp_path / "saved"))
    again = FactoredPPO.from_checkpoint(folder)
    assert again.config.network == algorithm.config.network
    ours, theirs = (one.get_module().state_dict() for one in (algorithm, again))
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name])
    algorithm.stop()
    again.stop()


def test_actions_of_several_kinds_and_env_runners_of_their_own():
    config = (
        FactoredPPOConfig()
        .problem(mixed())
        .env_runners(num_env_runners=1)
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
    )
    algorithm = config.build_algo()
    found = algorithm.train()
    algorithm.stop()
    assert np.isfinite(found["learners"]["default_policy"]["total_loss"])


def test_what_is_wrong_is_said():
    with pytest.raises(TypeError, match=r"network: got NoneType, want an InfluenceNetwork; \.problem"):
        learner(SPACES["box"])
    with pytest.raises(ValueError, match=r"weights: got \[1.0\], want 2 finite numbers"):
        learner(SPACES["box"], network=NETWORK, weights=[1.0])
    with pytest.raises(ValueError, match=r"network: has 2 rows, and the action space 3 components"):
        learner(SPACES["box"], network=EYE)
    with pytest.raises(ValueError, match=r"use_critic: got False, want True"):
        FactoredPPOConfig().training(network=EYE, use_critic=False).env_runners(
            batch_mode="complete_episodes"
        ).validate()
    with pytest.raises(ValueError, match=r"use_lstm: got True, want False"):
        FactoredPPOConfig().training(network=EYE).rl_module(model_config={"use_lstm": True}).validate()
    with pytest.raises(ValueError, match=r"multi_agent: got several agents"):
        FactoredPPOConfig().training(network=EYE).multi_agent(policies={"a", "b"}).validate()
    with pytest.raises(TypeError, match=r"action space: got Dict.*, want a Box or MultiDiscrete of one axis"):
        learner(gym.spaces.Dict(a=SPACES["box"]), network=NETWORK)
    of = learner(SPACES["box"], network=NETWORK)
    data = Data(SPACES["box"], 3, 3)
    with pytest.raises(ValueError, match=r'info\["vector_reward"\] has 3 parts, and the network 2 columns'):
        data.train_batch(of)
    data.infos = lambda t, b: {"vector_reward": np.zeros(2), "factor_mask": [True]}
    with pytest.raises(ValueError, match=r'info\["factor_mask"\] has shape \(1,\), want \(3,\)'):
        data.train_batch(of)
    data.infos = lambda t, b: {}
    with pytest.raises(ValueError, match=r'info of a step has no "vector_reward", and the network has 2 targets'):
        data.train_batch(of)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a learner asks for a processor")
def test_two_learners_of_their_own():
    config = (
        FactoredPPOConfig()
        .problem("contextual-bandit:4")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .learners(num_learners=2)
        .training(lr=1e-2, train_batch_size_per_learner=128, minibatch_size=64, num_epochs=4)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    for _ in range(6):
        found = algorithm.train()["env_runners"]
    algorithm.stop()
    assert found["episode_return_mean"] > 0.75 * 4  # chance has half of it


def test_an_environment_of_rllibs_own_way():
    """`environment` and `training(network=…)`, with λ of one's own."""
    config = (
        FactoredPPOConfig()
        .environment(JointEnv, env_config={"problem": HOST})
        .env_runners(num_env_runners=0)
        .training(network=EYE, weights=np.array([1.0, 3.0]), train_batch_size_per_learner=32, minibatch_size=32)
        .training(num_epochs=1)
    )
    algorithm = config.build_algo()
    found = algorithm.train()
    algorithm.stop()
    assert np.isfinite(found["learners"]["default_policy"]["total_loss"])
