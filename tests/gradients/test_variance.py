"""The three-term decomposition: exact by enumeration, estimated within its own error, and honest about its limits."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sample_problems

import factorax as fx
from factorax.gradients import gradient_variance, joint_actions, score_matrix, variance_report
from factorax.gradients.expectations import _estimate


@eqx.filter_jit
def scores(log_prob, params, actions):
    return score_matrix(log_prob, params, actions=actions)


def brute_force(problem):
    """Every figure of the report straight from its definition, one joint action after the other."""
    z = np.asarray(scores(problem.log_prob, problem.params, problem.actions))  # (s, |θ|, n)
    p, weighted = np.asarray(problem.probabilities), np.asarray(problem.lam * problem.psi)
    K = problem.net.to_dense().astype(float)
    kept, dropped = weighted @ K.T, weighted @ (1 - K).T

    def variance(g):  # trace of the covariance
        return float(p @ (g**2).sum(axis=1) - ((p @ g) ** 2).sum())

    n = K.shape[0]
    vanilla = np.array([variance(z[:, :, i] * weighted.sum(axis=1)[:, None]) for i in range(n)])
    factored = np.array([variance(z[:, :, i] * kept[:, i, None]) for i in range(n)])
    norm = (z**2).sum(axis=1)
    alpha = p @ norm
    return {
        "alpha": alpha,
        "quadratic": alpha * (p @ dropped**2),
        "linear": 2 * (p @ (norm * kept)) * (p @ dropped),
        "vanilla": vanilla,
        "factored": factored,
        "delta": vanilla - factored,
        "total_vanilla": variance((z * weighted.sum(axis=1)[:, None, None]).sum(axis=2)),
        "total_factored": variance((z * kept[:, None, :]).sum(axis=2)),
        "one_pass": 2 * (p @ (norm * weighted.sum(axis=1)[:, None] * dropped)) - alpha * (p @ dropped**2),
        "h_covariance": 2 * _covariance_given_others(problem, norm * kept, dropped),
    }


def _covariance_given_others(problem, x, b):
    """Cov(bᵢ, hᵢ) with hᵢ = E_{aᵢ}[x | āᵢ] formed explicitly."""
    p, actions, out = np.asarray(problem.probabilities), np.asarray(problem.actions), []
    for i in range(x.shape[1]):
        others = np.unique(np.delete(actions, i, axis=1), axis=0, return_inverse=True)[1].ravel()
        mass = np.bincount(others, p)
        h = (np.bincount(others, p * x[:, i]) / mass)[others]
        out.append(p @ (h * b[:, i]) - (p @ h) * (p @ b[:, i]))
    return np.array(out)


def report_of(problem, **changes):
    return variance_report(problem.log_prob, problem.params, net=problem.net, **(problem.samples | changes))


@pytest.mark.parametrize("share", [False, True], ids=["independent", "shared"])
@pytest.mark.parametrize("matrix", sample_problems.ALL.values(), ids=sample_problems.ALL.keys())
def test_every_term_is_exact(matrix, share):
    problem = sample_problems.finite(matrix, share=share)
    report, truth = report_of(problem), brute_force(problem)
    for name in ("alpha", "quadratic", "linear", "vanilla", "factored", "delta", "total_vanilla", "total_factored"):
        np.testing.assert_allclose(getattr(report, name).value, truth[name], atol=1e-10, err_msg=name)
        assert not np.any(getattr(report, name).error)
    three_terms = report.quadratic.value + report.linear.value + report.covariance.value
    np.testing.assert_allclose(three_terms, truth["delta"], atol=1e-10)
    np.testing.assert_allclose(truth["one_pass"], truth["delta"], atol=1e-10)
    np.testing.assert_allclose(report.covariance.value, truth["h_covariance"], atol=1e-10)
    np.testing.assert_allclose(report.residual.value, 0, atol=1e-10)


@pytest.mark.parametrize("matrix", sample_problems.ALL.values(), ids=sample_problems.ALL.keys())
def test_the_covariance_term_vanishes_where_the_coparent_condition_holds_and_only_there(matrix):
    seeds = [report_of(sample_problems.finite(matrix, seed=seed)) for seed in range(3)]
    biggest = np.max([np.abs(r.covariance.value) for r in seeds], axis=0)
    assert (biggest[seeds[0].two_terms_suffice] < 1e-10).all()
    assert (biggest[~seeds[0].two_terms_suffice] > 1e-3).all()


def test_totals_are_sums_if_and_only_if_no_parameters_are_shared():
    apart, together = (report_of(sample_problems.finite(sample_problems.THREE, share=share)) for share in (False, True))
    np.testing.assert_allclose(apart.total_delta.value, apart.delta.value.sum(), atol=1e-10)
    assert abs(together.total_delta.value - together.delta.value.sum()) > 0.005


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("share", [False, True], ids=["independent", "shared"])
def test_blocks_of_centred_targets_never_lose(seed, share):
    problem = sample_problems.finite(sample_problems.BLOCKS, seed=seed, share=share)
    centred = problem._replace(psi=problem.psi - problem.probabilities @ problem.psi)
    assert report_of(centred).total_delta.value >= -1e-12


@pytest.mark.slow
def test_without_centring_or_with_overlap_they_can():
    block = [[1, 0], [0, 1]]
    assert any(report_of(sample_problems.finite(block, seed=s)).total_delta.value < -1e-6 for s in range(60))
    overlapping = (sample_problems.finite(sample_problems.CHAIN, seed=s) for s in range(200))
    centred = (p._replace(psi=p.psi - p.probabilities @ p.psi) for p in overlapping)
    assert any(report_of(p).total_delta.value < -1e-6 for p in centred)


@pytest.mark.slow
def test_sampled_figures_agree_with_exact_ones_within_their_errors():
    """29 figures, each within 4.5 standard errors: by chance alone fails with probability below 3e-4."""
    problem = sample_problems.finite(sample_problems.THREE, share=True)
    exact = report_of(problem)
    rows = jax.random.choice(jax.random.key(3), len(problem.actions), (20_000,), p=problem.probabilities)
    drawn = report_of(problem, actions=problem.actions[rows], psi=problem.psi[rows], probabilities=None)
    for name in ("alpha", "quadratic", "linear", "covariance", "delta", "vanilla", "factored"):
        value, error = getattr(drawn, name)
        assert (error > 0).all()
        assert (np.abs(value - getattr(exact, name).value) < 4.5 * error + 1e-9).all(), name
    for name in ("total_vanilla", "total_factored", "total_delta"):
        value, error = getattr(drawn, name)
        assert abs(value - getattr(exact, name).value) < 4.5 * error, name


@pytest.mark.slow
def test_standard_errors_are_those_of_repeated_experiments():
    """The spread over 150 repetitions against the mean error: 150 give the spread to ±6 %, and 20 % is asked."""
    problem = sample_problems.finite(sample_problems.FORK_COLLIDER)
    rows = jax.random.choice(jax.random.key(0), len(problem.actions), (150, 400), p=problem.probabilities)
    runs = [report_of(problem, actions=problem.actions[r], psi=problem.psi[r], probabilities=None).delta for r in rows]
    spread = np.std([r.value for r in runs], axis=0, ddof=1)
    np.testing.assert_allclose(np.mean([r.error for r in runs], axis=0), spread, rtol=0.2, atol=1e-15)


def test_disjoint_parameters_give_the_same_figures_from_one_gradient_a_sample():
    problem = sample_problems.finite(sample_problems.THREE)
    slow, fast = report_of(problem), report_of(problem, disjoint=True)
    for name in ("alpha", "covariance", "vanilla", "factored", "total_vanilla", "total_factored"):
        np.testing.assert_allclose(getattr(fast, name).value, getattr(slow, name).value, atol=1e-10)


@pytest.mark.slow
def test_several_states_are_averaged_state_by_state():
    first, second = (
        sample_problems.finite(sample_problems.THREE, seed=1),
        sample_problems.finite(sample_problems.THREE, seed=2),
    )

    def by_state(params, obs, action):
        return sample_problems.independent(params[obs], None, action)

    params = jnp.stack([first.params, second.params])
    both = variance_report(
        by_state,
        params,
        actions=jnp.stack([first.actions, second.actions]),
        psi=jnp.stack([first.psi, second.psi]),
        obs=jnp.repeat(jnp.arange(2)[:, None], 27, axis=1),
        probabilities=jnp.stack([first.probabilities, second.probabilities]),
        net=first.net,
        weights=first.lam,
    )
    each = [report_of(p._replace(lam=first.lam)) for p in (first, second)]
    for name in ("delta", "covariance", "total_vanilla"):
        want = np.mean([getattr(r, name).value for r in each], axis=0)
        np.testing.assert_allclose(getattr(both, name).value, want, atol=1e-10)


def test_gradient_variance_takes_any_credit():
    problem = sample_problems.finite(sample_problems.THREE, share=True)
    report = report_of(problem)
    arguments = {"actions": problem.actions, "probabilities": problem.probabilities}
    credits = fx.credit(problem.net, problem.psi, problem.lam)
    own, total = gradient_variance(problem.log_prob, problem.params, credits=credits, **arguments)
    np.testing.assert_allclose(own.value, report.factored.value, atol=1e-12)
    np.testing.assert_allclose(total.value, report.total_factored.value, atol=1e-12)


def test_a_missing_edge_is_noticed():
    problem = sample_problems.finite(sample_problems.CHAIN)
    matrix = problem.net.to_dense()
    matrix[0, 1] = False
    with pytest.warns(
        fx.structure.StructureWarning, match="net misses an edge: a target that is dropped for factor 'a1' depends"
    ):
        report_of(problem._replace(net=fx.InfluenceNetwork(matrix)))


def test_targets_that_need_no_true_network_are_not_called_biased():
    """COMA's advantages: E[zᵢ Aⱼ] = 0 although every Aⱼ depends on every action. No warning, and no three terms."""
    problem = sample_problems.finite([[1], [1]])
    table = np.asarray(problem.psi[:, 0]).reshape(3, 3)
    pi = np.asarray(jax.nn.softmax(problem.params, axis=-1))
    advantage = np.stack([table - pi[0] @ table, table - (table @ pi[1])[:, None]], axis=-1).reshape(9, 2)
    coma = problem._replace(psi=advantage, lam=np.ones(2), net=fx.InfluenceNetwork.identity(2))
    report = report_of(coma)
    assert np.abs(report.residual.value).max() > 1e-3


