"""The natural gradient: the step that improves the objective most for a given change of the *policy*.

    θ ← θ + β x,    (F + damping·I) x = g,    β = √(2 n δ / xᵀ F x)

with g = E Σᵢ ∇log πᵢ Cᵢ, δ the KL divergence that a factor may move by, and F = Σᵢ Fᵢ the Fisher matrix of a factored
policy: there are no cross terms between factors, shared parameters or not. F is that of the states of the batch, exact
in the actions: the second derivative of the KL divergence.
"""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.sparse.linalg import cg

if TYPE_CHECKING:
    from .config import Hyper
    from .networks import Policy
    from .ppo import Agent, Samples, Update

_ITERATIONS = 15  # of conjugate gradients: more find what the noise of a batch put there


def natural_step(rule: "Update", agent: "Agent", samples: "Samples", hyper: "Hyper") -> "Policy":
    """The policy one step further."""
    c = rule.config
    params, rest = eqx.partition(agent.policy, eqx.is_array)

    def loss(params: Any) -> jax.Array:
        policy = eqx.combine(params, rest)
        return rule.policy_loss(policy, samples, agent.policy.spread, jnp.float32(0.0), hyper)[0]

    def divergence(params: Any) -> jax.Array:
        out = eqx.combine(params, rest)(samples.obs, samples.local)
        return rule.divergence(samples, agent.policy.spread, out).sum(axis=-1).mean()

    def fisher(v: Any) -> Any:
        return jax.jvp(jax.grad(divergence), (params,), (v,))[1]

    gradient = jax.grad(loss)(params)
    damped = lambda v: jax.tree.map(lambda f, x: f + c.damping * x, fisher(v), v)  # noqa: E731
    direction = cg(damped, gradient, maxiter=_ITERATIONS)[0]
    curvature = optax.tree.vdot(direction, fisher(direction))
    assert c.kl_target is not None
    length = jnp.sqrt(2 * rule.n_factors * c.kl_target / jnp.maximum(curvature, 1e-12))
    return eqx.combine(jax.tree.map(lambda p, x: p - length * x, params, direction), rest)
