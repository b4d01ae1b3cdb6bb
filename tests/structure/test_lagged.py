"""Networks by lag, and their gradient by exact enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.ppo.credits import Estimates
from factorax.structure import LaggedNetwork

LINE = [("a1", "x1"), ("x1", "x2"), ("x2", "x3"), ("x1", "psi1"), ("x2", "psi2"), ("x3", "psi3")]


def test_a_hop_takes_a_step_and_what_reads_takes_none():
    network = LaggedNetwork.over(fx.InfluenceNetwork.identity(3), [*LINE, ("a2", "x2")])
    np.testing.assert_array_equal(network.lags, [[0, 2, 3], [-1, 0, 2], [-1, -1, 0]])


@pytest.mark.parametrize("local", [True, False])
def test_the_edges_of_all_lags_are_those_of_the_closure(local):
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, m, states = rng.integers(1, 6, 3)
        edges = rng.random((n, m)) < 0.3
        edges[:, 0] |= ~edges.any(axis=1)
        edges[0] |= ~edges.any(axis=0)
        net = fx.InfluenceNetwork(edges)
        names = [*net.actions, *[f"x{k}" for k in range(states)], *net.targets]
        pairs = [(u, v) for u in names[: n + states] for v in names[n:] if u != v and rng.random() < 0.2]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("factorax.structure.closure.warn", lambda *_: None)
            closed = fx.close_over(net, pairs, local_actors=local)
            assert LaggedNetwork.over(net, pairs, local_actors=local).returns_network == closed


def test_hops_along_targets_take_a_step_each():
    shifts = np.eye(4, k=1)
    network = LaggedNetwork.over(fx.InfluenceNetwork.identity(4), shifts)
    np.testing.assert_array_equal(network.lags, [[0, 1, 2, 3], [-1, 0, 1, 2], [-1, -1, 0, 1], [-1, -1, -1, 0]])
    assert (network.at(0).n_edges, network.at(1).n_edges, network.at(9).n_edges) == (4, 7, 10)


@pytest.mark.parametrize(
    ("lags", "says"),
    [([[0.5]], "whole numbers"), ([[-2]], "whole numbers"), ([[-1]], "no edge"), ([0, 1], "whole numbers")],
)
def test_bad_lags_are_refused(lags, says):
    with pytest.raises(ValueError, match=says):
        LaggedNetwork.from_lags(lags)


def test_an_edge_begins_once():
    one = fx.InfluenceNetwork.identity(2)
    with pytest.raises(ValueError, match="a1 → psi1"):
        LaggedNetwork({0: one, 3: one})
    with pytest.raises(ValueError, match="different actions"):
        LaggedNetwork({0: one, 3: fx.InfluenceNetwork.identity(3)})
    with pytest.raises(ValueError, match="parts: got -1, want a whole number from 0 to 2,147,483,647"):
        LaggedNetwork({-1: one})


T, GAMMA = 3, 0.9
LAGGED = LaggedNetwork.from_lags([[0, 2], [-1, 0]])
"""a1 pays at once, and multiplies what a2 pays two steps later."""


def worlds():
    """All action sequences ``(64, T, 2)`` and their rewards ``(64, T, 2)``."""
    actions = np.array(list(itertools.product([0, 1], repeat=2 * T)), float).reshape(-1, T, 2)
    first, second = actions[..., 0], actions[..., 1]
    before = np.concatenate([np.zeros((len(actions), 2)), first[:, :-2]], axis=1)
    return actions, np.stack([1 + 2 * first, (3 - second) * (1 + before)], axis=-1)


def chances(theta, actions):
    """Of every sequence: actions are independent Bernoullis."""
    p = jax.nn.sigmoid(theta)
    return jnp.prod(jnp.where(actions > 0.5, p, 1 - p), axis=(1, 2))


def objective(theta):
    actions, rewards = worlds()
    discounts = GAMMA ** np.arange(T)
    return (chances(theta, actions) * (discounts[:, None] * rewards).sum(axis=(1, 2))).sum()


def returns_of(rewards):
    total = np.zeros_like(rewards)
    for t in reversed(range(T)):
        total[:, t] = rewards[:, t] + (GAMMA * total[:, t + 1] if t + 1 < T else 0)
    return total


def gradients(theta, credit):
    """The estimate of every sequence, Σ_t γ^t z_i(t) k_i(t), ``(64, 2)``, and the chances."""
    actions, _ = worlds()
    score = actions - np.asarray(jax.nn.sigmoid(theta))
    return ((GAMMA ** np.arange(T))[:, None] * score * credit).sum(axis=1), np.asarray(chances(theta, actions))


def mean_and_variance(theta, credit):
    each, p = gradients(theta, credit)
    mean = p @ each
    return mean, p @ (each - mean) ** 2


THETA = jnp.array([0.3, -0.5])


def credit_of(network, returns, next_values, *, terminated, ended, gamma):
    """The credit of every factor without a critic, time first."""
    estimates = Estimates(
        advantage=returns,
        value=jnp.zeros_like(returns),
        returns=returns,
        next_value=next_values,
        terminated=terminated,
        ended=ended,
        gamma=gamma,
    )
    return jax.jit(lambda e: network.credit_rollout(network, e, lambda k, x: fx.credit(k, x)).credit)(estimates)


def by_lag(rewards):
    """The credit of every sequence, ``(64, T, 2)``."""
    ended = jnp.zeros((T, len(rewards), 1), bool).at[-1].set(True)
    returns = jnp.asarray(returns_of(rewards)).swapaxes(0, 1)
    ends = {"terminated": ended, "ended": ended}
    credit = credit_of(LAGGED, returns, jnp.zeros_like(returns), **ends, gamma=GAMMA)
    return np.asarray(credit).swapaxes(0, 1)


@pytest.mark.slow
def test_by_lag_the_gradient_is_the_true_one_and_has_less_noise():
    rewards = worlds()[1]
    mean, variance = mean_and_variance(THETA, by_lag(rewards))
    closed, noise = mean_and_variance(THETA, fx.credit(LAGGED.returns_network, returns_of(rewards)))
    want = np.asarray(jax.grad(objective)(THETA))
    np.testing.assert_allclose(mean, want, atol=1e-5)
    np.testing.assert_allclose(closed, want, atol=1e-5)
    assert variance[0] < 0.5 * noise[0]
    assert variance[1] == pytest.approx(noise[1], rel=1e-5)  # whose edges have no lag


@pytest.mark.slow
def test_td_errors_by_lag_would_lose_what_an_exact_critic_knows():
    """Σ_τ γ^τ K[τ] δ(t+τ), with exact values: the change of v before the lag is dropped, and with it the signal."""
    actions, rewards = worlds()
    returns, p = returns_of(rewards), np.asarray(chances(THETA, actions))
    value = np.zeros((len(actions), T + 1, 2))
    for t in range(T):  # given the history, which is a state
        history = actions[:, :t].reshape(len(actions), -1)
        for k in range(len(actions)):
            same = (history == history[k]).all(axis=1)
            value[k, t] = p[same] @ returns[same, t] / p[same].sum()
    delta = rewards + GAMMA * value[:, 1:] - value[:, :-1]
    credit = np.zeros((len(actions), T, 2))
    for t, tau in itertools.product(range(T), range(T)):
        if t + tau < T:
            credit[:, t] += GAMMA**tau * fx.credit(LAGGED.at(tau), delta[:, t + tau])
    wrong, _ = mean_and_variance(THETA, credit)
    want = np.asarray(jax.grad(objective)(THETA))
    assert abs(wrong[0] - want[0]) > 0.2 * abs(want[0])
    baseline = np.stack([p @ by_lag(rewards)[:, t] for t in range(T)])  # a value of every factor
    right, _ = mean_and_variance(THETA, by_lag(rewards) - baseline)
    np.testing.assert_allclose(right, want, atol=1e-5)


def test_beyond_an_end_the_value_there_stands_for_what_would_come():
    """Truncated after the second step: what a1 does then has the last observation's value alone."""
    ended = jnp.array([[False], [True], [False]])
    options = {"terminated": jnp.zeros((3, 1), bool), "ended": ended, "gamma": 0.5}
    network = LaggedNetwork.from_lags([[2]])
    credit = credit_of(network, jnp.array([[1.0], [2.0], [3.0]]), jnp.array([[10.0], [20.0], [30.0]]), **options)
    np.testing.assert_allclose(credit, [[0.5 * 0.5 * 20], [0.5 * 20], [0.5 * 30]])
    options |= {"terminated": ended}
    credit = credit_of(network, jnp.ones((3, 1)), jnp.full((3, 1), 7.0), **options)
    np.testing.assert_allclose(credit, [[0], [0], [0.5 * 7]])


def test_each_target_counts_from_the_step_on_that_an_action_can_reach():
    rewards = jnp.array([[1.0, 10.0], [1.0, 20.0], [1.0, 40.0]])
    ended = jnp.array([[False], [False], [True]])
    returns = jnp.cumsum(rewards[::-1], axis=0)[::-1]
    options = {"terminated": ended, "ended": ended, "gamma": 1.0}
    credit = credit_of(LaggedNetwork.from_lags([[0, 2]]), returns, jnp.zeros((3, 2)), **options)
    np.testing.assert_array_equal(credit, [[43], [2], [1]])
