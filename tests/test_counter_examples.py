"""What the paper states and is not so: each counter-example, by exact enumeration (see docs/departures.md)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sample_problems

import factorax as fx
from factorax.gradients import joint_actions, nonnegative_translation, score_matrix, separable_baseline, variance_report


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def coin(theta, obs, action):
    """Factors with the choices −1 (action 0) and +1 (action 1): π(+1) = sigmoid(θᵢ)."""
    return jax.nn.log_sigmoid(jnp.where(action == 1, theta, -theta))


def exact_report(psi_of, net, theta, weights=None):
    actions, p = joint_actions(coin, theta, (2,) * len(theta))
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
    return jnp.array([-5.0, 3.0]) + 0.1 * a


class TestTranslation:
    """The corollary: shift the targets so that ΔV ≥ 0."""

    @staticmethod
    def delta(shift, weights):
        theta = jnp.array([0.5, -0.5])
        net = fx.InfluenceNetwork.identity(2)
        return exact_report(lambda a: shift(far_apart(a)), net, theta, jnp.array(weights))[0].delta.value

    @pytest.mark.slow
    @pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, -1.0), (-2.0, 0.5)])
    @pytest.mark.filterwarnings("ignore:the translation makes")
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
    @pytest.mark.filterwarnings("ignore:the translation makes")
    def test_the_price_can_be_more_than_a_thousandfold(self):
        """A deep trough that hardly ever comes up: lifting it out lifts everything else."""
        logits = jnp.tile(jnp.array([0.0, 0.0, -9.0]), (2, 1))  # the third choice: 6 in 100,000
        actions, p = joint_actions(sample_problems.independent, logits, (3, 3))
        psi = jnp.array([-0.1, 0.1, -100.0])[actions]
        arguments = {"actions": actions, "net": fx.InfluenceNetwork.identity(2), "probabilities": p}
        raw = variance_report(sample_problems.independent, logits, psi=psi, **arguments)
        shifted = variance_report(sample_problems.independent, logits, psi=nonnegative_translation(psi), **arguments)
        assert shifted.total_vanilla.value > 1000 * raw.total_vanilla.value

    def test_it_warns_that_it_is_a_diagnostic(self):
        with pytest.warns(UserWarning, match="a diagnostic, not a way to train"):
            nonnegative_translation(jnp.ones((3, 2)))
        with pytest.raises(ValueError, match=r"lower: got shape \(3,\), want \(2,\)"):
            nonnegative_translation(jnp.ones((3, 2)), lower=jnp.ones(3))


def test_precedence():
    """K @ lam * psi is (K @ lam) * psi: for square K silently wrong."""
    K, lam, psi = np.array([[1, 1], [0, 1]]), np.array([2.0, 3.0]), np.array([5.0, 7.0])
    right = fx.credit(fx.InfluenceNetwork(K), psi, lam)
    np.testing.assert_allclose(right, [31.0, 21.0])
    assert not np.allclose(K @ lam * psi, right)


def test_a_baseline_of_the_whole_action_biases():
    """The search bandit's b(s, a) as printed uses aᵢ itself; exchanged for its mean it is a control variate."""
    theta = jnp.array([0.5, -0.5])
    actions, p = joint_actions(coin, theta, (2, 2))
    z = score_matrix(coin, theta, actions=actions)
    terms = -jnp.abs(2.0 * actions - 1 - 0.3) / 2
    as_printed = jnp.einsum("s,sti,s->t", p, z, terms.sum(axis=1))
    assert np.abs(as_printed).max() > 0.05
    b = separable_baseline(lambda a: -jnp.abs(a - 0.3) / 2, 2.0 * actions - 1, jnp.tanh(theta / 2))
    np.testing.assert_allclose(jnp.einsum("s,sti,si->t", p, z, b), 0, atol=1e-12)
