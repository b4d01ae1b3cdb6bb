"""What a critic predicts, and how its values become the credit of every factor.

K is applied in one of two orders:

- `Target`, GAE then K: Cᵢ = [K(λ∘A)]ᵢ, from the advantage Aⱼ of every target;
- `Factor`, K then GAE: Cᵢ is the advantage of factor i's reward [K(λ∘ψ)]ᵢ, with a value of its own.

Both estimate the same gradient. The default, ``critic="auto"``, and with it all presets, is the second for a fixed
network of several targets, and the first for a network that varies and for one target.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from .._credit import credit
from ..choices import Choice, Menu
from ..structure import BaseNetwork
from .losses import gae


class Rollout(NamedTuple):
    """A rollout as an update reads it, with time and environments first: ``[T, B, ...]``."""

    obs: jax.Array
    local: jax.Array | None
    """Local observations of the components, ``[T, B, c, l]``; None if no network uses them."""
    action: jax.Array
    """Raw actions, ``[T, B, c]``."""
    psi: jax.Array
    """The targets, ``[T, B, m]``."""
    next_obs: jax.Array
    """The next observation; at the end of an episode, its last observation."""
    terminated: jax.Array
    """``[T, B]``"""
    truncated: jax.Array
    factor_mask: jax.Array | None = None
    """Which factors acted, ``[T, B, n]``."""
    target_terminated: jax.Array | None = None
    """Which targets have ended, ``[T, B, m]``."""
    log_prob: jax.Array | None = None
    """Log-probability of each component under the acting policy, ``[T, B, c]``; None if that is the agent's."""
    memory: jax.Array | None = None
    """Memory of a recurrent policy before it acted, ``[T, B, h]``."""
    critic_memory: jax.Array | None = None
    """Memory of a recurrent critic before each step, ``[T, B, h]``; None if it has no memory of its own."""

    @property
    def ended(self) -> jax.Array:
        """Whether the episode ended with a step, ``[T, B]``."""
        return self.terminated | self.truncated

    @property
    def starts(self) -> jax.Array:
        """Whether an episode starts with a step, ``[T, B]``, except for the first step of a rollout."""
        return jnp.concatenate([jnp.zeros_like(self.ended[:1]), self.ended[:-1]])  # the collector has reset step 0

    @property
    def all_terminated(self) -> jax.Array:
        """Which targets end with a step, by themselves or with their episode, ``[T, B, m]`` or ``[T, B, 1]``."""
        of_episode = self.terminated[..., None]  # not `truncated`: what would have followed has a value
        return of_episode if self.target_terminated is None else of_episode | self.target_terminated


class Estimates(NamedTuple):
    """Estimates for each target of a rollout, or for the credit of each factor, ``[T, B, v]`` unless stated
    otherwise."""

    advantage: jax.Array
    value: jax.Array
    """v(s_t), the prediction of the critic."""
    returns: jax.Array
    """v + advantage."""
    next_value: jax.Array
    """Value of the next observation."""
    terminated: jax.Array
    """``[T, B, v]`` or ``[T, B, 1]``."""
    ended: jax.Array
    """Terminated or truncated, ``[T, B, 1]``."""
    gamma: Any
    factor_value: jax.Array | None = None
    """Additional predictions of the critic for the network (`BaseNetwork.n_factor_values`), ``[T, B, n]``."""

    @classmethod
    def of(cls, psi: Any, value: Any, next_value: Any, terminated: Any, rollout: Rollout, hyper: Any) -> "Estimates":
        """Return the estimates of rewards psi by generalised advantage estimation."""
        common = {"terminated": terminated, "ended": rollout.ended[..., None], "gamma": hyper.gamma}
        advantage, returns = gae(psi, value, next_value, **common, trace=hyper.gae_lambda)
        return cls(advantage, value, returns, next_value, **common)

    def returns_from(self, lags: Iterable[int]) -> Iterator[jax.Array]:
        """Yield γ^ℓ R(t + ℓ) for each lag ℓ, in increasing order: the part of the return that comes ℓ or more steps
        later.

        If the episode or the rollout ends before t + ℓ, the value of its last observation replaces later rewards.

        >>> whole, zeros = jnp.array([[7.0], [6.0], [4.0]]), jnp.zeros((3, 1))
        >>> ended = jnp.array([[False], [False], [True]])
        >>> estimates = Estimates(whole, zeros, whole, zeros, terminated=ended, ended=ended, gamma=1.0)
        >>> [x[:, 0].tolist() for x in estimates.returns_from([0, 2])]
        [[7.0, 6.0, 4.0], [4.0, 0.0, 0.0]]
        """
        continues = 1.0 - jnp.asarray(self.terminated, jnp.float32)
        after = self.gamma * continues * self.next_value
        ended = jnp.broadcast_to(self.ended, after.shape)

        def shift(later: jax.Array, _: None) -> tuple[jax.Array, None]:
            """Map γ^ℓ R(t + ℓ) to γ^(ℓ+1) R(t + ℓ + 1); where that lies beyond an end, the value there."""
            shifted = (self.gamma * continues)[:-1] * later[1:]
            return jnp.concatenate([jnp.where(ended[:-1], after[:-1], shifted), after[-1:]]), None

        later, reached = self.returns, 0  # each lag continues from the one before: T steps for each unit of the largest
        for lag in lags:
            later, _ = jax.lax.scan(shift, later, length=lag - reached)
            reached = lag
            yield later


