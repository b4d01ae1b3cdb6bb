"""Tests on data: closed forms, what each can and cannot see, and error rates over many null repetitions."""

import gymnasium as gym
import numpy as np
import pytest
from scipy import special, stats

import factorax as fx
from factorax.discovery import THRESHOLDS, Batch, collect, dependence_test, detectable, predictive, score_test
from factorax.discovery.batch import _returns
from factorax.discovery.dependence import _moments
from factorax.problems import BanditEnv, chain, contextual_bandit, queues, search_bandit

pytestmark = pytest.mark.usefixtures("compiled_in_haste")
METHODS = {"score": score_test, "dependence": lambda batch: dependence_test(batch, redraws=60)}


def bandit(truth, samples, seed=0, noise=1.0, function=np.abs):
    """Each target the sum of a function of its parents' actions, and noise."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(samples, truth.shape[0]))
    psi = function(a - 0.5) @ truth + noise * rng.normal(size=(samples, truth.shape[1]))
    return Batch(a, psi, special.ndtr(a), kind="one-step")


def test_the_statistic_is_the_correlation_test_of_textbooks():
    rng = np.random.default_rng(0)
    z, psi = rng.normal(size=(200, 3)), rng.normal(size=(200, 2))
    z -= z.mean(axis=0)
    found = score_test(Batch(z, psi))
    for i in range(3):
        for j in range(2):
            r = stats.pearsonr(z[:, i], psi[:, j]).statistic
            assert found.effect[i, j] == pytest.approx(r)
            assert found.p_value[i, j] == pytest.approx(2 * stats.t.sf(abs(r) * np.sqrt(200), 199))


def test_robust_studentising_by_hand_and_where_it_is_needed():
    """z² and ψ² both large in one state: the plain test is too bold, the robust one keeps its level."""
    rng = np.random.default_rng(0)
    z, psi = rng.normal(size=(50, 1)), rng.normal(size=(50, 1))
    centred = psi - psi.mean()
    t = (z * centred).sum() / np.sqrt((z**2 * centred**2).sum())
    assert score_test(Batch(z, psi), robust=True).p_value[0, 0] == pytest.approx(2 * stats.t.sf(abs(t), 49))
    scale = np.where(rng.random((400, 2000, 1)) < 0.1, 5.0, 0.5)
    z, psi = scale * rng.normal(size=scale.shape), scale * rng.normal(size=scale.shape)
    for robust, low, high in ((False, 0.2, 1.0), (True, 0.02, 0.085)):
        rate = np.mean([score_test(Batch(z[k], psi[k]), robust=robust).p_value[0, 0] < 0.05 for k in range(400)])
        assert low < rate < high  # binomial: 0.05 ± 3 × 0.011


@pytest.mark.parametrize("method", METHODS)
def test_false_discoveries_are_as_rare_as_promised(method):
    """No edges at all in 200 repetitions, then a third of them: at most 5 %, with three standard errors."""
    test = METHODS[method]
    any_found = [test(bandit(np.zeros((6, 6)), 200, seed)).found(0.05).any() for seed in range(200)]
    assert np.mean(any_found) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    truth = np.zeros((6, 6))
    truth[:2] = np.eye(6)[:2]
    shares, found = [], 0
    for seed in range(200):
        edges = test(bandit(truth, 400, seed)).found(0.05)
        shares.append((edges & (truth == 0)).sum() / max(edges.sum(), 1))
        found += (edges & (truth == 1)).sum()
    assert np.mean(shares) <= 0.05 + 3 * np.std(shares) / np.sqrt(200)
    assert found > 0.5 * 2 * 200


@pytest.mark.parametrize("method", METHODS)
def test_p_values_of_nulls_are_uniform(method):
    p = np.concatenate([METHODS[method](bandit(np.zeros((5, 4)), 150, s)).p_value.ravel() for s in range(60)])
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def with_features(seed, samples=300, n=4, m=4):
    """No edge; features of the state have heavy tails, and the larger they are the more the targets spread."""
    rng = np.random.default_rng(seed)
    a, features = rng.normal(size=(samples, n)), rng.lognormal(size=(samples, n, 2))
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    psi = rng.normal(size=(samples, m)) * (1 + np.abs(features[..., 0]))
    scores = np.concatenate([a[..., None], a[..., None] * features], axis=-1)
    return Batch(scores, psi, special.ndtr(a), state=features.reshape(samples, -1))


def test_the_dependence_test_keeps_its_level_with_features_of_the_state():
    """225 repetitions: 5 % of pairs at the 5 % level, with a confidence of 95 % (repetitions are independent)."""
    shares = [(dependence_test(with_features(s), redraws=40, seed=s).p_value < 0.05).mean() for s in range(225)]
    assert abs(np.mean(shares) - 0.05) <= 1.96 * np.std(shares) / np.sqrt(225)


def test_moments_of_the_null_are_those_of_redraws():
    batch = with_features(0)
    features = batch.scores[..., 1:] / batch.scores[..., :1]
    rank = np.pi * (stats.rankdata(batch.psi, axis=0) - 0.5) / 300
    targets = np.concatenate([np.cos(rank), np.cos(2 * rank)], axis=1)
    mean, variance = _moments(targets, features, 2, 4)
    rng, drawn = np.random.default_rng(1), []
    for _ in range(2000):
        waves = np.sqrt(2) * np.cos(np.pi * np.arange(1, 3)[:, None, None] * rng.random((300, 4)))
        x = np.concatenate([waves[..., None], waves[..., None] * features], axis=-1)
        sums = np.einsum("ktif,tj->kfij", x, targets)
        drawn.append((sums[..., :4] ** 2 + sums[..., 4:] ** 2).sum(axis=(0, 1)))
    np.testing.assert_allclose(np.mean(drawn, axis=0), mean, rtol=4 * 0.6 / np.sqrt(2000))
    assert np.mean(np.var(drawn, axis=0) / variance) == pytest.approx(1, abs=0.15)


def test_what_only_the_dependence_test_sees():
    truth = np.eye(3)
    batch = bandit(truth, 2000, function=lambda a: (a + 0.5) ** 2)
    assert not score_test(batch, robust=True).found(0.01).any()
    assert (dependence_test(batch).found(0.001) == (truth > 0)).all()
    rng = np.random.default_rng(0)
    spread = Batch(batch.scores, batch.scores * rng.normal(size=(2000, 3)), batch.uniforms)  # in variance alone
    assert (dependence_test(spread).found(0.001) == (truth > 0)).all()


def test_parity_is_beyond_the_dependence_test_as_it_says():
    bits = np.random.default_rng(0).random((4000, 2)) < 0.5
    u = (bits + np.random.default_rng(1).random(bits.shape)) / 2
    batch = Batch(2.0 * bits - 1, (bits[:, :1] ^ bits[:, 1:]).astype(float), u)
    assert not dependence_test(batch).found().any()
    assert "parity" in str(dependence_test(batch))


def test_an_effect_that_changes_sign_with_the_state():
    problem = contextual_bandit(5)
    for method in ("score", "dependence"):
        found = fx.discover(problem, method, samples=3000)
        assert found.network() == problem.network
        assert found.kind == "one-step"
    batch = collect(problem, samples=3000)
    assert not score_test(Batch(batch.scores[..., 0], batch.psi)).found(0.01).any()  # on average over states: nothing


def test_delays_are_found_in_returns_alone():
    problem = chain(4, delay=2)
    assert not fx.discover(problem, "dependence", samples=4000, horizon=1, redraws=40).found(0.001).any()
    found = fx.discover(problem, "dependence", samples=4000, horizon=3, redraws=40)
    assert found.kind == "return"
    assert found.network(0.001) == problem.network


def test_returns_by_hand():
    psi = np.arange(1.0, 6.0)[:, None, None]
    ended = np.array([0, 1, 0, 0, 0], bool)[:, None]
    total, sure = _returns(psi, ended, 3, 0.5)
    assert sure == 3
    assert total.ravel().tolist() == [1 + 0.5 * 2, 2, 3 + 0.5 * 4 + 0.25 * 5]


def test_data_of_a_trained_policy_and_of_the_host():
    model = fx.FactoredPPO(queues(1, 2), n_envs=4, n_steps=4, batch_size=16, n_epochs=1, hidden=(8,))
    batch = collect(queues(1, 2), policy=model, samples=2000, n_envs=20)
    first = batch.scores[..., 0]
    assert np.abs(first.mean(axis=0)).max() < 4 / np.sqrt(2000)
    assert np.abs((first**2).mean(axis=0) - 1).max() < 0.1
    assert min(stats.kstest(u, "uniform").pvalue for u in batch.uniforms.T) > 1e-3
    model = search_bandit(3, k=1, penalty=0.5)
    host = collect(lambda: BanditEnv(model), samples=300, n_envs=2)
    np.testing.assert_allclose(host.psi, model.targets(host.scores), rtol=1e-5, atol=1e-6)


def test_prediction_and_its_closed_form():
    """ψ = a + e with variances 1 and s²: I = ½ log(1 + 1/s²), less what four waves cannot say of a line."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(20_000, 2))
    psi = a + 2.0 * rng.normal(size=a.shape)
    found = predictive(Batch(a, psi, special.ndtr(a)))
    assert np.diag(found.effect) == pytest.approx([0.5 * np.log(1.25)] * 2, abs=0.02)
    assert (found.found(threshold=THRESHOLDS["low"]) == np.eye(2)).all()
    assert not found.found(threshold=THRESHOLDS["high"]).any()


