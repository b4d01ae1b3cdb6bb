"""Networks that vary, in learning: by exact enumeration, and against the static ones they generalise."""

import itertools
import json
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.learning import AdaptiveNetwork, Config, FactoredPPO, Learner, adaptive, runs, validity
from factorax.learning.lagged import lagged_credit
from factorax.problems import Problem, chain, contextual_bandit
from factorax.structure import LaggedNetwork, StateNetwork, StructureWarning

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


def by_lag(rewards):
    ended = jnp.zeros((T, len(rewards), 1), bool).at[-1].set(True)
    found = lagged_credit(
        LAGGED,
        jnp.asarray(returns_of(rewards)).swapaxes(0, 1),
        jnp.zeros((T, len(rewards), 2)),
        terminated=ended,
        ended=ended,
        discount=GAMMA,
    )
    return np.asarray(found).swapaxes(0, 1)


def test_by_lag_the_gradient_is_the_true_one_and_has_less_noise():
    rewards = worlds()[1]
    mean, variance = mean_and_variance(THETA, by_lag(rewards))
    closed, noise = mean_and_variance(THETA, fx.credit(LAGGED.start, returns_of(rewards)))
    want = np.asarray(jax.grad(objective)(THETA))
    np.testing.assert_allclose(mean, want, atol=1e-5)
    np.testing.assert_allclose(closed, want, atol=1e-5)
    assert variance[0] < 0.5 * noise[0]
    assert variance[1] == pytest.approx(noise[1], rel=1e-5)  # whose edges have no lag


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
    own = np.stack([p @ by_lag(rewards)[:, t] for t in range(T)])  # a value of every factor as baseline
    right, _ = mean_and_variance(THETA, by_lag(rewards) - own)
    np.testing.assert_allclose(right, want, atol=1e-5)


def test_beyond_an_end_the_value_there_stands_for_what_would_come():
    """Truncated after the second step: what a1 does then has the last observation's value alone."""
    ended = jnp.array([[False], [True], [False]])
    kwargs = {"terminated": jnp.zeros((3, 1), bool), "ended": ended, "discount": 0.5}
    found = lagged_credit(
        LaggedNetwork.from_lags([[2]]), jnp.array([[1.0], [2.0], [3.0]]), jnp.array([[10.0], [20.0], [30.0]]), **kwargs
    )
    np.testing.assert_allclose(found, [[0.5 * 0.5 * 20], [0.5 * 20], [0.5 * 30]])
    over = kwargs | {"terminated": ended}
    found = lagged_credit(LaggedNetwork.from_lags([[2]]), jnp.ones((3, 1)), jnp.full((3, 1), 7.0), **over)
    np.testing.assert_allclose(found, [[0], [0], [0.5 * 7]])


PLAIN = {"n_envs": 4, "n_steps": 20, "batch_size": 40, "n_epochs": 2, "hidden": (8,), "check_network": False}


def after_an_update(problem, network, **settings):
    learner = Learner.of(problem, network, Config(**(PLAIN | settings)))
    state, metrics = eqx.filter_jit(learner.update)(learner.init(0))
    return jax.tree.leaves(state.agent.policy), metrics