@pytest.mark.slow
def test_what_a_policy_closes_over_may_change():
    problem = sample_problems.finite(sample_problems.THREE)
    scale = {"number": 1.0, "array": jnp.ones(3)}

    def log_prob(logits, obs, action):
        return sample_problems.independent(scale["number"] * scale["array"][:, None] * logits, obs, action)

    def alpha():
        p = joint_actions(log_prob, problem.params, (3, 3, 3))[1]
        return report_of(problem._replace(log_prob=log_prob, probabilities=p)).alpha.value

    first = alpha()
    scale["number"] = 2.0
    second = alpha()
    scale["array"] = jnp.array([0.5, 0.5, 0.5])
    third = alpha()
    assert np.abs(second - first).min() > 1e-3
    np.testing.assert_allclose(third, first, atol=1e-12)


def test_a_report_compiles_once_for_a_policy_however_it_is_written():
    problem, half = sample_problems.finite(sample_problems.THREE), 0.5
    report_of(problem._replace(log_prob=lambda logits, obs, a: sample_problems.independent(logits, obs, a)))
    before = _estimate._cache_size()
    again = lambda theta, o, action: sample_problems.independent(theta, o, action)  # noqa: E731
    p = joint_actions(again, half * problem.params, (3, 3, 3))[1]
    report_of(problem._replace(log_prob=again, params=half * problem.params, probabilities=p))
    assert _estimate._cache_size() == before


