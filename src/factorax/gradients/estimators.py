"""Policy-gradient estimators, each computed as one weighted vector–Jacobian product."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import cg

from .._arrays import on_device
from .._checks import Count, NotNegative, check_number, checked, real_array
from .._credit import credit
from .._text import counted
from ..structure import Factorisation, InfluenceNetwork
from ..structure.network import network_of
from .inputs import check_not_negative, check_samples
from .scores import LogProb, batched_log_prob, check_where_known, flatten_batch


def factored(
    log_prob: LogProb,
    params: Any,
    *,
    actions: Any,
    psi: Any,
    net: Any,
    weights: Any = None,
    obs: Any = None,
    baseline: Any = None,
    probabilities: Any = None,
) -> Any:
    """Return the factored policy gradient (Prop. 1): the batch mean of g = Σᵢ zᵢ ([K(λ∘ψ)]ᵢ − bᵢ).

    The estimate is unbiased if the policy is a product over factors and `net` contains every edge of the targets
    (Lemma 4.1). A spurious edge increases variance; a missing edge biases factor i by exactly −E[zᵢ Σ_missing λⱼ ψⱼ]
    (`bias_report`).

    **Arguments**

    - `log_prob`: a function ``log_prob(params, obs, action)`` of one observation and one action that returns one
      log-probability per factor, shape ``(n,)``.
    - `params`: any pytree of arrays.
    - `actions`: actions drawn from the policy, with the batch axes of `psi` in front.
    - `psi`: the targets, shape ``(..., n_targets)``: rewards, returns or advantages. Subtract a per-target baseline
      bⱼ(s) beforehand.
    - `net`: the influence network, ``(n, n_targets)``, with one row per factor of the policy.
    - `weights`: the weights λ, shape ``(n_targets,)``.
    - `obs`: observations, a pytree with the same batch axes; None if there are none.
    - `baseline`: a value to subtract from the credit of each factor, shape ``(..., n)``, or ``(..., 1)`` for a scalar
      b(s). It may depend on the observation and on the actions of *other* factors (Lemma A.1).
    - `probabilities`: weights of the samples instead of equal weights, in the shape of the batch axes. With every joint
      action listed once (`joint_actions`), the result is the exact expected gradient.

    Outside ``jit`` the samples are also used to check that the policy is a product (`check_product_form`).

    >>> log_prob = jax.jit(lambda mu, obs, a: jax.scipy.stats.norm.logpdf(a, mu, 1.0))  # π = N(μ, I)
    >>> a = jnp.array([[1.0, 0.0], [0.0, -2.0]])
    >>> factored(log_prob, jnp.zeros(2), actions=a, psi=-jnp.abs(a), net=InfluenceNetwork.identity(2))
    Array([-0.5,  2. ], dtype=float32)
    """
    net = network_of(net, "net")
    batch = _Batch(log_prob, params, actions, psi, obs, probabilities)
    credits = batch.without_baseline(credit(net, batch.psi, weights), baseline)
    batch.check_product_form(net.factorisation)
    return batch.gradient(credits)


def vanilla(
    log_prob: LogProb,
    params: Any,
    *,
    actions: Any,
    psi: Any,
    weights: Any = None,
    obs: Any = None,
    baseline: Any = None,
    probabilities: Any = None,
) -> Any:
    """Return the plain policy gradient (Def. 2.1): the batch mean of g = z (Σⱼ λⱼ ψⱼ − b), or `factored` with K = 1.

    Arguments are as in `factored`. The policy need not be a product: `log_prob` may return one joint log-probability,
    shape ``()``. A baseline per factor, shape ``(..., n)``, requires the product form.
    """
    batch = _Batch(log_prob, params, actions, psi, obs, probabilities, joint=True)
    total = credit(InfluenceNetwork.complete(1, batch.psi.shape[-1]), batch.psi, weights)
    # A scalar b(s) is valid for any policy, one per factor only for a product.
    if baseline is not None and jnp.shape(baseline)[-1:] > (1,):
        batch.check_product_form(None)
    return batch.gradient(batch.without_baseline(total, baseline))


def natural(
    log_prob: LogProb,
    params: Any,
    *,
    actions: Any,
    psi: Any,
    net: Any,
    weights: Any = None,
    obs: Any = None,
    baseline: Any = None,
    probabilities: Any = None,
    damping: float = 1e-3,
    iterations: int = 100,
) -> Any:
    """Return the natural gradient (F + damping·I)⁻¹ g, with the Fisher matrix of a factored policy F = Σᵢ E[zᵢ zᵢᵀ].

    The cross terms E[zᵢ zₗᵀ] of a product policy are zero even if factors share parameters, so the sample average omits
    them. This lowers variance, and F v costs one Jacobian–vector and one vector–Jacobian product. The system is solved
    by conjugate gradients, so the result is approximate: an ill-conditioned F needs more iterations or damping. Other
    arguments are as in `factored`.

    - `damping`: added to the diagonal of F.
    - `iterations`: maximum number of conjugate-gradient steps.
    """
    check_number("damping", damping, NotNegative)
    checked("iterations", iterations, Count)
    net = network_of(net, "net")
    batch = _Batch(log_prob, params, actions, psi, obs, probabilities)
    credits = batch.without_baseline(credit(net, batch.psi, weights), baseline)
    batch.check_product_form(net.factorisation)

    def damped_fisher(v: Any) -> Any:
        # F v = Σᵢ E[zᵢ (zᵢ·v)] without F itself, which would have |θ|² entries.
        along = jax.jvp(batch.log_probs, (params,), (v,))[1]  # zᵢ·v for every sample and factor
        return jax.tree.map(lambda f, x: f + damping * x, batch.gradient(along), v)

    return cg(damped_fisher, batch.gradient(credits), maxiter=iterations)[0]


class _Batch:
    """A flat batch of samples, with the log-probabilities of all factors as a function of the parameters."""

    def __init__(
        self,
        log_prob: LogProb,
        params: Any,
        actions: Any,
        psi: Any,
        obs: Any,
        probabilities: Any,
        *,
        joint: bool = False,
    ):
        self.psi = check_samples(log_prob, params, actions=actions, psi=psi, obs=obs)
        # A joint log-probability counts as that of a single factor.
        self.log_prob: LogProb = (lambda p, o, a: jnp.atleast_1d(log_prob(p, o, a))) if joint else log_prob
        self.shape, self.params = self.psi.shape[:-1], params
        self.actions = flatten_batch(actions, self.shape, "actions")
        self.obs = None if obs is None else flatten_batch(obs, self.shape, "obs")
        # A single sample has no batch axes.
        size = max(1, math.prod(self.shape))
        if probabilities is None:
            self.share = on_device(np.full((size, 1), 1 / size))
        else:
            probabilities = real_array("probabilities", probabilities, jnp)
            check_not_negative("probabilities", probabilities)
            self.share = flatten_batch(probabilities, self.shape, "probabilities").reshape(size, 1)
        self.n = jax.eval_shape(self.log_probs, params).shape[1]

    def log_probs(self, params: Any) -> jax.Array:
        return batched_log_prob(self.log_prob, params, self.obs, self.actions)

    def gradient(self, weights: Any) -> Any:
        """Return the batch mean of Σᵢ zᵢ weightsᵢ."""
        # One vector–Jacobian product, at the cost of one gradient, where all scores zᵢ would cost n of them.
        log_probs, pullback = jax.vjp(self.log_probs, self.params)
        flat = jnp.asarray(weights).reshape(log_probs.shape[0], -1)
        return pullback(jnp.broadcast_to(flat * self.share, log_probs.shape).astype(log_probs.dtype))[0]

    def without_baseline(self, credits: jax.Array, baseline: Any) -> jax.Array:
        """Return credits ``(..., n)``, or ``(..., 1)`` for all factors, minus a baseline."""
        if credits.shape[-1] not in (1, self.n):
            raise ValueError(
                f"net: has {counted(credits.shape[-1], 'row')}, but log_prob returned {self.n} values; want one row of "
                "K per factor of the policy (net.factor merges rows)"
            )
        if baseline is None:
            return credits
        baseline = real_array("baseline", baseline, jnp)
        # No other shape is broadcast: ``(n,)`` would silently pair samples with factors if there are n samples.
        if baseline.ndim and (baseline.shape[:-1] != self.shape or baseline.shape[-1] not in (1, self.n)):
            raise ValueError(
                f"baseline: got shape {baseline.shape}, want {(*self.shape, self.n)}, one value per sample and factor, "
                f"or {(*self.shape, 1)}, one per sample"
            )
        return credits - baseline

    def check_product_form(self, factorisation: Factorisation | None) -> None:
        check_where_known(self.log_prob, self.params, self.actions, self.obs, factorisation)
