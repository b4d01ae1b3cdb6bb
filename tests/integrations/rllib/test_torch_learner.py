"""Factored PPO in RLlib: its advantages and its gradient are ours, and with one factor and one target RLlib's own."""

import warnings

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrations.rllib.learner_cases import (
    CLIP,
    ENTROPY,
    GAMMA,
    INPUTS,
    KL,
    LAM,
    NETWORK,
    SPACES,
    TRACE,
    VALUE,
    B,
    Data,
    T,
    agent_of,
    gradient_of,
    loss_of,
    make_learner,
    move,
)
from ppo.helping import samples_of

import factorax as fx
from factorax.ppo.config import Config
from factorax.ppo.update import Update
from factorax.spec import Spec

pytestmark = [pytest.mark.rllib, pytest.mark.filterwarnings("ignore")]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("ray.rllib", reason="RLlib is an extra, in an environment of its own", exc_type=ImportError)
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.connectors.learner import GeneralAdvantageEstimation
    from ray.rllib.core.columns import Columns


@pytest.mark.parametrize("masks", [False, True], ids=["all-act", "masks"])
@pytest.mark.parametrize("grouped", [False, True], ids=["components", "groups"])
@pytest.mark.parametrize("space", SPACES)
def test_batch_and_gradient_equal_those_of_factorax(space, grouped, masks):
    network = NETWORK.factor([NETWORK.actions[:2], NETWORK.actions[2:]]) if grouped else NETWORK
    n, m = network.shape
    of = make_learner(SPACES[space], network=network, weights=LAM, standardise_advantages=False)
    module, data = of.module["default_policy"], Data(SPACES[space], n, m, masks)
    batch = data.train_batch(of)
    config = Config(
        gamma=GAMMA,
        gae_lambda=TRACE,
        clip_range=CLIP,
        ent_coef=ENTROPY,
        vf_coef=VALUE,
        normalize_advantage=False,
        critic="target",
    )
    observations = gym.spaces.Box(-np.inf, np.inf, (INPUTS,))
    rule = Update(Spec.of_spaces(observations, SPACES[space], network, weights=LAM), config)
    old = agent_of(module, 3)
    samples = samples_of(rule, old, data.ours())
    real = batch[Columns.LOSS_MASK].numpy()
    assert real.tolist() == ([True] * T + [False]) * B
    # ours leaves out the credit of a factor that did not act at once, theirs in the loss
    for name, ours, acted in (("advantages", samples.credit, samples.acted), ("value_targets", samples.returns, 1.0)):
        theirs = np.swapaxes(batch[name].numpy()[real].reshape(B, T, -1), 0, 1).reshape(T * B, -1)
        np.testing.assert_allclose(theirs * acted, ours, rtol=2e-5, atol=2e-6)

    move(module)

    def loss_with_divergence(agent):
        """Our loss, and RLlib's penalty on the divergence from the acting policy."""
        outputs = rule.method.evaluate(rule, agent, samples)
        total, log_ratio = rule.method.loss(rule, outputs, samples, config.hyper)
        divergence = rule.divergence((samples.parameters, old.policy.spread), outputs[0]) * samples.acted
        return total + KL * divergence.sum(axis=-1).mean(), log_ratio

    (loss, log_ratio), gradient = jax.value_and_grad(loss_with_divergence, has_aux=True)(agent_of(module, 3))
    assert 0.05 < (jnp.abs(jnp.exp(log_ratio) - 1) > CLIP).mean() < 0.95
    theirs = loss_of(of, batch)
    np.testing.assert_allclose(theirs.item(), loss, rtol=1e-5)
    found = gradient_of(theirs, module)
    nets = {"actor_encoder": gradient.policy.net.net, "critic_encoder": gradient.critic.net.net}
    for (encoder, net), head in zip(nets.items(), ("pi", "vf"), strict=True):
        names = [f"encoder.{encoder}.net.mlp.0", f"encoder.{encoder}.net.mlp.2", f"{head}.net.mlp.0"]
        for name, weight, bias in zip(names, net.kernels, net.biases, strict=True):
            np.testing.assert_allclose(found[f"{name}.weight"].T, weight, rtol=1e-4, atol=2e-6, err_msg=name)
            np.testing.assert_allclose(found[f"{name}.bias"], bias, rtol=1e-4, atol=2e-6, err_msg=name)
    if space == "box":
        np.testing.assert_allclose(found["pi.log_std"], gradient.policy.spread.log_std, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("space", SPACES)
def test_one_factor_and_target_equal_ppo_of_rllib(space):
    ones = fx.InfluenceNetwork.complete(3, 1)
    one = make_learner(SPACES[space], network=ones.factor([ones.actions]), standardise_advantages=False)
    stock = make_learner(SPACES[space], PPOConfig)
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


def test_complete_network_has_the_first_gradient_of_rllib():
    """Away from it the joint ratio and a ratio for every factor are clipped differently."""
    ones = fx.InfluenceNetwork.complete(3, 1)
    every = make_learner(SPACES["box"], network=ones)
    stock = make_learner(SPACES["box"], PPOConfig)
    stock.module["default_policy"].load_state_dict(every.module["default_policy"].state_dict())
    data = Data(SPACES["box"], 3, 1)
    ours, theirs = data.train_batch(every), data.train_batch(stock)
    ours["advantages"] = theirs["advantages"][:, None].expand(-1, 3)
    a, b = (
        gradient_of(loss_of(of, batch), of.module["default_policy"]) for of, batch in ((every, ours), (stock, theirs))
    )
    for name, value in b.items():
        np.testing.assert_allclose(a[name], value, rtol=1e-4, atol=2e-6, err_msg=name)


def test_advantages_are_standardised_over_valid_steps():
    of = make_learner(SPACES["box"], network=NETWORK, weights=LAM)
    batch = Data(SPACES["box"], 3, 2, masks=True).train_batch(of)
    counted = batch["advantages"][batch[Columns.LOSS_MASK]][batch["factor_mask"][batch[Columns.LOSS_MASK]].bool()]
    np.testing.assert_allclose([counted.mean(), counted.std(correction=0)], [0, 1], atol=1e-5)
