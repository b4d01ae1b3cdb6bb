"""Every estimator against the gradient of the objective, by exact enumeration and finite differences."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sample_problems
from hypothesis import given, settings
from hypothesis import strategies as st

import factorax as fx
from factorax.gradients import (
    factored,
    least_squares_baseline,
    natural,
    score_matrix,
    separable_baseline,
    vanilla,
    wu_baseline,
)


@cache
def compiled(function):
    """A function of the library as one program, instead of one for each of its operations."""
    return eqx.filter_jit(function)


def expected(estimator, problem, **changes):
    """E[g], with every joint action weighted by its probability."""
    return compiled(estimator)(problem.log_prob, problem.params, **(problem.samples | changes))


def both_expected(problem, *options):
    """E[g] of the factored estimator, or of the vanilla one where there is no network, for each of the options."""

    @eqx.filter_jit
    def all_of_them(params, samples, options):
        return [(factored if "net" in own else vanilla)(problem.log_prob, params, **(samples | own)) for own in options]

    return all_of_them(problem.params, problem.samples, options)


def finite_differences(function, params, h=1e-5):
    steps = h * np.eye(params.size).reshape(-1, *params.shape)
    values = jax.jit(jax.vmap(function))(np.concatenate([params + steps, params - steps]))
    up, down = np.asarray(values).reshape(2, -1)
    return (up - down) / (2 * h)


def flat(tree):
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(tree)])


@pytest.mark.parametrize("share", [False, True], ids=["independent", "shared"])
@pytest.mark.parametrize("matrix", sample_problems.ALL.values(), ids=sample_problems.ALL.keys())
def test_factored_and_vanilla_gradients_are_the_gradient_of_the_objective(matrix, share):
    problem = sample_problems.finite(matrix, share=share)
    truth = finite_differences(problem.objective, problem.params)
    assert np.abs(truth).max() > 0.01
    for gradient in both_expected(problem, {"net": problem.net}, {}):
        np.testing.assert_allclose(flat(gradient), truth, atol=1e-8)


def test_a_spurious_edge_leaves_the_expectation_alone():
    problem = sample_problems.finite(sample_problems.CHAIN, share=True)
    more = problem.net | fx.InfluenceNetwork([[1, 0, 1], [1, 1, 1], [1, 0, 1]])
    assert more.n_edges > problem.net.n_edges
    np.testing.assert_allclose(
        flat(expected(factored, problem, net=more)), flat(expected(factored, problem, net=problem.net)), atol=1e-12
    )


def test_a_missing_edge_biases_by_minus_the_score_times_what_is_missing():
    problem = sample_problems.finite(sample_problems.CHAIN, share=True)
    fewer = problem.net.to_dense()
    fewer[0, 1] = False
    got = flat(expected(factored, problem, net=fx.InfluenceNetwork(fewer)))
    z = compiled(score_matrix)(problem.log_prob, problem.params, actions=problem.actions)
    bias = -np.einsum("s,st,s->t", problem.probabilities, np.asarray(z)[:, :, 0], problem.lam[1] * problem.psi[:, 1])
    assert np.abs(bias).max() > 0.01
    np.testing.assert_allclose(got, flat(jax.jit(jax.grad(problem.objective))(problem.params)) + bias, atol=1e-10)


@pytest.mark.slow
@settings(max_examples=20)
@given(n=st.integers(1, 5), m=st.integers(1, 5), seed=st.integers(0, 2**31))
def test_the_complete_network_is_the_vanilla_gradient_exactly(n, m, seed):
    rng = np.random.default_rng(seed)
    actions, psi = rng.integers(0, 3, size=(7, n)), rng.normal(size=(7, m))
    arguments = {"actions": actions, "psi": psi, "weights": rng.normal(size=m)}
    params = jnp.asarray(rng.normal(size=(n, 3)))
    plain = vanilla(sample_problems.independent, params, **arguments)
    complete = factored(sample_problems.independent, params, net=fx.InfluenceNetwork.complete(n, m), **arguments)
    assert jnp.array_equal(plain, complete)


def test_the_estimator_is_the_score_matrix_times_the_credit():
    problem = sample_problems.finite(sample_problems.THREE, share=True)
    z = compiled(score_matrix)(problem.log_prob, problem.params, actions=problem.actions)
    assert z.shape == (27, 5, 3)
    explicit = np.einsum("sti,si->t", z, (problem.lam * problem.psi) @ problem.net.to_dense().T) / 27
    one_vjp = compiled(factored)(
        problem.log_prob, problem.params, actions=problem.actions, psi=problem.psi, net=problem.net, weights=problem.lam
    )
    np.testing.assert_allclose(one_vjp, explicit, atol=1e-12)


def test_permuting_factors_permutes_the_gradient():
    problem = sample_problems.finite(sample_problems.THREE)
    order = np.array([2, 0, 1])
    arguments = {"psi": problem.psi, "weights": problem.lam}
    plain = compiled(factored)(problem.log_prob, problem.params, actions=problem.actions, net=problem.net, **arguments)
    permuted = compiled(factored)(
        problem.log_prob,
        problem.params[order],
        actions=problem.actions[:, order],
        net=fx.InfluenceNetwork(problem.net.to_dense()[order]),
        **arguments,
    )
    np.testing.assert_allclose(permuted, np.asarray(plain)[order], atol=1e-12)


@pytest.mark.slow
def test_batch_axes_and_pytrees_of_observations_and_actions():
    rng = np.random.default_rng(0)
    params = {"w": jnp.asarray(rng.normal(size=(2, 4))), "b": jnp.zeros(2)}

    def mixed(params, obs, action):  # ℝ × {0, 1}
        mean = params["w"] @ obs["x"] + params["b"]
        normal = jax.scipy.stats.norm.logpdf(action[0], mean[0], 1.0)
        return jnp.stack([normal, jax.nn.log_sigmoid(jnp.where(action[1] == 1, mean[1], -mean[1]))])

    obs = {"x": rng.normal(size=(3, 5, 4))}
    actions = (rng.normal(size=(3, 5)), rng.integers(0, 2, size=(3, 5)))
    psi, net = rng.normal(size=(3, 5, 2)), fx.InfluenceNetwork(sample_problems.FORK_COLLIDER)
    got = factored(mixed, params, actions=actions, psi=psi, net=net, obs=obs)
    one_by_one = [
        factored(
            mixed,
            params,
            actions=jax.tree.map(lambda x: x[t, b], actions),  # noqa: B023
            psi=psi[t, b],
            net=net,
            obs=jax.tree.map(lambda x: x[t, b], obs),  # noqa: B023
        )
        for t in range(3)
        for b in range(5)
    ]
    np.testing.assert_allclose(flat(got), np.mean([flat(g) for g in one_by_one], axis=0), atol=1e-12)


@pytest.mark.parametrize("share", [False, True], ids=["independent", "shared"])
def test_a_baseline_of_the_others_actions_does_not_bias(share):
    problem = sample_problems.finite(sample_problems.CHAIN, share=share)
    terms = lambda a: jnp.sin(1.0 + a) * jnp.arange(1.0, 4.0)  # noqa: E731
    b = np.asarray(compiled(separable_baseline)(terms, problem.actions.astype(float), np.ones(3)))
    truth = flat(jax.jit(jax.grad(problem.objective))(problem.params))
    net, scalar = {"net": problem.net}, np.full((len(b), 1), 3.0)
    options = [net | {"baseline": x} for x in (b, scalar, 3.0)] + [{"baseline": x} for x in (b, 3.0)]
    for gradient in both_expected(problem, *options):
        np.testing.assert_allclose(flat(gradient), truth, atol=1e-10)


def test_minimum_factorisation_leaves_the_estimator_of_a_factorised_policy_alone():
    problem = sample_problems.finite(sample_problems.THREE)
    sigma = problem.net.minimum_factorisation()
    arguments = {"actions": problem.actions, "psi": problem.psi, "weights": problem.lam}

    def grouped(params, obs, action):
        own = problem.log_prob(params, obs, action)
        return jnp.stack([own[jnp.array(group)].sum() for group in sigma.groups])

    merged = compiled(factored)(grouped, problem.params, net=problem.net.factor(sigma), **arguments)
    apart = compiled(factored)(problem.log_prob, problem.params, net=problem.net, **arguments)
    np.testing.assert_allclose(merged, apart, atol=1e-12)


class TestNatural:
    @pytest.mark.parametrize("share", [False, True], ids=["independent", "shared"])
    def test_the_fisher_matrix_is_the_sum_over_factors(self, share):
        problem = sample_problems.finite(sample_problems.THREE, share=share)
        z = np.asarray(compiled(score_matrix)(problem.log_prob, problem.params, actions=problem.actions))
        joint = z.sum(axis=2)
        whole = np.einsum("s,st,su->tu", problem.probabilities, joint, joint)
        by_factor = np.einsum("s,sti,sui->tui", problem.probabilities, z, z)
        np.testing.assert_allclose(whole, by_factor.sum(axis=2), atol=1e-12)
        if not share:  # block-diagonal: factors do not meet
            assert np.abs(whole.reshape(3, 3, 3, 3)[0, :, 1]).max() < 1e-12

    @pytest.mark.slow
    def test_solves_the_damped_system_of_the_samples(self):
        problem = sample_problems.finite(sample_problems.THREE, share=True)
        arguments = {"actions": problem.actions, "psi": problem.psi, "net": problem.net, "weights": problem.lam}
        z = score_matrix(problem.log_prob, problem.params, actions=problem.actions)
        fisher = jnp.einsum("sti,sui->tu", z, z) / len(z)
        g = factored(problem.log_prob, problem.params, **arguments)
        want = jnp.linalg.solve(fisher + 0.1 * jnp.eye(5), g)
        got = natural(problem.log_prob, problem.params, damping=0.1, iterations=50, **arguments)
        np.testing.assert_allclose(got, want, rtol=1e-4)

    def test_a_gaussian_location_is_divided_by_its_precision(self):
        sigma = 0.5

        def gaussian(mu, obs, a):
            return jax.scipy.stats.norm.logpdf(a, mu, sigma)

        a = sigma * np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])  # second moment σ² exactly
        arguments = {"actions": a, "psi": a**3 + a, "net": fx.InfluenceNetwork.identity(2)}
        plain = compiled(factored)(gaussian, np.zeros(2), **arguments)
        preconditioned = compiled(natural)(gaussian, np.zeros(2), damping=0.0, **arguments)
        np.testing.assert_allclose(preconditioned, sigma**2 * np.asarray(plain), rtol=1e-6)


class TestBadInput:
    problem = staticmethod(lambda: sample_problems.finite(sample_problems.THREE))

    def test_wrong_batch_axes_name_the_argument(self):
        p = self.problem()
        with pytest.raises(ValueError, match=r"actions: got an array of shape \(5, 3\), want \(27,\) in front"):
            factored(p.log_prob, p.params, actions=p.actions[:5], psi=p.psi, net=p.net)
        with pytest.raises(ValueError, match=r"obs: got an array of shape \(4, 2\)"):
            factored(p.log_prob, p.params, actions=p.actions, psi=p.psi, net=p.net, obs=np.zeros((4, 2)))

    def test_a_network_with_other_factors_than_the_policy(self):
        p = self.problem()
        with pytest.raises(ValueError, match="net: has 2 rows, but log_prob returned 3 values"):
            factored(p.log_prob, p.params, actions=p.actions, psi=p.psi, net=p.net.factor([["a1", "a2"], ["a3"]]))

    def test_a_baseline_of_the_wrong_shape_is_never_broadcast(self):
        p = self.problem()
        for shape in [(27, 2), (27,), (3, 27), (1, 3), (3,)]:
            with pytest.raises(ValueError, match="baseline: got shape"):
                factored(p.log_prob, p.params, actions=p.actions, psi=p.psi, net=p.net, baseline=np.zeros(shape))
            with pytest.raises(ValueError, match="baseline: got shape"):
                vanilla(p.log_prob, p.params, actions=p.actions, psi=p.psi, baseline=np.zeros(shape))

    @pytest.mark.slow
    def test_a_matrix_does_in_place_of_a_network(self):
        p = self.problem()
        batch = {"actions": p.actions, "psi": p.psi}
        features = jnp.ones((*p.psi.shape[:1], p.net.shape[0], 1))
        for function, options in [
            (factored, {}),
            (natural, {}),
            (fx.variance_report, {}),
            (fx.gradients.bias_report, {"reference": np.ones(p.net.shape)}),
            (least_squares_baseline, {"features": features}),
            (wu_baseline, {"features": features}),
        ]:
            plain, net = (function(p.log_prob, p.params, **batch, net=k, **options) for k in (p.net.to_dense(), p.net))
            for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(net), strict=True):
                assert repr(a) == repr(b)

    def test_mistakes_of_every_day(self):
        p = self.problem()
        with pytest.raises(TypeError, match="net: got str, want an InfluenceNetwork"):
            factored(p.log_prob, p.params, actions=p.actions, psi=p.psi, net="eye")
        with pytest.raises(ValueError, match="does psi lack a batch axis"):
            vanilla(p.log_prob, p.params, actions=p.actions, psi=p.psi[:, 0])
        with pytest.raises(ValueError, match="a list is read as a list of arrays"):
            factored(p.log_prob, p.params, actions=p.actions.tolist(), psi=p.psi, net=p.net)
        with pytest.raises(ValueError, match=r"psi: got shape \(0, 3\), want .* at least one sample"):
            factored(p.log_prob, p.params, actions=p.actions[:0], psi=p.psi[:0], net=p.net)
        with pytest.raises(ValueError, match=r"damping: got -1\.0, want a number of at least 0"):
            natural(p.log_prob, p.params, actions=p.actions, psi=p.psi, net=p.net, damping=-1.0)

    @pytest.mark.slow
    def test_scalar_targets(self):
        p = self.problem()
        with pytest.raises(ValueError, match=r"psi: got 1\.0, want \(\.\.\., n_targets\) with at least one sample"):
            factored(p.log_prob, p.params, actions=p.actions, psi=1.0, net=p.net)
