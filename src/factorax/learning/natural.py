"""The natural gradient: the step that improves the objective most for a given change of the *policy*.

    θ ← θ + β x,    (F + damping·I) x = g,    β = √(2 n δ / xᵀ F x)

with g = E Σᵢ ∇log πᵢ Cᵢ, δ the KL divergence allowed per factor, and F = Σᵢ Fᵢ the Fisher matrix of a factored policy:
there are no cross terms between factors, whether or not they share parameters. F is averaged over the states of the
batch and exact in the actions: the second derivative of the KL divergence.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.sparse.linalg import cg

from .policies import Policy

_ITERATIONS = 15  # conjugate-gradient steps: more would fit the noise of the batch


def natural_step(
    policy: Policy,
    *,
    loss: Callable[[Policy], jax.Array],
    divergence: Callable[[Policy], jax.Array],
    length: float,
    damping: float,
    forward: bool = True,
) -> Policy:
    """Return the policy after one natural-gradient step.

    - `loss`: the function to decrease, −E Σᵢ log πᵢ Cᵢ or another with the same gradient.
    - `divergence`: KL(π ‖ a policy) of each factor, ``(N, n)``.
    - `length`: δ; `damping`: added to the diagonal of F.
    - `forward`: whether F v may use forward-mode differentiation, which is faster; not if a network has a custom
      gradient.
    """
    params, rest = eqx.partition(policy, eqx.is_array)

    def kl(params: Any) -> jax.Array:
        return divergence(eqx.combine(params, rest)).sum(axis=-1).mean()

    def fisher(v: Any) -> Any:
        if forward:
            return jax.jvp(jax.grad(kl), (params,), (v,))[1]
        return jax.vjp(jax.grad(kl), params)[1](v)[0]  # F is symmetric

    gradient = jax.grad(lambda params: loss(eqx.combine(params, rest)))(params)
    damped = lambda v: jax.tree.map(lambda f, x: f + damping * x, fisher(v), v)  # noqa: E731
    direction = cg(damped, gradient, maxiter=_ITERATIONS)[0]
    curvature = optax.tree.vdot(direction, fisher(direction))
    n_factors = jax.eval_shape(divergence, policy).shape[-1]
    scale = jnp.sqrt(2 * n_factors * length / jnp.maximum(curvature, 1e-12))
    return eqx.combine(jax.tree.map(lambda p, x: p - scale * x, params, direction), rest)
