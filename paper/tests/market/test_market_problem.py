"""A step of the market against its probabilities, its accounts and its network."""

import jax
import numpy as np
import pytest
from factorax_paper.market import market
from scipy import stats
from small_settings import SMALL

import factorax as fx
from factorax import FactoredPPO
from factorax.problems import find_problem

TIED = {"risk_aversion": 0.7, "correlation": 0.4}


def states(problem, inventory, count):
    """The same state many times, with these inventories."""
    state, _ = jax.jit(problem.reset)(jax.random.key(0))
    state["inventory"] = np.array(inventory, np.int32)
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (count, *leaf.shape)), state)


def steps(problem, seed, before, quotes):
    """What comes after each of many states."""
    count = len(before["inventory"])
    step = lambda key, before: jax.vmap(problem.step, (0, 0, None))(jax.random.split(key, count), before, quotes)  # noqa: E731
    return jax.jit(step)(jax.random.key(seed), before)


def test_fills_have_the_probabilities_of_at_least_one_arrival():
    """All eight combinations of fills that a full inventory allows, at a confidence of 99.9 %."""
    problem = market(2, intensity=[2.0, 3.0], decay=[1.0, 0.5], largest_inventory=2, step=0.3)
    quotes, count = np.array([0.2, 0.8, -0.3, 1.5]), 40_000
    after = steps(problem, 1, states(problem, [0, 2], count), quotes)
    rate = np.array([2.0, 2.0, 3.0, 3.0]) * np.exp(-np.array([1.0, 1.0, 0.5, 0.5]) * quotes)
    p = 1 - np.exp(-0.3 * rate)
    p[2] = 0.0  # the bid of an asset with all that it may have
    moved = np.asarray(after.state["inventory"]) - [0, 2]
    first = {-1: p[1] * (1 - p[0]), 0: p[0] * p[1] + (1 - p[0]) * (1 - p[1]), 1: p[0] * (1 - p[1])}
    second = {-1: p[3], 0: 1 - p[3]}
    expected = np.array([first[i] * second[j] for i in first for j in second])
    observed = np.array([((moved == (i, j)).all(axis=1)).sum() for i in first for j in second])
    assert observed.sum() == count
    assert stats.chisquare(observed, expected * count).pvalue > 0.001


def test_prices_have_the_covariance_of_a_step():
    problem = market(2, covariance=[[0.5, 0.2], [0.2, 0.3]], step=0.4)
    after = steps(problem, 2, states(problem, [0, 0], 40_000), np.ones(4))
    change = np.asarray(after.state["price"])
    # The standard error of a covariance is at most 0.5 · 0.4 · √(2/count) = 0.0015.
    np.testing.assert_allclose(np.cov(change.T), 0.4 * np.array([[0.5, 0.2], [0.2, 0.3]]), atol=0.006)


@pytest.mark.parametrize("settings", [{}, TIED], ids=["apart", "tied"])
def test_targets_add_up_to_the_change_of_wealth_less_penalties(settings):
    problem = market(3, horizon=40, intensity=3.0, largest_inventory=2, **settings)
    step, model = jax.jit(problem.step), problem.model
    state, _ = jax.jit(problem.reset)(jax.random.key(0))
    wealth = lambda s: np.asarray(s["cash"], float) + np.asarray(s["inventory"]) * np.asarray(s["price"])  # noqa: E731
    rng, reached = np.random.default_rng(0), set()
    for t in range(40):
        new = step(jax.random.key(t), state, rng.uniform(-1, 1, 6).astype(np.float32))
        psi, q = np.asarray(new.psi, float), np.asarray(new.state["inventory"])
        np.testing.assert_allclose(psi[:3], wealth(new.state) - wealth(state), atol=1e-5)
        per_unit = 0.1 * 0.2 + (0.2 if t == 39 else 0.0)
        np.testing.assert_allclose(psi[3:6], -per_unit * q**2, rtol=1e-6)
        if settings:
            np.testing.assert_allclose(psi[6], -0.5 * 0.7 * 0.2 * q @ model.covariance @ q, rtol=1e-5)
        assert bool(new.terminated) == (t == 39)
        assert not new.truncated
        assert problem.observation_space.contains(np.asarray(new.obs))
        reached |= set(q.tolist())
        state = new.state
    assert reached == {-2, -1, 0, 1, 2}


