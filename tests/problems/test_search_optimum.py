"""The best action of a search bandit: by hand, against a numerical optimiser, and against every other action."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from factorax.problems import search_bandit
from factorax.problems.bandits import best_action

PENALTIES = (0.0, 0.3, 1.0, 1.01, 1.3, np.sqrt(2), 1.9, np.sqrt(5), 3.0, 10.0)


def cost(action, c, k, penalty, norm):
    return np.linalg.norm(action - c, norm) + penalty * np.linalg.norm(action[:k])


def instances():
    rng = np.random.default_rng(0)
    for penalty in PENALTIES:
        for n, k in ((1, 1), (2, 1), (3, 3), (5, 5), (6, 4), (12, 9)):
            c = rng.uniform(-5, 5, n)
            c[rng.uniform(size=n) < 0.15] = 0.0  # zeros, and ties
            yield c, k, penalty
            yield np.round(c), k, penalty


def minimised(c, k, penalty, norm):
    """The least cost that two derivative-free optimisers find from several starts; the cost is convex, with kinks."""
    n = len(c)
    best = min(cost(start, c, k, penalty, norm) for start in (c, np.zeros(n), np.append(np.zeros(k), c[k:])))
    for start in (c * 0.5, c * 0.9, np.append(np.zeros(k), c[k:]) + 0.1):
        for method in ("Powell", "Nelder-Mead"):
            options = {"xatol": 1e-9, "fatol": 1e-11, "maxiter": 20_000} if method == "Nelder-Mead" else {"xtol": 1e-10}
            found = optimize.minimize(cost, start, (c, k, penalty, norm), method=method, options=options)
            best = min(best, found.fun)
    return best


@pytest.mark.slow
@pytest.mark.parametrize("norm", [1, 2])
def test_no_optimiser_beats_the_closed_form(norm):
    """On 100 random instances, with zeros and ties among them; the optimiser comes within 1e-3 on nine of ten."""
    reached = []
    for c, k, penalty in instances():
        if len(c) > 6:
            continue
        ours = cost(best_action(c, k=k, penalty=penalty, norm=norm), c, k, penalty, norm)
        theirs = minimised(c, k, penalty, norm)
        assert ours <= theirs + 1e-9
        reached.append(theirs - ours < 1e-3)
    assert np.mean(reached) > 0.9  # or the optimiser has nothing to say


@pytest.mark.parametrize("norm", [1, 2])
def test_the_optimality_condition_holds(norm):
    """0 is a subgradient of the convex cost: the least slope in 500 random directions and along ±eᵢ is not negative."""
    rng = np.random.default_rng(1)
    for c, k, penalty in instances():
        a = best_action(c, k=k, penalty=penalty, norm=norm)
        n, here, h = len(c), cost(a, c, k, penalty, norm), 1e-6
        directions = np.concatenate([np.eye(n), -np.eye(n), c - a + 0 * np.eye(n), a - c + 0 * np.eye(n)])
        random = rng.normal(size=(100, n))
        for d in np.concatenate([directions, random, random * (rng.uniform(size=n) < 0.5)]):
            assert cost(a + h * d, c, k, penalty, norm) >= here - 1e-12


def test_by_hand():
    """|c| = (3, 4): with λ² = 1.69 one action is clipped, 9 + t² = 1.69 t²; from λ² = 2 both are zero."""
    c = np.array([3.0, -4.0, 5.0])
    t = np.sqrt(9 / 0.69)
    np.testing.assert_allclose(best_action(c, k=2, penalty=1.3), [3.0, -t, 5.0])
    np.testing.assert_array_equal(best_action(c, k=2, penalty=1.5), [0.0, 0.0, 5.0])
    np.testing.assert_array_equal(best_action(c, k=2, penalty=1.0), c)
    np.testing.assert_array_equal(best_action(c, k=0, penalty=9.0), c)
    np.testing.assert_array_equal(best_action(c, k=2, penalty=1.1, norm=2), [0.0, 0.0, 5.0])


@pytest.mark.slow
def test_it_can_be_traced():
    traced = jax.jit(lambda c, k, penalty: best_action(c, k=k, penalty=penalty), static_argnums=(1, 2))
    for c, k, penalty in instances():
        got = traced(jnp.asarray(c, jnp.float32), k, penalty)
        want = best_action(c.astype(np.float32).astype(np.float64), k=k, penalty=penalty)
        ours, theirs = (cost(np.asarray(a, np.float64), c, k, penalty, 1) for a in (got, want))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("penalty", [0.5, 1.5, 4.0])
def test_a_bandit_knows_its_best_action_under_a_strong_penalty(penalty, norm):
    bandit = search_bandit(np.random.default_rng(2).uniform(-5, 5, 8), k=6, penalty=penalty, norm=norm, scale=1.0)
    spread = np.logspace(-4, 1, 2000)[:, None]
    near = bandit.best + np.random.default_rng(0).normal(size=(2000, 8)) * spread
    assert bandit.gap(near).min() >= -1e-12
    assert bandit.gap(bandit.best) == 0
    assert bandit.gap(np.zeros(8)) >= 0
