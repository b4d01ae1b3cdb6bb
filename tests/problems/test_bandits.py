"""The bandits: targets by hand, networks true to them, and Gymnasium's own checks."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import factorax as fx
from factorax.problems import BanditEnv, draw_centre, relu_bandit, search_bandit, separable_bandit
from factorax.problems.bandits import best_action

BANDITS = {
    "search": search_bandit([1.0, -2.0, 0.5]),
    "search, penalty on two": search_bandit([1.0, -2.0, 0.5], k=2, penalty=0.3),
    "search, strong penalty": search_bandit([1.0, -2.0, 0.5], k=2, penalty=1.2),
    "search, very strong penalty": search_bandit(np.linspace(-5, 4, 8), k=6, penalty=4.0, scale=1.0),
    "search, strong penalty in ℓ₂": search_bandit(np.linspace(-5, 4, 8), k=6, penalty=1.5, norm=2, scale=1.0),
    "search, distance in ℓ₂": search_bandit([1.0, -2.0, 0.5], k=2, penalty=0.3, norm=2),
    # Its slope is at most 1, in one coordinate at a time: the centre stays best.
    "search, own penalty": search_bandit(4, k=4, penalty=1.0, zeta=lambda a: a.max(axis=-1), best=draw_centre(4)),
    "relu": relu_bandit([1, -1, -1, 1]),
    "separable": separable_bandit(lambda a: -((a - 2.0) ** 2), best=[2.0] * 3),
}


@pytest.mark.parametrize("bandit", BANDITS.values(), ids=BANDITS.keys())
def test_the_network_is_exactly_where_targets_move(bandit):
    """∂ψⱼ/∂aᵢ at a hundred random actions: nought at all of them iff there is no edge."""
    actions = np.random.default_rng(0).normal(size=(100, bandit.n)) * 3
    slopes = jax.jit(jax.vmap(jax.jacobian(bandit.targets)))(actions)  # (100, m, n)
    np.testing.assert_array_equal((np.abs(slopes) > 0).any(axis=0).T, bandit.network.to_dense())


@pytest.mark.parametrize("bandit", BANDITS.values(), ids=BANDITS.keys())
def test_numpy_and_jax_agree_and_batches_are_rows(bandit):
    actions = np.random.default_rng(0).normal(size=(2, 3, bandit.n))
    psi = bandit.targets(actions)
    assert psi.shape == (2, 3, bandit.network.shape[1])
    np.testing.assert_allclose(jax.jit(bandit.targets)(actions), psi, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(bandit.targets(actions[1, 2]), psi[1, 2])
    np.testing.assert_allclose(bandit.reward(actions), psi @ bandit.weights)


@pytest.mark.parametrize("bandit", BANDITS.values(), ids=BANDITS.keys())
def test_no_action_beats_the_best(bandit):
    near = bandit.best + np.random.default_rng(0).normal(size=(2000, bandit.n)) * np.logspace(-4, 1, 2000)[:, None]
    assert bandit.gap(near).min() >= -1e-12
    assert bandit.gap(bandit.best) == 0


def test_targets_by_hand():
    bandit = search_bandit([1.0, -2.0, 0.5], k=2, penalty=0.3)
    np.testing.assert_allclose(bandit.targets(np.array([3.0, 4.0, 0.5])), np.array([-2.0, -6.0, 0.0, -5.0]) / 3)
    np.testing.assert_allclose(bandit.reward(np.array([3.0, 4.0, 0.5])), -(8 + 0.3 * 5) / 3)
    assert bandit.network.targets == ("Delta1", "Delta2", "Delta3", "zeta")
    np.testing.assert_allclose(search_bandit([1.0, 2.0], scale=1.0).targets(np.zeros(2)), [-1.0, -2.0])
    together = search_bandit([3.0, -4.0, 12.0], k=1, penalty=2.0, norm=2)
    np.testing.assert_allclose(together.targets(np.array([0.0, 0.0, 12.0])), np.array([-5.0, 0.0]) / 3)
    np.testing.assert_array_equal(together.network.to_dense(), [[1, 1], [1, 0], [1, 0]])
    assert together.network.targets == ("Delta", "zeta")


def test_a_penalty_of_ones_own_needs_its_best_action():
    """With ζ = 10 ‖a‖₂ the centre was taken for the best action, though zero is better: its gap was −3.84."""
    c, steep = np.array([0.9, -0.8, 0.7]), lambda a: 10 * np.linalg.norm(a, axis=-1)
    with pytest.raises(ValueError, match=r"best: got None, want the action that maximises the reward, shape \(3,\)"):
        search_bandit(c, k=3, penalty=1.0, zeta=steep)
    with pytest.raises(ValueError, match=r"best: got .*, and None without"):
        search_bandit(c, k=3, penalty=1.0, best=c)
    wrong, right = (search_bandit(c, k=3, penalty=1.0, zeta=steep, best=best) for best in (c, np.zeros(3)))
    np.testing.assert_allclose(wrong.gap(np.zeros(3)), (2.4 - 10 * np.linalg.norm(c)) / 3)
    np.testing.assert_allclose(wrong.gap(np.zeros(3)), -3.8428, atol=1e-4)
    np.testing.assert_allclose(right.gap(c), 3.8428, atol=1e-4)


def test_centres_are_drawn_from_the_interval_and_by_seed():
    c = draw_centre(10_000)
    assert -5 <= c.min() < -4.9
    assert 4.9 < c.max() <= 5
    assert not np.array_equal(draw_centre(5, seed=1), draw_centre(5, seed=2))


@pytest.mark.filterwarnings("ignore:.*A Box action space m", "ignore:.*For Box action spaces")
@pytest.mark.parametrize("name", ["factorax/SearchBandit-v0", "factorax/ReluBandit-v0"])
def test_gymnasium_checks_pass(name):
    env = gym.make(name, n=6)
    check_env(env.unwrapped, skip_render_check=True)
    observation, _ = env.reset(seed=1)
    assert observation == 0
    _, reward, terminated, truncated, info = env.step(np.full(6, 0.5, dtype=np.float32))
    unwrapped = env.unwrapped
    assert isinstance(unwrapped, BanditEnv)
    np.testing.assert_allclose(reward, unwrapped.weights @ info["vector_reward"], rtol=1e-6)
    assert unwrapped.reward_space.contains(info["vector_reward"])
    assert unwrapped.network.shape == (6, unwrapped.reward_dim)
    assert (terminated, truncated) == (True, False)


def test_stock_vectorisers_carry_the_vector():
    envs = gym.make_vec("factorax/SearchBandit-v0", num_envs=3, vectorization_mode="sync", n=4, k=2, penalty=0.5)
    envs.reset(seed=0)
    *_, info = envs.step(np.zeros((3, 4), dtype=np.float32))
    assert info["vector_reward"].shape == (3, 5)
    envs.close()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="k: got 4, want a number from 0 to n = 3"):
        search_bandit(3, k=4)
    with pytest.raises(ValueError, match=r"penalty: got -1\.0, want a number of at least 0"):
        search_bandit(3, k=1, penalty=-1.0)
    with pytest.raises(ValueError, match="norm: got 3, want 1 or 2"):
        search_bandit(3, norm=3)
    with pytest.raises(ValueError, match=r"centre: got .*, shape \(2, 2\), want"):
        search_bandit(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="signs: got"):
        relu_bandit([0.5, 1.0])
    with pytest.raises(TypeError, match=r"centre: got 2.5, want whole numbers"):
        search_bandit(2.5)
    with pytest.raises(ValueError, match=r"action: got .*, shape \(3,\), want \(4,\)"):
        BanditEnv(search_bandit(4)).step(np.zeros(3))
    assert fx.problems.relu_bandit(3).n == 3


# ---- the best action of a search bandit, in closed form -----------------------------------------------------

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