def test_predictions_without_an_action_are_those_of_a_model_without_it():
    batch = bandit(np.ones((3, 1)), 200)
    whole = predictive(batch, ridge=0.1)
    errors = []
    for kept in ([0, 1, 2], [1, 2]):
        x = np.concatenate([np.ones((200, 1)), *(np.sqrt(2) * np.cos(np.pi * k * batch.uniforms[:, [i]])
                            for i in kept for k in range(1, 5))], axis=1)  # fmt: skip
        psi = (batch.psi - batch.psi.mean()) / batch.psi.std()
        total = 0.0
        for train, held in ((slice(0, 100), slice(100, 200)), (slice(100, 200), slice(0, 100))):
            beta = np.linalg.solve(x[train].T @ x[train] + 20 * np.eye(x.shape[1]), x[train].T @ psi[train])
            total += ((psi[held] - x[held] @ beta) ** 2).sum()
        errors.append(total)
    assert whole.effect[0, 0] == pytest.approx(0.5 * np.log(errors[1] / errors[0]))


def test_power_in_words_and_in_fact():
    smallest = detectable(400, 9)
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        a = rng.normal(size=(400, 3))
        psi = rng.normal(size=(400, 3))
        psi[:, 0] += smallest / np.sqrt(1 - smallest**2) * a[:, 0]
        hits += score_test(Batch(a, psi)).p_value[0, 0] < 0.05 / 9
    assert 0.8 - 3 * 0.023 < hits / 300 < 0.8 + 3 * 0.023
    assert "400 samples and 9 tests: a lone edge is found with a chance of 80 %" in str(score_test(Batch(a, psi)))
    assert "too few samples to find anything" in str(score_test(Batch(a[:9], psi[:9])))