def all_close(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_without_lags_it_is_the_static_network():
    problem = chain(3)
    settings = {"critic": "none", "objective": "a2c", "gae_lambda": 1.0, "batch_size": 80}
    one, _ = after_an_update(problem, problem.network, **settings)
    other, _ = after_an_update(problem, LaggedNetwork({0: problem.network}), **settings)
    all_close(one, other)


def test_a_state_network_that_is_always_the_same_is_the_static_one():
    problem = chain(3)
    dense = jnp.asarray(problem.network.to_dense(), jnp.float32)
    always = StateNetwork(lambda obs, info: jnp.broadcast_to(dense, (*obs.shape[:-1], 3, 3)), problem.network)
    one, metrics = after_an_update(problem, problem.network, variance_report=True)
    other, same = after_an_update(problem, always, variance_report=True)
    all_close(one, other)
    assert float(metrics["variance/ratio"]) == pytest.approx(float(same["variance/ratio"]), rel=1e-3)


def test_given_the_state_absent_edges_have_no_bias_and_given_the_action_they_have():
    """Two switches; the second is dead in one of two states. ψ1 = a1 + s a2, ψ2 = a2 s, exactly enumerated."""
    theta = np.array([0.4, -0.3])
    p = 1 / (1 + np.exp(-theta))
    found = {"state": np.zeros(2), "action": np.zeros(2)}
    true = np.zeros(2)
    for s, a1, a2 in itertools.product([0, 1], repeat=3):
        a = np.array([a1, a2])
        chance = 0.5 * np.prod(np.where(a == 1, p, 1 - p))
        psi = np.array([a1 + s * a2, 2.0 + s * a2])
        score = a - p
        true += chance * score * psi.sum()
        weights = {"state": [[1, 0], [s, s]], "action": [[1, 0], [a2, a2]]}
        for name, k in weights.items():
            found[name] += chance * score * fx.credit(fx.structure.KArray(np.array(k, float)), psi)
    np.testing.assert_allclose(found["state"], true, atol=1e-12)
    assert abs(found["action"][1] - true[1]) > 0.1


def test_a_factor_mask_reaches_the_function():
    problem = contextual_bandit(3)

    def step(key, state, action):
        return problem.step(key, state, action)._replace(factor_mask=state > 0)

    masked = Problem("masked", problem.reset, step, problem.observation_space, problem.action_space, problem.network,
                     problem.weights)  # fmt: skip
    seen = []

    def function(obs, info):
        seen.append(info["factor_mask"].shape)
        return info["factor_mask"][..., None] * jnp.eye(3)

    after_an_update(masked, StateNetwork(function, problem.network))
    assert seen[0] == (20, 4, 3)


@pytest.mark.parametrize("network", [LAGGED, StateNetwork(lambda o, i: o, LAGGED.start)])
def test_a_critic_of_factors_is_refused(network):
    with pytest.raises(ValueError, match="critic='target'"):
        Learner.of(chain(2), network, Config(critic="factor", n_envs=4, n_steps=20, batch_size=40))


def test_anything_else_is_no_network():
    with pytest.raises(TypeError, match="StateNetwork"):
        Learner.of(chain(2), np.eye(2))


# ---- adaptive -------------------------------------------------------------------------------------------


def test_gradients_of_pairs_and_their_noise_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    n_envs, steps, c, h, m = 5, 7, 3, 2, 4
    outer, inner = rng.normal(size=(steps * n_envs, c, 1)), rng.normal(size=(steps * n_envs, c, h))
    psi = rng.normal(size=(steps * n_envs, m))
    mean, noise = adaptive.pair_gradients(
        adaptive.Scores(jnp.asarray(outer), jnp.asarray(inner)), jnp.asarray(psi), n_envs
    )
    z = outer * np.concatenate([inner, np.ones((steps * n_envs, c, 1))], axis=-1)
    centred = psi - psi.mean(axis=0)
    each = np.einsum("tbcp,tbj->bcpj", z.reshape(steps, n_envs, c, -1), centred.reshape(steps, n_envs, m)) / steps
    np.testing.assert_allclose(mean, each.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(noise, each.var(axis=0, ddof=1).sum(axis=1) / n_envs, rtol=1e-3)


def some_of(matrix):
    """A network that leaves targets out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StructureWarning)
        return fx.InfluenceNetwork(matrix)


def fed(rule, gradient, noise, rollouts):
    """Evidence after so many rollouts with the same gradient (1, 1, m) and noise (1, m)."""
    evidence = rule.init(1)
    for _ in range(rollouts):
        evidence = adaptive.seen(rule, evidence, jnp.asarray(gradient), jnp.asarray(noise))
    return np.asarray(evidence.weights)[0]


def test_edges_that_pay_stay_and_come_and_those_that_do_not_go():
    start = some_of([[1, 1, 0, 0]])
    strong, weak = 3.0, 0.01
    gradient, noise = [[[strong, weak, strong, weak]]], [[1.0] * 4]
    rule = AdaptiveNetwork(start, every=5, window=10)
    np.testing.assert_array_equal(fed(rule, gradient, noise, 4), [1, 1, 0, 0])  # not yet
    np.testing.assert_array_equal(fed(rule, gradient, noise, 5), [1, 0, 1, 0])


def test_between_the_margins_an_edge_stays_as_it_is():
    noise = [[1.0, 1.0]]
    rule = AdaptiveNetwork(some_of([[1, 0]]), every=1, window=1, margin=0.5)
    for squared in (1.8, 2.4):  # bias² = |g|² − noise: 0.8 and 1.4 times the noise
        np.testing.assert_array_equal(fed(rule, [[[squared**0.5] * 2]], noise, 1), [1, 0])
    np.testing.assert_array_equal(fed(rule, [[[1.5**0.5, 2.6**0.5]]], noise, 1), [0, 1])


def test_a_row_without_any_edge_that_pays_keeps_those_it_began_with():
    rule = AdaptiveNetwork(some_of([[1, 1, 0]]), every=1, window=1)
    np.testing.assert_array_equal(fed(rule, [[[0.0] * 3]], [[1.0] * 3], 3), [1, 1, 0])


def test_training_logs_by_name_which_edges_came_and_went_and_goes_on(tmp_path):
    settings = {"n_envs": 64, "n_steps": 8, "batch_size": 128, "n_epochs": 2, "learning_rate": 3e-3, "hidden": (16,)}
    config = Config(total_timesteps=512 * 20, **settings)
    whole = runs.train("contextual-bandit:3", config, tmp_path / "a", network="adaptive", progress_bar=False)
    rows = runs.metrics(tmp_path / "a")
    went = [name for row in rows for name in row.get("network/went", [])]
    came = [name for row in rows for name in row.get("network/came", [])]
    assert rows[-1]["network/edges"] == 9 + len(came) - len(went) == whole.network.n_edges
    assert "a1 → psi2" in went
    assert whole.network == contextual_bandit(3).network
    half = Config(total_timesteps=512 * 12, **settings)
    runs.train("contextual-bandit:3", half, tmp_path / "b", network="adaptive", progress_bar=False)
    again = runs.train("contextual-bandit:3", config, tmp_path / "b", network="adaptive", progress_bar=False)
    all_close(jax.tree.leaves(again.state.agent), jax.tree.leaves(whole.state.agent))
    loaded = runs.load(tmp_path / "b")
    assert loaded.network == whole.network
    assert json.loads((tmp_path / "b" / "config.json").read_text())["network"] == "adaptive"


@pytest.mark.parametrize("bad", [{"every": 0}, {"window": 0}, {"margin": -1}])
def test_bad_settings_of_adaptive_are_refused(bad):
    with pytest.raises(ValueError, match="want at least 1, 1 and 0"):
        AdaptiveNetwork(fx.InfluenceNetwork.identity(2), **bad)


# ---- is an edge missing? --------------------------------------------------------------------------------


def test_looks_are_few():
    assert [n for n in range(1, 100) if validity.look(n)] == [8, 16, 32, 64]
    assert [validity.look(n) for n in (8, 16, 32, 64)] == [1, 2, 3, 4]


def test_with_no_edge_an_alarm_is_as_rare_as_promised():
    """1,000 training runs of noise; with a level of 1 % the chance of more than 21 alarms is below 0.1 %."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(1000):
        alarm, found, done = False, validity.Validity(np.zeros((4, 3, 5)), np.zeros((4, 3, 5))), 0
        for rollouts in (8, 16, 32):
            z, psi = rng.normal(size=(40 * (rollouts - done), 4)), rng.standard_t(5, size=(40 * (rollouts - done), 5))
            h = np.stack([np.ones_like(z), rng.normal(size=z.shape), rng.random(z.shape)], axis=-1)
            sums = (np.einsum("ti,tip,tj->ipj", z**k, h**k, psi**k, optimize=True) for k in (1, 2))
            found = validity.Validity(*(old + new for old, new in zip(found, sums, strict=True)))
            alarm |= bool(validity.missing(found, np.zeros((4, 5), bool), validity.look(rollouts)))
            done = rollouts
        alarms += alarm
    assert alarms <= 21


SETTINGS = {"policy": "shared", "identity": 0, "n_envs": 64, "n_steps": 20, "batch_size": 320, "n_epochs": 2,
            "hidden": (8,), "gae_lambda": 0.6}  # fmt: skip


def test_a_missing_edge_is_named_while_training():
    with pytest.warns(StructureWarning, match=r"edges are missing.*→ psi") as told:
        FactoredPPO(chain(4, delay=1), fx.InfluenceNetwork.identity(4), **SETTINGS).learn(1280 * 17, progress_bar=False)
    said = [str(w.message) for w in told if "missing" in str(w.message)]
    assert len(said) == 1
    assert any(f"'a{i} → psi{i + 1}'" in said[0] for i in (1, 2, 3))
    assert "'a1 → psi3'" not in said[0]


def test_with_the_true_network_nothing_is_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FactoredPPO(chain(4, delay=1), **SETTINGS).learn(1280 * 17, progress_bar=False)
        FactoredPPO(chain(2, delay=1), fx.InfluenceNetwork.identity(2), check_network=False, **SETTINGS).learn(
            1280 * 17, progress_bar=False
        )
