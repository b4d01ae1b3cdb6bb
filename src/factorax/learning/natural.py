"""The natural gradient: the step that improves the objective most for a given change of the *policy*.

    θ ← θ + β x,    (F + damping·I) x = g,    β = √(2 n δ / xᵀ F x)

with g = E Σᵢ ∇log πᵢ Cᵢ, δ the KL divergence that a factor may move by, and F = Σᵢ Fᵢ the Fisher matrix of a factored
policy: there are no cross terms between factors, whether they share parameters or not. F is taken over the states of
the batch, and is exact in the actions: the second derivative of the KL divergence.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.sparse.linalg import cg

from .policies import Policy

_ITERATIONS = 15  # of conjugate gradients: more would fit the noise of the batch


def natural_step(
    policy: Policy,
    *,
    loss: Callable[[Policy], jax.Array],
    divergence: Callable[[Policy], jax.Array],
    length: float,
    damping: float,
    forward: bool = True,
) -> Policy:
    """Return the policy one step further.

    - `loss`: what is to fall, −E Σᵢ log πᵢ Cᵢ or another with the same gradient here.
    - `divergence`: KL(π ‖ a policy) of every factor, ``(N, n)``.
    - `length`: δ; `damping`: what is added to the diagonal of F.
    - `forward`: whether F v may be differentiated forward, which is faster; not so if a network has its own gradient.
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
