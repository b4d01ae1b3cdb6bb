"""Counter-examples to statements of the paper, by exact enumeration (see docs/explanation/departures.md)."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sample_problems

import factorax as fx
from factorax.gradients import joint_actions, nonnegative_translation, score_matrix, separable_baseline, variance_report
from factorax.problems import search_bandit
from factorax.structure import gallery


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@jax.jit
def coin(theta, obs, action):
    """Factors with the choices −1 (action 0) and +1 (action 1): π(+1) = sigmoid(θᵢ)."""
    return jax.nn.log_sigmoid(jnp.where(action == 1, theta, -theta))


def exact_report(psi_of, net, theta, weights=None):
    actions, p = map(np.asarray, joint_actions(coin, theta, (2,) * len(theta)))
    psi = psi_of(2.0 * actions - 1)
    return variance_report(coin, theta, actions=actions, psi=psi, net=net, weights=weights, probabilities=p), psi, p


@pytest.mark.slow
@pytest.mark.parametrize("M", [1.0, 10.0])
def test_a_true_network_can_raise_the_variance_and_two_terms_get_the_sign_wrong(M):
    """ψ₁ = a₁ + M a₂, ψ₂ = −M a₂: the targets cancel, and dropping one for a₁ uncovers the noise of the other."""
    net = fx.InfluenceNetwork([[1, 0], [1, 1]])
    report, _, _ = exact_report(
        lambda a: jnp.stack([a[:, 0] + M * a[:, 1], -M * a[:, 1]], axis=1), net, jnp.array([0.3, 0.0])
    )
    alpha = report.alpha.value[0]
    np.testing.assert_allclose(report.delta.value[0], -alpha * M**2, atol=1e-10)
    np.testing.assert_allclose(report.quadratic.value[0] + report.linear.value[0], alpha * M**2, atol=1e-10)
    np.testing.assert_allclose(report.covariance.value[0], -2 * alpha * M**2, atol=1e-10)
    assert not report.two_terms_suffice[0]
    np.testing.assert_allclose(report.residual.value, 0, atol=1e-10)  # the network is true: no bias


@pytest.mark.slow
def test_beta_with_the_printed_sign_is_wrong_even_where_two_terms_suffice():
    """Prop. 2 prints E[|z|² (ψ + b)]; its own proof, and the truth, have ψ − b."""
    net, theta = fx.InfluenceNetwork.identity(2), jnp.array([0.4, -0.2])
    report, psi, p = exact_report(lambda a: jnp.stack([2.0 + a[:, 0], 1.0 + 0.5 * a[:, 1]], axis=1), net, theta)
    assert report.two_terms_suffice.all()
    z = score_matrix(coin, theta, actions=joint_actions(coin, theta, (2, 2))[0])
    norm, b, total = (z**2).sum(axis=1), fx.factor_baseline(net, psi), psi.sum(axis=1, keepdims=True)
    as_printed = report.quadratic.value + 2 * (p @ (norm * (total + b))) * (p @ b)
    as_proved = report.quadratic.value + 2 * (p @ (norm * (total - b))) * (p @ b)
    np.testing.assert_allclose(as_proved, report.delta.value, atol=1e-12)
    assert (np.abs(as_printed - report.delta.value) > 0.5).all()


def far_apart(a):
    """ψ₁ about −5 and ψ₂ about 3."""
    return np.array([-5.0, 3.0]) + 0.1 * a


class TestTranslation:
    """The corollary: shift the targets so that ΔV ≥ 0."""

    @staticmethod
    def delta(shift, weights):
        theta = np.array([0.5, -0.5])
        net = fx.InfluenceNetwork.identity(2)
        return exact_report(lambda a: shift(far_apart(a)), net, theta, np.array(weights))[0].delta.value

    @pytest.mark.slow
    @pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, -1.0), (-2.0, 0.5)])
    @pytest.mark.filterwarnings("ignore:ΔV is non-negative only")
    def test_corrected_it_never_loses(self, weights):
        assert (self.delta(lambda psi: nonnegative_translation(psi, jnp.array(weights)), weights) >= 0).all()

    def test_the_translation_of_the_statement_fails(self):
        """ψⱼ − Σₖ λₖ inf ψₖ shifts every target by the same amount: their distance, and its sign, remain."""
        assert self.delta(lambda psi: psi - psi.min(axis=0).sum(), (1.0, 1.0)).min() < -1

    def test_the_translation_of_the_proof_fails(self):
        """ψⱼ + Σₖ λₖ inf ψₖ, as the proof has it, too."""
        assert self.delta(lambda psi: psi + psi.min(axis=0).sum(), (1.0, 1.0)).min() < -1

    def test_own_infima_fail_for_negative_weights(self):
        assert self.delta(lambda psi: psi - psi.min(axis=0), (1.0, -1.0)).min() < -1e-4

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore:ΔV is non-negative only")
    def test_the_price_can_be_more_than_a_thousandfold(self):
        """A deep trough that hardly ever comes up: lifting it out lifts everything else."""
        logits = jnp.tile(jnp.array([0.0, 0.0, -9.0]), (2, 1))  # the third choice: 6 in 100,000
        actions, p = joint_actions(sample_problems.independent, logits, (3, 3))
        psi = jnp.array([-0.1, 0.1, -100.0])[actions]
        arguments = {"actions": actions, "net": fx.InfluenceNetwork.identity(2), "probabilities": p}
        raw = variance_report(sample_problems.independent, logits, psi=psi, **arguments)
        shifted = variance_report(sample_problems.independent, logits, psi=nonnegative_translation(psi), **arguments)
        assert shifted.total_vanilla.value > 1000 * raw.total_vanilla.value

    @pytest.mark.parametrize("eps", [0.1, 10.0])
    @pytest.mark.filterwarnings("ignore:ΔV is non-negative only")
    def test_a_factor_that_drops_nothing_has_no_strict_version(self, eps):
        """The footnote: with α > 0, β > 0 and a small ε added, ΔV > 0. Not if a factor keeps all targets: ΔV = 0."""
        net, theta = fx.InfluenceNetwork([[1, 1], [0, 1]]), np.array([0.5, -0.5])
        report, psi, p = exact_report(lambda a: np.asarray(nonnegative_translation(far_apart(a))) + eps, net, theta)
        z = np.asarray(score_matrix(coin, theta, actions=joint_actions(coin, theta, (2, 2))[0]))
        beta = p @ ((z**2).sum(axis=1) * fx.credit(net, psi))
        assert (report.alpha.value > 0.1).all()
        assert (beta > 0).all()
        np.testing.assert_allclose(report.delta.value[0], 0, atol=1e-12)
        assert report.delta.value[1] > 0

    def test_it_warns_that_it_is_a_diagnostic(self):
        with pytest.warns(UserWarning, match="as a diagnostic, not for training"):
            nonnegative_translation(np.ones((3, 2)))
        with pytest.raises(ValueError, match=r"lower: got shape \(3,\), want \(2,\)"):
            nonnegative_translation(np.ones((3, 2)), lower=np.ones(3))


def test_precedence():
    """K @ lam * psi is (K @ lam) * psi: for square K silently wrong."""
    K, lam, psi = np.array([[1, 1], [0, 1]]), np.array([2.0, 3.0]), np.array([5.0, 7.0])
    right = fx.credit(fx.InfluenceNetwork(K), psi, lam)
    np.testing.assert_allclose(right, [31.0, 21.0])
    assert not np.allclose(K @ lam * psi, right)


def test_a_baseline_of_the_whole_action_biases():
    """The search bandit's b(s, a) as printed uses aᵢ itself; exchanged for its mean it is a control variate."""
    theta = np.array([0.5, -0.5])
    actions, p = map(np.asarray, joint_actions(coin, theta, (2, 2)))
    z = np.asarray(score_matrix(coin, theta, actions=actions))
    terms = -np.abs(2.0 * actions - 1 - 0.3) / 2
    as_printed = np.einsum("s,sti,s->t", p, z, terms.sum(axis=1))
    assert np.abs(as_printed).max() > 0.05
    baseline = jax.jit(lambda a, mean: separable_baseline(lambda a: -jnp.abs(a - 0.3) / 2, a, mean))
    b = baseline(2.0 * actions - 1, np.tanh(theta / 2))
    np.testing.assert_allclose(np.einsum("s,sti,si->t", p, z, b), 0, atol=1e-12)


