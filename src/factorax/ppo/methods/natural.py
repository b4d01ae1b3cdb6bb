"""Natural policy gradient with factored credit."""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.scipy.sparse.linalg import cg

from ..._checks import NotNegative, Positive
from ...networks import Agent
from ..config import Hyper
from ..losses import policy_gradient_loss
from ..method import Learned, Method, Minibatches, Outputs, Samples

_ITERATIONS = 15  # conjugate-gradient steps: more would fit the noise of the batch


@dataclass(frozen=True)
class Natural(Method):
    """Natural policy gradient (Kakade, 2002): one step F⁻¹g of the policy on all samples, then passes for the critic.

    The step has the length at which the KL divergence is `kl` per factor, in the quadratic approximation.
    """

    kl: Positive = 0.01
    """KL divergence per factor of one policy step."""
    damping: NotNegative = 0.1
    """Damping added to the diagonal of the Fisher matrix F."""

    title: ClassVar[str] = "natural policy gradient"
    reference: ClassVar[str] = "Kakade (2002)"
    equation: ClassVar[str] = "Cᵢ = [K(λ∘A)]ᵢ, in one step F⁻¹g"
    has_ratios: ClassVar[bool] = False

    def policy_loss(self, log_ratio: jax.Array, credit: jax.Array, hyper: Hyper) -> jax.Array:
        """Return a loss without a gradient: the policy has already made its step."""
        return jax.lax.stop_gradient(policy_gradient_loss(log_ratio, credit))

    def minibatches(
        self, update: Any, learned: Learned, samples: Samples, hyper: Hyper, key: jax.Array
    ) -> tuple[Learned, Minibatches]:
        """Take the step of the policy, and return minibatches for the critic alone."""
        (agent, moments), old, n_steps = learned, learned[0].policy, update.config.n_steps
        acting = samples.parameters, old.spread
        credit = update.loss_credit(samples)
        arrays, rest = eqx.partition(old, eqx.is_array)

        def outputs(arrays: Any) -> Any:
            return super(Natural, self).evaluate(update, Agent(eqx.combine(arrays, rest), None), samples, n_steps)[0]

        def loss(arrays: Any) -> jax.Array:
            log_ratio = update.log_prob(outputs(arrays), samples.action) - samples.log_prob
            return policy_gradient_loss(log_ratio * samples.acted, credit)

        def divergence(arrays: Any) -> jax.Array:
            return (update.divergence(acting, outputs(arrays)) * samples.acted).sum(axis=-1).mean()

        # Forward mode is faster, but networks with a gradient of their own, as recurrent ones, do not support it.
        fisher = fisher_product(divergence, arrays, forward=not old.memory)
        size = 2 * update.spec.n_factors * self.kl
        new = natural_step(arrays, jax.grad(loss)(arrays), fisher, damping=self.damping, size=size)
        _, minibatches = super().minibatches(update, learned, samples, hyper, key)
        return (Agent(eqx.combine(new, rest), agent.critic), moments), minibatches

    def evaluate(self, update: Any, agent: Agent, samples: Samples, length: int = 1) -> Outputs:
        """Return the outputs of policy and critic; the value loss must not move layers that they share."""
        return super().evaluate(update, Agent(jax.lax.stop_gradient(agent.policy), agent.critic), samples, length)


def fisher_product(divergence: Any, arrays: Any, *, forward: bool) -> Any:
    """Return the product v ↦ F v with the Hessian F of a divergence at its minimum."""
    if forward:
        return lambda v: jax.jvp(jax.grad(divergence), (arrays,), (v,))[1]
    return lambda v: jax.vjp(jax.grad(divergence), arrays)[1](v)[0]  # F is symmetric


def natural_step(arrays: Any, gradient: Any, fisher: Any, *, damping: float, size: float) -> Any:
    """Return parameters after a step x along −(F + damping)⁻¹ g with xᵀ F x = `size`."""
    damped = lambda v: jax.tree.map(lambda f, x: f + damping * x, fisher(v), v)  # noqa: E731
    direction = cg(damped, gradient, maxiter=_ITERATIONS)[0]
    curvature = optax.tree.vdot(direction, fisher(direction))
    scale = jnp.sqrt(size / jnp.maximum(curvature, 1e-12))
    return jax.tree.map(lambda p, x: p - scale * x, arrays, direction)
