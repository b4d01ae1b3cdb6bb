"""Difference rewards with a learned model of the reward."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from ...networks import Agent
from ..config import Hyper
from ..credits import Credit, Estimates, Rollout
from .counterfactual import Counterfactual


@dataclass(frozen=True)
class DifferenceRewards(Counterfactual):
    """Difference rewards (Wolpert and Tumer, 2002; Dr.Reinforce, Castellini et al., 2021).

        Cᵢ = Σ_l γˡ rᵢ,ₜ₊ₗ − Rᵢ(s, (default, a₋ᵢ))

    The critic is a model Rᵢ of the reward rᵢ = [K(λ∘ψ)]ᵢ, the total reward if K is complete, as in the publication.
    """

    default_action: tuple[float, ...] = ()
    """Action with which a factor's action is compared, one number per component or one for all. Empty: the mean over
    the factor's policy, which requires discrete actions."""
    at: Literal["first", "every"] = "first"
    """Whether the counterfactual reward is subtracted only at the step of the action, which is unbiased, or also at
    every later step, as published, which keeps only immediate rewards."""

    title: ClassVar[str] = "Dr.Reinforce"
    reference: ClassVar[str] = "Castellini et al. (2021)"
    equation: ClassVar[str] = "Cᵢ = Σ_l γˡ rᵢ,ₜ₊ₗ − Rᵢ(s, (default, a₋ᵢ))"

    @property
    def default(self) -> tuple[float, ...]:
        """The default action."""
        return self.default_action

    def compared(
        self, update: Any, agent: Agent, rollout: Rollout, reward: jax.Array, terminated: Any, hyper: Hyper, key: Any
    ) -> Credit:
        """Return the return minus the counterfactual reward; the critic should predict the reward."""
        inputs = rollout.obs, rollout.local, rollout.action
        instead, zeros = self.instead(update, agent, *inputs), jnp.zeros_like(reward)
        # Subtracted at every later step as well, it cancels delayed effects in expectation: the gradient is myopic.
        kept = reward - instead if self.at == "every" else reward
        undiscounted = hyper._replace(gae_lambda=1.0)  # with values of 0, λ would discount a second time
        to_go = Estimates.of(kept, zeros, zeros, terminated, rollout, undiscounted).advantage
        return Credit(to_go if self.at == "every" else to_go - instead, self.value(update, agent, *inputs), reward)