def test_a_target_must_have_the_right_mean_given_state_and_action():
    """Sec. 2.1 asks for E[ψ(s, a)] = q over states and actions: the constant E[q] has it, and no gradient."""
    theta = np.array([0.5])
    actions, p = map(np.asarray, joint_actions(coin, theta, (2,)))
    q = np.array([1.0, 4.0])[actions[:, 0]]
    constant = np.full_like(q, p @ q)
    z = np.asarray(score_matrix(coin, theta, actions=actions))[:, 0, 0]
    np.testing.assert_allclose(p @ constant, p @ q)
    np.testing.assert_allclose(p @ (constant * z), 0, atol=1e-15)
    assert p @ (q * z) > 0.5


@pytest.mark.slow
def test_the_score_of_the_marginal_law_is_no_control_variate():
    """Lemma A.1 as printed has ∇ln P(X), of the law of X alone; its mean given Z is not zero."""
    p_z, y, shift = np.array([0.5, 0.5]), np.array([-1.0, 1.0]), jnp.array([0.0, 2.0])

    def law(theta):
        return jax.nn.sigmoid(theta + shift)  # P(X = 1 | Z)

    def log_marginal(theta):
        one = p_z @ law(theta)
        return jnp.log(jnp.stack([1 - one, one]))

    chance, score = law(0.3), jax.jacobian(log_marginal)(0.3)
    assert abs(p_z @ (y * ((1 - chance) * score[0] + chance * score[1]))) > 0.1
    # With the score of the law given Z the lemma is right, see test_theorems.py.
    given = jax.jacobian(lambda theta: jnp.log(jnp.stack([1 - law(theta), law(theta)])))(0.3)
    np.testing.assert_allclose(p_z @ (y * ((1 - chance) * given[0] + chance * given[1])), 0, atol=1e-15)


