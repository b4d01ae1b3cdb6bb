"""Generalised advantage estimation: against its definition, closed forms, and every way an episode can end."""

import jax
import numpy as np
import pytest

from factorax.ppo import gae

GAMMA, LAMBDA = 0.9, 0.8


def draw(T=12, B=3, m=2, seed=0):
    """Random rewards and values; each observation is followed by the next but at the ends of episodes."""
    rng = np.random.default_rng(seed)
    terminated, truncated = rng.random((2, T, B, 1)) < 0.2
    psi, values, next_values = rng.normal(size=(3, T, B, m))
    ended = terminated | truncated
    next_values[:-1] = np.where(ended[:-1], next_values[:-1], values[1:])
    return psi, values, next_values, terminated, ended


def by_definition(psi, values, next_values, terminated, ended, gamma, trace):
    """A_t = Σ_k (γλ)^k δ_{t+k}, up to the end of the episode or of the target: two loops."""
    T = len(psi)
    terminated, ended = np.broadcast_to(terminated, psi.shape), np.broadcast_to(ended, psi.shape)
    delta = psi + gamma * ~terminated * next_values - values
    out = np.zeros_like(psi)
    for index in np.ndindex(psi.shape):
        t, where = index[0], index[1:]
        for k in range(t, T):
            out[index] += (gamma * trace) ** (k - t) * delta[(k, *where)]
            if (terminated | ended)[(k, *where)]:
                break
    return out


compiled = jax.jit(gae)


def call(psi, values, next_values, terminated, ended, gamma=GAMMA, trace=LAMBDA):
    ends = {"terminated": terminated, "ended": ended}
    advantages, returns = compiled(psi, values, next_values, **ends, gamma=gamma, trace=trace)
    return np.asarray(advantages), np.asarray(returns)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("gamma", "trace"), [(0.9, 0.8), (1.0, 1.0), (0.99, 0.0), (0.0, 0.5)])
def test_it_is_its_definition(gamma, trace, seed):
    sample = draw(seed=seed)
    advantages, returns = call(*sample, gamma, trace)
    np.testing.assert_allclose(advantages, by_definition(*sample, gamma, trace), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(returns, advantages + sample[1], rtol=1e-5, atol=1e-6)


def test_constant_rewards_and_values():
    """δ = r + γv − v at every step, so A_t = δ (1 − (γλ)^(T−t)) / (1 − γλ)."""
    T, r, v = 7, 2.0, 3.0
    flat, no = np.ones((T, 1)), np.zeros((T, 1), bool)
    advantages, _ = call(r * flat, v * flat, v * flat, no, no)
    delta, decay = r + GAMMA * v - v, GAMMA * LAMBDA
    want = delta * (1 - decay ** np.arange(T, 0, -1)) / (1 - decay)
    np.testing.assert_allclose(advantages[:, 0], want, rtol=1e-6)
    fixed = r / (1 - GAMMA)  # the true value of a constant reward: nothing is better than expected
    advantages, returns = call(r * flat, fixed * flat, fixed * flat, no, no)
    np.testing.assert_allclose(advantages, 0, atol=1e-5)
    np.testing.assert_allclose(returns, fixed, rtol=1e-6)


def test_a_trace_of_one_gives_the_monte_carlo_returns():
    psi, values, next_values, terminated, ended = draw()
    _, returns = call(psi, values, next_values, terminated, ended, GAMMA, 1.0)
    want, after = np.empty_like(psi), next_values[-1]
    for t in reversed(range(len(psi))):
        after = np.where(ended[t], next_values[t], after)
        after = want[t] = psi[t] + GAMMA * np.where(terminated[t], 0, after)
    np.testing.assert_allclose(returns, want, rtol=1e-4, atol=1e-5)


def test_a_trace_of_nought_gives_one_step_of_temporal_difference():
    psi, values, next_values, terminated, ended = draw()
    advantages, _ = call(psi, values, next_values, terminated, ended, GAMMA, 0.0)
    np.testing.assert_allclose(advantages, psi + GAMMA * ~terminated * next_values - values, rtol=1e-5, atol=1e-6)


def ending(*, terminated):
    """Two steps, the first of which ends an episode; the last observation of that is worth 10."""
    psi, values = np.array([[1.0], [5.0]]), np.array([[2.0], [4.0]])
    next_values = np.array([[10.0], [20.0]])
    ended = np.array([[True], [False]])
    return psi, values, next_values, ended & terminated, ended


def test_termination_cuts_the_bootstrap_and_truncation_keeps_it():
    np.testing.assert_allclose(call(*ending(terminated=True))[0][0], 1 - 2)
    np.testing.assert_allclose(call(*ending(terminated=False))[0][0], 1 + GAMMA * 10 - 2)


@pytest.mark.parametrize("terminated", [True, False])
def test_nothing_leaks_from_the_next_episode(terminated):
    sample = ending(terminated=terminated)
    other = [x.copy() for x in sample]
    for x in other[:3]:
        x[1] = 1e6  # another episode, in the same environment
    np.testing.assert_array_equal(call(*other)[0][0], call(*sample)[0][0])


def test_a_target_ends_while_its_episode_goes_on():
    psi, values, next_values, _, _ = draw(T=6, B=1)
    no = np.zeros((6, 1, 1), bool)
    stops = np.zeros((6, 1, 2), bool)
    stops[2, :, 1] = True
    got, _ = call(psi, values, next_values, stops, no)
    free, _ = call(psi, values, next_values, no, no)
    np.testing.assert_array_equal(got[..., 0], free[..., 0])
    np.testing.assert_array_equal(got[3:, :, 1], free[3:, :, 1])
    cut = no.copy()
    cut[2] = True
    np.testing.assert_allclose(got[:3, :, 1], call(psi, values, next_values, cut, cut)[0][:3, :, 1], rtol=1e-6)


def test_targets_and_environments_are_apart():
    psi, values, next_values, terminated, ended = draw()
    whole, _ = call(psi, values, next_values, terminated, ended)
    for b in range(3):
        for j in range(2):
            one = [x[:, b, j : j + 1] for x in (psi, values, next_values)]
            got, _ = call(*one, terminated[:, b], ended[:, b])
            np.testing.assert_allclose(got[:, 0], whole[:, b, j], rtol=1e-5, atol=1e-6)


def test_it_is_linear_in_rewards_and_values():
    """Why per-target advantages give per-factor ones: K(λ∘A) is the estimate of [K(λ∘r)] (maths.md, 8)."""
    psi, values, next_values, terminated, ended = draw(m=3)
    K = np.array([[1.0, 0.5, -2.0], [0.0, 1.0, 1.0]])
    mixed = [x @ K.T for x in (psi, values, next_values)]
    got, _ = call(*mixed, terminated, ended)
    want, _ = call(psi, values, next_values, terminated, ended)
    np.testing.assert_allclose(got, want @ K.T, rtol=1e-4, atol=1e-5)


def test_shapes_that_do_not_fit_are_refused():
    psi, values, next_values, terminated, ended = draw()
    with pytest.raises(ValueError, match=r"next_values: got shapes \(12, 3, 2\), \(12, 3, 1\) and .*, want the"):
        call(psi, values[..., :1], next_values, terminated, ended)
    with pytest.raises(ValueError, match="values, next_values"):
        call(psi, values, next_values[1:], terminated, ended)