class Credit(NamedTuple):
    """The credit of every factor, and what the critic learns."""

    credit: jax.Array
    """Cᵢ, ``[T, B, n]``."""
    value: jax.Array
    """Predictions of the critic, ``[T, B, v]``."""
    returns: jax.Array
    """What it should have predicted, ``[T, B, v]``."""


@dataclass(frozen=True)
class Critic(Choice):
    """What a critic predicts, and how its values become credit; ``"auto"`` before the problem is known.

    With ``trunk="shared"`` it is a linear layer on the policy's hidden layers, which both losses then train; ``"auto"``
    does so for recurrent architectures, so that the critic uses the policy's memory.
    """

    trunk: Literal["auto", "separate", "shared"] = "auto"
    module: Any = None
    """The user's network, or a function of a `Spec` and a key that returns one; None for a built-in one."""

    def n_values(self, network: BaseNetwork) -> int:
        """Return the number of values that the critic predicts for an observation."""
        raise TypeError("critic: 'auto' must be resolved for a problem first")

    def credit(
        self, network: BaseNetwork, k: Any, weights: Any, rollout: Rollout, values: tuple[Any, Any], hyper: Any
    ) -> Credit:
        """Return the credit of every factor in a rollout.

        - `k`: K for this rollout, from the network's `for_rollout`; `weights`: λ.
        - `values`: predictions for the observations and the next observations, ``[T, B, v]`` each.
        - `hyper`: γ and the λ of GAE.
        """
        raise TypeError("critic: 'auto' must be resolved for a problem first")


@dataclass(frozen=True)
class Target(Critic):
    """One value per target, vⱼ ≈ E Σ γˡ ψⱼ: Cᵢ = [K(λ∘A)]ᵢ, with Aⱼ from GAE of every target.

    Unbiased for any K that has all edges, also one that varies from step to step; but the variance grows with the
    number of targets that a factor influences.
    """

    def n_values(self, network: BaseNetwork) -> int:
        """Return m, and the number of values of factors that the network asks for."""
        return network.static.shape[1] + network.n_factor_values

    def credit(
        self, network: BaseNetwork, k: Any, weights: Any, rollout: Rollout, values: tuple[Any, Any], hyper: Any
    ) -> Credit:
        """Return [K(λ∘A)]; a network of lags replaces A by the part of the return that comes after its lags."""
        estimates = self.estimates(network, rollout, values, hyper)  # their errors add up over the targets of a factor
        return Credit(*network.credit_rollout(k, estimates, lambda k, x: credit(k, x, weights)))

    def estimates(self, network: BaseNetwork, rollout: Rollout, values: tuple[Any, Any], hyper: Any) -> Estimates:
        """Return the estimates for each target, ``[T, B, m]``."""
        m = network.static.shape[1]
        value, next_value = (x[..., :m] for x in values)  # values of factors follow those of targets
        of_targets = Estimates.of(rollout.psi, value, next_value, rollout.all_terminated, rollout, hyper)
        return of_targets._replace(factor_value=values[0][..., m:])


@dataclass(frozen=True)
class Factor(Critic):
    """One value per factor, vᵢ ≈ E Σ γˡ [K(λ∘ψ)]ᵢ: Cᵢ is its advantage, from GAE of the factor's reward [K(λ∘ψ)]ᵢ.

    The critic predicts exactly what the factor is credited with, so the noise of single targets averages out before it
    is learnt; in return K must be the same at every step, and each factor's value is learnt on its own.
    """

    def n_values(self, network: BaseNetwork) -> int:
        """Return n."""
        return network.static.shape[0]

    def credit(
        self, network: BaseNetwork, k: Any, weights: Any, rollout: Rollout, values: tuple[Any, Any], hyper: Any
    ) -> Credit:
        """Return the advantage of [K(λ∘ψ)] by GAE."""
        reward, terminated = factor_rewards(k, weights, rollout)
        of_factors = Estimates.of(reward, *values, terminated, rollout, hyper)
        return Credit(of_factors.advantage, of_factors.value, of_factors.returns)


def factor_rewards(k: Any, weights: Any, rollout: Rollout) -> tuple[jax.Array, jax.Array]:
    """Return the reward of every factor, [K(λ∘ψ)], ``[T, B, n]``, and which factors end, ``[T, B, n]`` or ``[T, B,
    1]``."""
    terminated = rollout.all_terminated
    if terminated.shape[-1] != 1:  # a factor continues while one of its targets does
        terminated = credit(k, (~terminated).astype(jnp.float32)) == 0
    return credit(k, rollout.psi, weights), terminated


class NoCritic(Target):
    """No critic, values of 0: Cᵢ = [K(λ∘G)]ᵢ with the λ-returns G; with ``gae_lambda=1``, REINFORCE."""

    def estimates(self, network: BaseNetwork, rollout: Rollout, values: Any, hyper: Any) -> Estimates:
        """Return the returns of each target, ``[T, B, m]``."""
        zeros = jnp.zeros_like(rollout.psi)  # also at a truncation: nothing estimates what would have followed
        return super().estimates(network, rollout, (zeros, zeros), hyper)._replace(factor_value=None)


CRITICS = Menu(
    "critic",
    {"auto": Critic, "target": Target, "factor": Factor, "none": NoCritic},
    {"value": "target", "v": "target", "targets": "target", "factors": "factor", "no": "none"},
)