def test_the_network_is_read_off_and_closed_over_the_dynamics():
    """Quotes move inventories, which only their own targets and the portfolio read."""
    for settings in ({}, {"risk_aversion": 1.0}):
        problem = market(3, **settings)
        names = [(side, i) for i in range(1, 4) for side in ("bid", "ask")]
        now = [(f"{side} {i}", f"{kind} {i}") for side, i in names for kind in ("profit", "penalty")]
        now += [(f"{side} {i}", "portfolio") for side, i in names if settings]
        assert sorted(problem.network.edges()) == sorted(now)
        dynamics = [(f"{side} {i}", f"inventory {i}") for side, i in names]
        dynamics += [(f"inventory {i}", f"inventory {i}") for i in range(1, 4)]
        dynamics += [(f"inventory {i}", target) for i in range(1, 4) for target in (f"profit {i}", f"penalty {i}")]
        dynamics += [(f"inventory {i}", "portfolio") for i in range(1, 4) if settings]
        assert fx.close_over(problem.network, dynamics) == problem.network
        # Quotes that look at the exposure (Σq)ᵢ react to all inventories.
        exposed = [(f"inventory {j}", f"{side} {i}") for side, i in names for j in range(1, 4)]
        assert fx.close_over(problem.network, [*dynamics, *exposed]).density == 1


def test_the_minimum_factorisation_groups_bid_and_ask():
    for settings in ({}, TIED):
        problem = market(3, **settings)
        factorisation = problem.network.minimum_factorisation()
        assert factorisation.groups == ((0, 1), (2, 3), (4, 5))
        assert problem.influence("minimum").factorisation.groups == factorisation.groups
        assert problem.influence("minimum").shape == (3, 6 + bool(settings))
        assert problem.influence("joint").factorisation.groups == (tuple(range(6)),)
        assert problem.influence("singletons") == problem.network
    one = market(1)
    assert one.influence("minimum").factorisation.groups == one.influence("joint").factorisation.groups


@pytest.mark.parametrize("settings", [{}, TIED], ids=["apart", "tied"])
def test_bids_and_asks_see_mirrored_inventories(settings):
    problem = market(2, **settings)
    fx.check_problem(problem, steps=10)
    obs = np.float32([[0.3, 0.4, -0.2], [0.3, -0.4, 0.2]])
    local = np.asarray(jax.jit(problem.local)(obs))
    assert local.shape == (2, 4, 3 if settings else 2)
    np.testing.assert_allclose(local[0, 0::2], local[1, 1::2])  # a bid sees what an ask does with the opposite
    np.testing.assert_allclose(local[0, :, 1], [0.4, -0.4, -0.2, 0.2], rtol=1e-6)
    if settings:
        exposure = problem.model.covariance @ [0.4, -0.2] / np.linalg.norm(problem.model.covariance, axis=1)
        np.testing.assert_allclose(local[0, 0::2, 2], exposure, rtol=1e-5)


def test_a_market_has_a_name():
    problem = find_problem("market:4,risk_aversion=0.5,correlation=0.3,horizon=20")
    assert (problem.network.shape, problem.model.horizon) == ((8, 9), 20)
    for name, message in (
        ("market:0", "want a size of at least 1"),
        ("market:2,intensity=-1", "intensity: got -1, want numbers above 0"),
        ("market:2,intensty=1", "did you mean intensity"),
        ("market:2049", "at most 2,048 actions"),
    ):
        with pytest.raises(ValueError, match=message):
            find_problem(name)


@pytest.mark.slow
def test_groups_are_trained_with_a_covariance_of_their_own():
    problem = market(2, horizon=6)
    model = FactoredPPO(
        problem, problem.influence("minimum"), **SMALL, policy="shared", critic="factor", distribution="scale,std=full"
    )
    model.learn(24, progress_bar=False)
    mixing = np.asarray(model.state.agent.policy.spread.mixing)
    assert mixing.shape == (2, 2, 2)
    assert (mixing[:, 1, 0] != 0).all()  # learnt, from 0
    assert np.isfinite(mixing).all()