@pytest.mark.slow
def test_large_means_do_not_drown_the_variance_in_single_precision():
    """ψ = ±1000 + noise: the plain E[x²] − E[x]² is negative in float32; five standard errors of the true value."""
    with jax.enable_x64(False):
        a = jax.random.bernoulli(jax.random.key(0), 0.5, (20_000, 2)).astype(int)
        psi = 1e3 * (2 * a - 1) + jax.random.normal(jax.random.key(1), a.shape)
        log_prob = lambda logit, obs, a: jax.nn.log_sigmoid(jnp.where(a == 1, logit, -logit))  # noqa: E731
        report = variance_report(log_prob, jnp.zeros(2), actions=a, psi=psi, net=fx.InfluenceNetwork.identity(2))
    z = np.asarray(a) - 0.5
    truth = (z * np.asarray(psi, dtype=np.float64)).var(axis=0).sum()
    assert abs(report.total_factored.value - truth) < 1e-3 * truth
    np.testing.assert_allclose(report.factored.value.sum(), truth, rtol=1e-3)


@pytest.mark.slow
def test_samples_of_many_states_in_one_are_warned_of():
    obs = np.random.default_rng(0).normal(size=(50, 1))
    actions = np.random.default_rng(1).normal(size=(50, 2))
    follow = lambda w, o, a: jax.scipy.stats.norm.logpdf(a, w * o, 1.0)  # noqa: E731
    arguments = {"net": fx.InfluenceNetwork.identity(2)}
    with pytest.warns(fx.structure.StructureWarning, match="obs differs among samples that should be of one state"):
        variance_report(follow, jnp.zeros(2), actions=actions, obs=obs, psi=actions, **arguments)
    same = np.repeat(obs[:2, None], 50, axis=1)  # (states, samples, 1)
    both = np.stack([actions, actions])
    variance_report(follow, jnp.zeros(2), actions=both, obs=same, psi=both, **arguments)


def test_reports_refuse_to_be_compiled():
    problem = sample_problems.finite(sample_problems.THREE)
    with pytest.raises(TypeError, match="outside jit"):
        jax.jit(lambda psi: report_of(problem, psi=psi).alpha.value)(problem.psi)


def test_a_point_of_a_schedule_is_reported_as_its_network():
    problem = sample_problems.finite(sample_problems.THREE)
    schedule = fx.NetworkSchedule(problem.net, fx.InfluenceNetwork.complete(3, 3), steps=10)
    point = schedule.at(5)
    value = report_of(problem._replace(net=point)).total_factored.value
    np.testing.assert_allclose(value, report_of(problem._replace(net=point.network())).total_factored.value)


