"""Messages before training starts: who is told that K leaves nothing out, and that a run is shorter than a rollout."""

import dataclasses
import warnings

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.discovery import Discovery
from factorax.ppo import Config
from factorax.ppo.hints import warn_if_clipped, warn_if_dense, warn_if_short
from factorax.problems import chain
from factorax.spec import Spec

COMPLETE = fx.InfluenceNetwork.complete(3, 3)
DENSE = dataclasses.replace(chain(3), network=fx.InfluenceNetwork(np.ones((3, 3))))
SMALL = {"n_envs": 2, "n_steps": 4, "batch_size": 8}


def test_a_problem_whose_own_network_has_every_edge_is_named_once_when_a_model_is_made():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fx.FactoredPPO(DENSE, **SMALL)
    assert [w.category for w in caught] == [fx.structure.StructureWarning]
    message = str(caught[0].message)
    assert message.startswith("network: that of the problem has an edge from each of 3 actions to each of 3 targets")
    for advice in ("network='adaptive'", "reads='uncoupled'", "fx.discover", "InfluenceNetwork.complete(3, 3)"):
        assert advice in message
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("problem", "network", "settings"),
    [
        (DENSE, COMPLETE, {}),
        (DENSE, np.ones((3, 3)), {}),
        (dataclasses.replace(chain(3), network=COMPLETE.relabel(targets=["x", "y", "z"])), None, {}),
        (DENSE, "adaptive", {}),
        (DENSE, None, {"method": "ppo"}),
        (chain(3), None, {}),
        (dataclasses.replace(chain(1), network=fx.InfluenceNetwork.complete(1, 1)), None, {}),
        (lambda: gym.make("CartPole-v1"), None, {}),
    ],
    ids=[
        "complete",
        "an array of ones",
        "its own, made complete",
        "adaptive",
        "ppo",
        "sparse",
        "one action",
        "one target",
    ],
)
def test_nobody_is_told_who_chose_it_or_has_no_choice(problem, network, settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fx.FactoredPPO(problem, network, **SMALL, **settings)


class Declares(gym.Env):
    """Two actions, two targets, and a network of its own if it is given one."""

    observation_space = action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    reward_space = gym.spaces.Box(-1, 1, (2,))

    def __init__(self, network=None):
        if network is not None:
            self.network = network


def test_what_was_given_to_wrap_was_chosen_and_what_the_environment_declares_was_not():
    ones = fx.InfluenceNetwork(np.ones((2, 2)))
    assert not Spec.of(fx.wrap(Declares, ones)).problem_defines_network
    with pytest.warns(fx.structure.StructureWarning, match="network: got none"):
        assert not Spec.of(fx.wrap(Declares)).problem_defines_network
    declared = Spec.of(fx.wrap(lambda: Declares(ones)))
    assert declared.problem_defines_network
    with pytest.warns(fx.structure.StructureWarning, match="each of 2 actions to each of 2 targets"):
        warn_if_dense(declared, Config())
    assert not declared.with_network(ones).problem_defines_network


def test_a_run_shorter_than_a_rollout_says_what_will_happen():
    config = Config(n_envs=4, n_steps=8, batch_size=32, n_epochs=3)
    said = r"got 31, less than one rollout of n_envs × n_steps = 4 × 8 = 32 steps. Training makes one rollout"
    with pytest.warns(UserWarning, match=said) as caught:
        warn_if_short(config, 31)
    assert caught[0].filename == __file__
    assert "in 3 passes over it" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for steps in (0, 32, 33, 1000):
            warn_if_short(config, steps)


def found_in_open_loop(edges=((1, 1), (0, 1))):
    network = fx.InfluenceNetwork(edges)
    return Discovery("interventional", "return", *_evidence(network), loop="open", lacks_reactions=True).network()


def _evidence(network):
    edges = network.to_dense()
    return edges * 1.0, np.where(edges, 0.0, 1.0), np.ones(edges.shape)


@pytest.mark.parametrize("change", [lambda net: net, lambda net: net.relabel(["x", "y"])])
def test_a_network_found_in_open_loop_warns_with_local_observations(change):
    with pytest.warns(fx.structure.StructureWarning, match=r"network: .*open loop.*policy=model"):
        fx.FactoredPPO(chain(2), change(found_in_open_loop()), local=lambda obs: obs[..., :2, None], **SMALL)


@pytest.mark.parametrize(
    ("network", "settings"),
    [
        (found_in_open_loop(), {"local": None}),
        (found_in_open_loop(), {"local": lambda obs: obs[..., :2, None], "method": "ppo"}),
        (found_in_open_loop(((1, 1), (1, 1))), {"local": lambda obs: obs[..., :2, None]}),
        (fx.InfluenceNetwork.identity(2), {"local": lambda obs: obs[..., :2, None]}),
    ],
    ids=["no local observations", "ppo", "every edge", "not discovered"],
)
def test_other_networks_do_not_warn_of_reactions(network, settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fx.FactoredPPO(dataclasses.replace(chain(2), local=None), network, **SMALL, **settings)


@pytest.mark.parametrize(
    ("norms", "gain", "settings", "warns"),
    [
        ([50.0] * 30, 0.0, {}, True),
        ([50.0] * 30, 0.0, {"normalize_reward": True}, True),
        ([50.0] * 30, 1.0, {}, False),
        ([50.0] * 29 + [4.0], 0.0, {}, False),
        ([50.0] * 29, 0.0, {}, False),
        ([50.0] * 31, 0.0, {}, False),
        ([50.0] * 30, 0.0, {"max_grad_norm": None}, False),
    ],
)
def test_training_that_stalls_because_every_gradient_is_clipped_warns_once(norms, gain, settings, warns):
    config = Config(**SMALL | settings)
    names = "time/iterations", "train/grad_norm", "rollout/ep_rew_mean"
    history = [dict(zip(names, (i + 1, norm, gain * i), strict=True)) for i, norm in enumerate(norms)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_clipped(config, history)
    assert [str(each.message).partition(":")[0] for each in caught] == ["max_grad_norm"] * warns
    if warns:
        assert ("normalize_reward=True" in str(caught[0].message)) == (not config.normalize_reward)


def test_training_that_cannot_improve_warns_that_gradients_are_clipped():
    def large(key, state, action):
        new = chain(3, horizon=2).step(key, state, action)
        return new._replace(psi=jnp.full(3, -1e4))

    problem = dataclasses.replace(chain(3, horizon=2), step=large)
    with pytest.warns(UserWarning, match="max_grad_norm"):
        fx.FactoredPPO(problem, **SMALL).learn(8 * 30, progress_bar=False)