def test_a_joint_policy_need_not_be_a_product():
    """Eq. 5 for "any" joint policy: a table of rank 2 is no product over two factors; with one factor it always is."""
    correlated = np.array([[0.4, 0.1], [0.1, 0.4]])
    assert np.linalg.matrix_rank(correlated) == 2
    product = np.outer(correlated.sum(axis=1), correlated.sum(axis=0))
    assert np.abs(product - correlated).max() > 0.1  # a product must have these marginals
    assert np.linalg.matrix_rank(correlated.reshape(1, -1)) == 1


def biclique_cover_number(matrix):
    """The bipartite dimension: the fewest bicliques that cover every edge."""
    n = len(matrix)
    subsets = [list(rows) for k in range(1, n + 1) for rows in itertools.combinations(range(n), k)]
    bicliques = []
    for rows in subsets:
        cover = np.zeros_like(matrix)
        cover[rows] = matrix[rows].all(axis=0)
        bicliques.append(cover)
    sizes = range(1, n + 1)
    return next(k for k in sizes if any((sum(c) >= matrix).all() for c in itertools.combinations(bicliques, k)))


def test_the_bipartite_dimension_is_not_the_number_of_factors():
    """Sec. 4.2: rows {1}, {2}, {1, 2} have three factors, and two bicliques that cover every edge."""
    matrix = np.array([[1, 0], [0, 1], [1, 1]])
    assert biclique_cover_number(matrix) == 2
    assert len(fx.InfluenceNetwork(matrix).minimum_factorisation()) == 3
    assert biclique_cover_number(np.eye(3, dtype=int)) == 3


def test_the_minimum_factorisation_need_not_maximise_the_quadratic_term():
    """Sec. 4.2: ψ₂ and ψ₃ cancel in what a₁ drops; a coarser factorisation, that drops ψ₃ alone, has a larger term."""
    M, theta = 10.0, np.zeros(3)
    actions, p = map(np.asarray, joint_actions(coin, theta, (2, 2, 2)))
    psi = np.array([0.0, M, -M]) + 0.1 * (2.0 * actions - 1)
    net = fx.InfluenceNetwork.identity(3)
    terms = {}
    for groups in ([[0], [1], [2]], [[0, 1], [2]]):
        sigma = fx.Factorisation(groups, 3)
        coarse = net.factor(sigma).to_dense()[sigma.group_of]  # the factor's targets, for each of its actions
        dropped = fx.factor_baseline(fx.InfluenceNetwork(coarse), psi)
        terms[len(groups)] = float((0.25 * (p @ dropped**2)).sum())
    assert net.minimum_factorisation() == fx.Factorisation([[0], [1], [2]], 3)
    assert terms[2] > 1.4 * terms[3]


@pytest.mark.slow
def test_the_variance_is_of_degree_two_in_the_baselines_and_its_gradient_of_degree_one():
    """App. A.1 counts up to 2ⁿ solutions of equations of degree 2; they are linear, and all have the same variance."""
    problem = sample_problems.finite(sample_problems.CHAIN, sizes=(2, 2, 2), share=True)
    z = score_matrix(problem.log_prob, problem.params, actions=problem.actions)
    k, p = fx.credit(problem.net, problem.psi, problem.lam), problem.probabilities

    def variance(b):  # a constant for each factor
        g = jnp.einsum("sti,si->st", z, k - b)
        return p @ (g**2).sum(axis=1) - ((p @ g) ** 2).sum()

    gradient, (x, y) = jax.grad(variance), np.random.default_rng(0).normal(size=(2, 3))
    np.testing.assert_allclose(gradient(x + y) + gradient(jnp.zeros(3)), gradient(x) + gradient(y), atol=1e-10)
    hessian = jax.hessian(variance)(jnp.zeros(3))
    assert np.linalg.eigvalsh(hessian).min() > 1e-6  # so the solution is one
    best = -np.linalg.solve(hessian, gradient(jnp.zeros(3)))
    np.testing.assert_allclose(gradient(best), 0, atol=1e-10)
    assert all(variance(best + d) > variance(best) for d in np.eye(3))


