"""What the paper states and is so, and what is so in place of what it states: by exact enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sample_problems

import factorax as fx
from factorax.gradients import joint_actions, nonnegative_translation, score_matrix, variance_report

MATRICES = [np.reshape(bits, (3, 3)) for bits in itertools.product((0, 1), repeat=9) if np.any(bits)]
COINS = np.array(list(itertools.product((-1, 1), repeat=3)))  # every joint action of three fair coins


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("share", [False, True], ids=["independent", "shared"])
@pytest.mark.parametrize("matrix", sample_problems.ALL.values(), ids=sample_problems.ALL.keys())
def test_factor_baselines_are_control_variates(matrix, share):
    """Lemma 4.1: E[zᵢ bᵢ] = 0, by Lemma A.1, because no dropped target depends on aᵢ."""
    problem = sample_problems.finite(matrix, share=share)
    z = score_matrix(problem.log_prob, problem.params, actions=problem.actions)
    b = fx.factor_baseline(problem.net, problem.psi, problem.lam)
    assert np.abs(b).max() > 0.1
    np.testing.assert_allclose(jnp.einsum("s,sti,si->ti", problem.probabilities, z, b), 0, atol=1e-12)


def test_a_control_variate_given_the_condition():
    """Lemma A.1 with the score of the law of X *given Z*: E[Y ∇ln P(X|Z)] = 0 if X and Y are independent given Z."""
    p_z, y = np.array([0.3, 0.7]), np.array([-2.0, 5.0])
    chance = 1 / (1 + np.exp(-np.array([0.4, -1.1])))  # P(X = 1 | Z), a logit for each Z
    score = np.stack([-chance, 1 - chance], axis=1)  # of that logit, for X = 0 and 1
    p_x = np.stack([1 - chance, chance], axis=1)
    np.testing.assert_allclose((p_z[:, None] * p_x * y[:, None] * score).sum(axis=1), 0, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("share", [False, True], ids=["independent", "shared"])
def test_alpha_is_the_trace_of_the_fisher_matrix(share):
    """αᵢ = E|zᵢ|² = tr Fᵢ, with the Fisher matrix as the expected negative Hessian of ln πᵢ (footnote of Cor. 4.1)."""
    problem = sample_problems.finite(sample_problems.FORK_COLLIDER, share=share)
    report = variance_report(problem.log_prob, problem.params, net=problem.net, **problem.samples)
    flat, unflatten = jax.flatten_util.ravel_pytree(problem.params)
    for i in range(2):
        hessians = jax.vmap(jax.hessian(lambda x, a: problem.log_prob(unflatten(x), None, a)[i]), (None, 0))  # noqa: B023
        fisher = -jnp.einsum("s,sxy->xy", problem.probabilities, hessians(flat, problem.actions))
        np.testing.assert_allclose(jnp.trace(fisher), report.alpha.value[i], rtol=1e-8)


@pytest.mark.slow
def test_the_linear_term_grows_in_either_direction():
    """Without bounds on the targets 2 E[|zᵢ|² kᵢ] E[bᵢ] is of any size and sign (Sec. 4.1)."""
    logits = jnp.zeros((2, 2))
    actions, p = joint_actions(sample_problems.independent, logits, (2, 2))
    terms = []
    for M in (-1e6, -1e3, 1e3, 1e6):
        psi = jnp.stack([1.0 + actions[:, 0], M + actions[:, 1]], axis=1)
        net = fx.InfluenceNetwork.identity(2)
        report = variance_report(
            sample_problems.independent, logits, actions=actions, psi=psi, net=net, probabilities=p
        )
        terms.append(float(report.linear.value[0]))
    np.testing.assert_allclose(np.divide(terms, [-1e6, -1e3, 1e3, 1e6]), 1.5, rtol=1e-2)  # 2 · αᵢ · 1.5 · M, αᵢ = ½


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:ΔV is non-negative only")
@pytest.mark.parametrize("name", ["fork/collider", "three", "diagonal"])
def test_the_strict_translation(name):
    """The footnote of Cor. 4.1, corrected: λⱼψⱼ ≥ ε|λⱼ| > 0 gives ΔVᵢ ≥ αᵢ ε² (Σ |λⱼ| over the dropped targets)².

    It is above 0 if αᵢ > 0 and factor i drops a target with λⱼ ≠ 0; that βᵢ > 0 implies αᵢ > 0.
    """
    problem, eps = sample_problems.finite(sample_problems.ALL[name], seed=2), 0.05
    lam = problem.lam
    psi = nonnegative_translation(problem.psi, lam) + eps * jnp.sign(lam)
    samples = problem.samples | {"psi": psi}
    report = variance_report(problem.log_prob, problem.params, net=problem.net, **samples)
    bound = report.alpha.value * (eps * fx.factor_baseline(problem.net, jnp.abs(lam))) ** 2
    assert (report.delta.value >= bound - 1e-12).all()
    drops = ~problem.net.to_dense().astype(bool).all(axis=1)
    assert drops.any()
    assert (bound[drops] > 1e-6).all()
    np.testing.assert_allclose(report.delta.value[~drops], 0, atol=1e-12)  # nothing dropped: the same estimator


def factorisations(n):
    """Every partition of n actions, as the group number of every action."""
    for groups in itertools.product(range(n), repeat=n):
        if all(g <= max(groups[:i], default=-1) + 1 for i, g in enumerate(groups)):
            yield np.array(groups)


def factored_matrix(matrix, groups):
    """K_Σ, the union of the rows of each group, one row for each *action*."""
    return np.stack([matrix[groups == g].any(axis=0) for g in groups])


@pytest.mark.filterwarnings("ignore::UserWarning")  # of actions and targets without edges
def test_the_minimum_factorisation_is_the_coarsest_that_adds_no_edge():
    """ "The greatest freedom to express covariance within a factor" (Sec. 4.2), for all 511 networks of 3 × 3."""
    for matrix in MATRICES:
        faithful = [g for g in factorisations(3) if (factored_matrix(matrix, g) == matrix).all()]
        best = fx.InfluenceNetwork(matrix).minimum_factorisation().group_of
        assert min(len(set(g)) for g in faithful) == len(set(best))
        for groups in faithful:  # each group of every other is within one of its groups
            assert all(len(set(best[groups == g])) == 1 for g in set(groups))


def quadratic_term(matrix, groups, psi):
    """Σᵢ αᵢ E[bᵢ²] over the factors of Σ, for three fair coins: every action adds α = ¼ to that of its factor."""
    dropped = psi @ (1 - factored_matrix(matrix, groups)).T
    return float((0.25 * (dropped**2).mean(axis=0)).sum())


def test_for_targets_of_one_sign_the_minimum_factorisation_maximises_the_quadratic_term():
    """All 511 networks of 3 × 3 and all 5 factorisations: none is above; the finer ones are equal, no gain is lost."""
    rng = np.random.default_rng(0)
    for matrix in MATRICES:
        tables = rng.uniform(0, 1, (3, 2, 2, 2))
        psi = np.stack([tables[j][tuple(np.where(matrix[:, j], COINS > 0, 0).T.astype(int))] for j in range(3)], axis=1)
        rows = np.unique(matrix, axis=0, return_inverse=True)[1].ravel()
        best = quadratic_term(matrix, rows, psi)
        for groups in factorisations(3):
            finer = all(len(set(rows[groups == g])) == 1 for g in set(groups))
            value = quadratic_term(matrix, groups, psi)
            assert value == pytest.approx(best) if finer else value <= best + 1e-12


def test_in_a_fully_observable_problem_a_product_policy_reaches_the_optimum():
    """Sec. 4.2: J is linear in each factor's distribution, so some deterministic joint action is optimal."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        reward = rng.normal(size=(3, 3))
        joint = rng.dirichlet(np.ones(9), 500).reshape(-1, 3, 3)
        rows, columns = np.divmod(np.arange(9), 3)
        products = np.einsum("ai,aj->aij", np.eye(3)[rows], np.eye(3)[columns])
        assert (products * reward).sum(axis=(1, 2)).max() >= (joint * reward).sum(axis=(1, 2)).max()


