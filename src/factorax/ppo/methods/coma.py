"""COMA: counterfactual multi-agent policy gradients."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ...networks import Agent
from ..config import Hyper
from ..credits import Credit, Estimates, Rollout
from .counterfactual import Counterfactual


@dataclass(frozen=True)
class Coma(Counterfactual):
    """COMA (Foerster et al., 2018): Q of a factor's actions given those of all others, minus its mean.

        Cᵢ = Qᵢ(s, a) − Σ_b πᵢ(b|s) Qᵢ(s, (b, a₋ᵢ))

    Qᵢ is learnt from the rewards [K(λ∘ψ)]ᵢ, the total reward if K is complete, as in the publication.
    """

    title: ClassVar[str] = "COMA"
    reference: ClassVar[str] = "Foerster et al. (2018)"
    equation: ClassVar[str] = "Cᵢ = Qᵢ(s, a) − Σ_b πᵢ(b|s) Qᵢ(s, (b, a₋ᵢ))"
    # Its credits are differences of values, which a network learns only if the values are of order 1.
    settings: ClassVar[dict[str, Any]] = {"policy": "shared", "normalize_reward": True}

    def compared(
        self, update: Any, agent: Agent, rollout: Rollout, reward: jax.Array, terminated: Any, hyper: Hyper, key: Any
    ) -> Credit:
        """Return Q minus its mean over the factor's actions; Q should predict its own λ-returns."""
        inputs = rollout.obs, rollout.local, rollout.action
        value = self.value(update, agent, *inputs)
        local = update.local(rollout.next_obs)
        next_action = update.spec.components.sample(key, *agent.policy(rollout.next_obs, local))
        drawn = self.value(update, agent, rollout.next_obs, local, next_action)
        # Inside an episode the next action is known; at its end or that of the rollout, it is drawn from the policy.
        last = rollout.ended.at[-1].set(True)[..., None]
        next_value = jnp.where(last, drawn, jnp.roll(value, -1, axis=0))
        estimates = Estimates.of(reward, value, next_value, terminated, rollout, hyper)
        return Credit(value - self.instead(update, agent, *inputs), value, estimates.returns)