def test_constant_data_is_named_and_skipped():
    batch = bandit(np.eye(3), 100)
    batch.scores[:, 1], batch.psi[:, 2] = 0.0, 7.0
    for test in METHODS.values():
        found = test(batch)
        assert np.isnan(found.p_value[1]).all()
        assert np.isnan(found.p_value[:, 2]).all()
        assert "skipped: action 'a2' is always the same" in found.notes
        assert "skipped: target 'psi3' is constant" in found.notes


def test_errors():
    batch = bandit(np.eye(2), 50)
    broken = Batch(batch.scores, np.where(np.arange(100).reshape(50, 2) == 7, np.nan, batch.psi))
    with pytest.raises(ValueError, match="psi: 1 entries are not finite, the first at sample 3, column 1"):
        score_test(broken)
    with pytest.raises(ValueError, match="psi: got 5 samples, want at least 8"):
        score_test(Batch(batch.scores[:5], batch.psi[:5]))
    with pytest.raises(ValueError, match=r"scores, psi: got shapes \(50, 2\) and \(49, 2\)"):
        score_test(Batch(batch.scores, batch.psi[1:]))
    with pytest.raises(ValueError, match="uniforms: missing"):
        dependence_test(Batch(batch.scores, batch.psi))
    with pytest.raises(ValueError, match="method: got 'magic', want one of interventional, score"):
        fx.discover(batch, "magic")
    with pytest.raises(TypeError, match="problem: got a Batch, which cannot be run again"):
        fx.discover(batch)
    with pytest.raises(ValueError, match="has no network to say how many targets"):
        collect(lambda: gym.make("CartPole-v1"))