def test_in_a_partially_observable_problem_it_need_not():
    """The footnote of Sec. 4.2: two states look alike, one after the other; one wants (0, 0) and the next (1, 1).

    A joint policy without memory has J = π(0, 0) π(1, 1), at most ¼; a product policy at most 1/16.
    """
    p = np.linspace(0, 1, 1001)
    joint = (p * (1 - p)).max()
    first, second = np.meshgrid(p, p)
    product = (first * second * (1 - first) * (1 - second)).max()
    np.testing.assert_allclose([joint, product], [1 / 4, 1 / 16])


def test_additional_baselines_lower_the_variance_of_the_factored_gradient_if_they_fit():
    """Sec. 6: for three fair coins, b = E[kᵢ] lowers the variance of zᵢ(kᵢ − b) by ¼ E[kᵢ]², and b = −E[kᵢ] raises it.

    All 511 networks of 3 × 3, with random targets; the score zᵢ = aᵢ/2 has zᵢ² = ¼.
    """
    rng = np.random.default_rng(2)
    z = COINS / 2
    for matrix in MATRICES:
        tables = rng.normal(1.0, 1.0, (3, 2, 2, 2))
        psi = np.stack([tables[j][tuple(np.where(matrix[:, j], COINS > 0, 0).T.astype(int))] for j in range(3)], axis=1)
        k = psi @ matrix.T  # plain networks, of which some have factors without targets
        mean = k.mean(axis=0)
        plain, fitted, opposite = (np.var(z * (k - b), axis=0) for b in (0.0, mean, -mean))
        np.testing.assert_allclose(plain - fitted, mean**2 / 4, atol=1e-12)
        np.testing.assert_allclose(opposite - plain, 3 * mean**2 / 4, atol=1e-12)
