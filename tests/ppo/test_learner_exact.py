"""A small decision process, all trajectories of it: the factored gradient is exact, and a wrong K has its bias."""

from functools import partial

import equinox as eqx
import jax
import numpy as np
import pytest

import factorax as fx
from factorax.ppo import Compiled
from ppo.helping import rollout, samples_of
from ppo.two_bits import (
    RETURNS,
    WRONG,
    H,
    ascent,
    bias,
    exact,
    expected_update,
    learner,
    log_probs,
    start,
    trajectories,
)


def test_the_probabilities_add_up_and_the_gradient_is_not_zero():
    share = np.exp(np.asarray(jax.jit(log_probs)(start().agent.policy, trajectories())).sum(axis=(0, 2)))
    np.testing.assert_allclose(share.sum(), 1, rtol=1e-5)
    assert np.abs(exact()).max() > 0.05
    assert np.abs(bias()).max() > 0.05


def test_the_return_network_is_what_it_is_said_to_be():
    """Change one action of one trajectory, and compare which returns move."""
    rollout = trajectories()
    actions, returns = np.asarray(rollout.action), np.asarray(rollout.psi).sum(axis=0)
    moves = np.zeros((2, 2), bool)
    for a in range(64):
        for b in range(64):
            changed = (actions[:, a] != actions[:, b]).any(axis=0)
            if changed.sum() == 1:
                moves[changed.argmax()] |= returns[a] != returns[b]
    np.testing.assert_array_equal(moves, RETURNS.to_dense())


@pytest.mark.parametrize(
    ("net", "settings"),
    [
        (RETURNS, {}),
        (RETURNS, {"critic": "factor"}),
        (RETURNS, {"method": "a2c"}),
        (fx.InfluenceNetwork.complete(2, 2), {}),
        (RETURNS, {"method": "ppo"}),
    ],
    ids=["true", "true, critic of factors", "true, a2c", "complete", "ppo"],
)
def test_the_expected_update_is_the_gradient(net, settings):
    np.testing.assert_allclose(expected_update(net, **settings), exact(), rtol=1e-3, atol=1e-5)


def test_a_missing_edge_has_the_bias_that_is_predicted():
    np.testing.assert_allclose(expected_update(WRONG) - exact(), bias(), rtol=1e-3, atol=1e-5)


def first_update(net):
    """The gradients of all environments of the first rollout, ``(n_envs, parameters)``, and the update's metrics."""
    this, state = learner(net), start()
    _, metrics = Compiled(this).updates(state)

    @eqx.filter_jit
    @partial(jax.vmap, in_axes=(None, 1))
    def by_environment(agent, part):
        samples = samples_of(this.rule, agent, jax.tree.map(lambda x: x[:, None], part))
        return ascent(this, agent, samples)

    each = by_environment(state.agent, rollout(this, state))
    return np.concatenate([np.asarray(x, float).reshape(2048, -1) for x in jax.tree.leaves(each)], axis=1), metrics


def z(each, want):
    """How many standard errors the mean of the environments is from what is wanted; 0 where nothing varies."""
    error = each.std(axis=0, ddof=1) / np.sqrt(len(each))
    off = np.abs(H * each.mean(axis=0) - want)
    assert (off[error < 1e-9] < 1e-6).all()
    return (off / np.where(error < 1e-9, np.inf, H * error)).max()


@pytest.mark.slow
@pytest.mark.parametrize("net", [RETURNS, WRONG], ids=["true", "wrong"])
def test_the_first_update_of_a_learner(net):
    """|z| < 4.5 for some 40 parameters: passed with a chance of 99.97 %, were the seed not fixed."""
    each, metrics = first_update(net)
    np.testing.assert_allclose(metrics["train/grad_norm"][0], np.linalg.norm(each.mean(axis=0)), rtol=1e-3)
    want = exact() if net is RETURNS else exact() + bias()
    assert z(each, want) < 4.5
    if net is WRONG:
        assert z(each, exact()) > 8  # and the bias is seen