@pytest.mark.slow
def test_the_search_bandit_matches_its_closed_form():
    """n Gaussian factors, ψᵢ = −|aᵢ|, K = I: all moments are known; 5 standard errors, 40,000 samples."""
    n, mean, second = 4, -np.sqrt(2 / np.pi), 1.0
    a = jax.random.normal(jax.random.key(1), (40_000, n))

    def gaussian(mu, obs, action):
        return jax.scipy.stats.norm.logpdf(action, mu, 1.0)

    report = variance_report(
        gaussian, jnp.zeros(n), actions=a, psi=-jnp.abs(a), net=fx.InfluenceNetwork.identity(n), disjoint=True
    )
    quadratic = (n - 1) * second + (n - 1) * (n - 2) * mean**2  # E b², α = 1
    linear = 2 * (-2 * np.sqrt(2 / np.pi)) * (n - 1) * mean  # E[z²|a|] = E|a|³ = 2 √(2/π)
    assert (np.abs(report.quadratic.value - quadratic) < 5 * report.quadratic.error).all()
    assert (np.abs(report.linear.value - linear) < 5 * report.linear.error).all()
    assert (np.abs(report.covariance.value) < 5 * report.covariance.error).all()
    assert report.two_terms_suffice.all()


def test_the_report_prints_every_factor_the_total_and_where_it_is_approximate():
    text = str(report_of(sample_problems.finite(sample_problems.FORK_COLLIDER)))
    lines = text.splitlines()
    assert "vanilla / factored" in lines.pop(0)
    assert lines[0].split() == ["factor", "alpha", "quadratic", "linear", "covariance", "delta", "vanilla", "factored"]
    assert lines[1].split()[0] == "a1"
    assert lines[2].split()[0] == "a2"
    assert lines[2].endswith("*")
    assert not lines[1].endswith("*")
    assert "co-parent" in text


class TestBadInput:
    def test_probabilities_that_are_not(self):
        problem = sample_problems.finite(sample_problems.THREE)
        with pytest.raises(ValueError, match="want 1"):
            report_of(problem, probabilities=problem.probabilities * 0.9)
        with pytest.raises(ValueError, match=r"probabilities: got shape \(5,\), want \(27,\)"):
            report_of(problem, probabilities=np.ones(5) / 5)

    def test_a_network_of_another_size(self):
        problem = sample_problems.finite(sample_problems.THREE)
        with pytest.raises(ValueError, match="net: has 2 rows, but log_prob returned 3 factors"):
            report_of(problem._replace(net=problem.net.factor([["a1", "a2"], ["a3"]])))

    def test_one_sample(self):
        problem = sample_problems.finite(sample_problems.THREE)
        with pytest.raises(ValueError, match="at least two samples"):
            report_of(problem, actions=problem.actions[:1], psi=problem.psi[:1], probabilities=None)

    def test_parameters_that_are_not_disjoint(self):
        problem = sample_problems.finite(sample_problems.THREE, share=True)
        with pytest.raises(ValueError, match=r"params: got leaves of shapes \(5,\); disjoint=True needs"):
            report_of(problem, disjoint=True)

    def test_factors_that_read_the_slices_of_others(self):
        problem = sample_problems.finite(sample_problems.THREE)

        def entangled(logits, obs, action):
            return sample_problems.independent(logits + 0.1 * logits[::-1], obs, action)

        with pytest.raises(ValueError, match="a factor depends on the slice of another factor; want disjoint=False"):
            report_of(problem._replace(log_prob=entangled), disjoint=True)

    def test_too_many_joint_actions(self):
        with pytest.raises(ValueError, match="joint actions, want 1 to 10⁷ to enumerate"):
            joint_actions(sample_problems.independent, jnp.zeros((30, 10)), (10,) * 30)


@pytest.mark.slow
def test_few_samples_at_many_states_are_not_biased():
    """Five samples at each of 2000 states: every total within six standard errors of the truth, and within 10 %."""
    problem = sample_problems.finite(sample_problems.THREE)
    exact = report_of(problem)
    rows = jax.random.choice(jax.random.key(1), len(problem.actions), (2000, 5), p=problem.probabilities)
    drawn = report_of(problem, actions=problem.actions[rows], psi=problem.psi[rows], probabilities=None)
    for name in ("total_vanilla", "total_factored", "total_delta"):
        value, error = getattr(drawn, name)
        truth = getattr(exact, name).value
        assert abs(value - truth) < min(0.1 * abs(truth), 6 * error + 0.01 * abs(truth)), name
    np.testing.assert_allclose(drawn.linear.value, exact.linear.value, atol=5 * drawn.linear.error.max())
