"""Methods that credit all factors with the whole objective, PPO and MAPPO, and A2C, which has no ratios."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ...spec import Spec
from ...structure import InfluenceNetwork
from ..config import Config, Hyper
from ..credits import Credit, Rollout
from ..losses import clipped_loss, joint, policy_gradient_loss
from ..method import Learned, Method


@dataclass(frozen=True)
class Ppo(Method):
    """Textbook PPO (Schulman et al., 2017): one ratio and one advantage of λ·ψ for the joint action.

        L = −E min(r A, clip(r, 1 ± ε) A),    r = ∏ᵢ rᵢ

    In terms of this library: K is one row of ones.
    """

    title: ClassVar[str] = "PPO"
    reference: ClassVar[str] = "Schulman et al. (2017)"
    equation: ClassVar[str] = "C = A of λ·ψ, with the joint ratio ∏ᵢ rᵢ"
    settings: ClassVar[dict[str, Any]] = {"policy": "joint"}

    def network(self, spec: Spec) -> InfluenceNetwork:
        """Return one row of ones."""
        return InfluenceNetwork.complete(1, spec.n_targets)

    def policy_loss(self, log_ratio: jax.Array, credit: jax.Array, hyper: Hyper) -> jax.Array:
        """Return the clipped loss of the joint ratio, given one credit for the joint action, ``(N, 1)``."""
        return clipped_loss(joint(log_ratio), credit, hyper.clip_range)


@dataclass(frozen=True)
class Mappo(Method):
    """MAPPO (Yu et al., 2022): one ratio per factor, and the advantage of λ·ψ by one central critic for all."""

    title: ClassVar[str] = "MAPPO"
    reference: ClassVar[str] = "Yu et al. (2022)"
    equation: ClassVar[str] = "Cᵢ = A of λ·ψ, by one central critic"
    settings: ClassVar[dict[str, Any]] = {"policy": "shared"}

    def network(self, spec: Spec) -> InfluenceNetwork:
        """Return one row of ones."""
        return InfluenceNetwork.complete(1, spec.n_targets)

    def credit(
        self, update: Any, learned: Learned, rollout: Rollout, k: Any, hyper: Hyper, key: jax.Array
    ) -> tuple[Learned, Credit]:
        """Return the same credit for every factor."""
        learned, one = super().credit(update, learned, rollout, k, hyper, key)
        shape = (*one.credit.shape[:-1], update.spec.n_factors)
        return learned, one._replace(credit=jnp.broadcast_to(one.credit, shape))


@dataclass(frozen=True)
class A2c(Method):
    """Advantage actor–critic (Mnih et al., 2016) with factored credit: the plain policy gradient, in one pass.

    ∇L = −E Σᵢ ∇log πᵢ Cᵢ
    """

    title: ClassVar[str] = "A2C"
    reference: ClassVar[str] = "Mnih et al. (2016)"
    has_ratios: ClassVar[bool] = False

    def policy_loss(self, log_ratio: jax.Array, credit: jax.Array, hyper: Hyper) -> jax.Array:
        """Return a loss with the gradient −E Σᵢ ∇log πᵢ Cᵢ."""
        return policy_gradient_loss(log_ratio, credit)

    def passes(self, config: Config) -> int:
        """Return 1: without ratios, a second pass would be off-policy."""
        return 1