def test_the_covariance_with_the_own_baseline_does_not_vanish_without_shared_parameters():
    """App. A.1 lets Cov[xᵢ, yᵢ] go to zero with ⟨zᵢ, zⱼ⟩, and splits it into a product. Neither is so.

    It has ⟨zᵢ, zᵢ⟩, and is what the baseline of Wu et al. is made of.
    """
    problem = sample_problems.finite(sample_problems.CHAIN, sizes=(2, 2, 2), seed=1)
    z = np.asarray(score_matrix(problem.log_prob, problem.params, actions=problem.actions))
    p, norm = problem.probabilities, (z**2).sum(axis=1)[:, 0]
    assert np.abs(np.einsum("s,sti,stl->il", p, z, z) * (1 - np.eye(3))).max() < 1e-15  # no parameters are shared
    k = fx.credit(problem.net, problem.psi, problem.lam)[:, 0]
    b = np.where(problem.actions[:, 1] == 1, 1.0, -2.0)  # a function of another action, as a baseline may be
    exact = p @ (k * b * norm)
    assert abs(exact) > 0.01
    assert abs(exact - (p @ b) * (p @ (k * norm))) > 0.01


@pytest.mark.slow
def test_the_coupled_search_bandit_is_not_a_collection_of_forks():
    """Sec. 5.1 calls it n forks, with a penalty ζ(aᵢ) for each; Fig. 6 and ζ_k(a) have one node that all share."""
    n = 4
    net, forks = gallery.search_bandit(n), fx.patterns.block([(1, 2)] * n)
    assert net.to_dense()[:, -1].all()
    assert (net.shape, len(net.components())) == ((n, n + 1), 1)
    assert (forks.shape, len(forks.components())) == ((n, 2 * n), n)
    assert net.factor(net.minimum_factorisation()).coparent_condition().sum() == 0
    assert forks.coparent_condition().all()
    # The norm is no sum over actions, so no choice of ζ(aᵢ) makes forks of it.
    bandit = search_bandit(np.ones(n), k=n, penalty=1.0, scale=1.0)
    mixed = jax.hessian(lambda a: bandit.targets(a)[-1])(jnp.array([1.0, 2.0, 3.0, 4.0]))
    assert np.abs(mixed[~np.eye(n, dtype=bool)]).min() > 0.01
    # Without a penalty every action has one target, and a fork has two.
    assert (search_bandit(np.ones(n)).network.to_dense().sum(axis=1) == 1).all()


@jax.jit
def _ascend(log_std, mean=-1.0, bumps=((-1.0, 0.3, 1.0), (1.5, 0.5, 3.0))):
    """Ascend J(μ, σ) = E[f(a)] exactly: f is a sum of bumps w exp(−(a − c)² / 2 s²), whose mean has a closed form."""

    def objective(parameters):
        mu, variance = parameters[0], jnp.exp(2 * parameters[1])
        return sum(
            w * s / jnp.sqrt(s**2 + variance) * jnp.exp(-((mu - c) ** 2) / (2 * (s**2 + variance))) for c, s, w in bumps
        )

    step = lambda _, parameters: parameters + 0.02 * jax.grad(objective)(parameters)  # noqa: E731
    return jax.lax.fori_loop(0, 4000, step, jnp.stack([jnp.asarray(mean), log_std]))


def test_the_initial_covariance_can_decide_which_optimum_is_reached():
    """Sec. 4.2: "its initial value only affects the rate of convergence". One action, no state, two bumps."""
    narrow, wide = _ascend(np.log(0.2)), _ascend(np.log(2.0))
    np.testing.assert_allclose(narrow[0], -1.0, atol=0.05)  # stays at the bump of height 1
    np.testing.assert_allclose(wide[0], 1.5, atol=0.05)  # finds the bump of height 3
    for log_std in (np.log(0.2), np.log(2.0)):  # with a single bump it is so
        np.testing.assert_allclose(_ascend(log_std, bumps=((1.5, 2.0, 3.0),))[0], 1.5, atol=1e-3)
