"""The PPO of RLlib 0.7, with which the paper's traffic lights learn, as the method ``"rllib07"``.

There each light is an agent, and all share a policy. Defaults are those of RLlib 0.7, except for settings of `Config`.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp

from factorax._checks import Count, NotNegative, Positive
from factorax.ppo.config import Hyper
from factorax.ppo.credits import Credit, Rollout
from factorax.ppo.losses import clipped_loss, joint, standardise
from factorax.ppo.method import Learned, Method, Metrics, Minibatches, Outputs, Samples
from factorax.ppo.minibatches import shuffled
from factorax.spec import Spec
from factorax.structure import BaseNetwork, InfluenceNetwork

from .factor_samples import check_factors, evaluate, one_of, split, spread_of


@dataclass(frozen=True)
class RLlib07(Method):
    """PPO as in RLlib 0.7: L_PPO + β E KL(old ‖ new), where β is adapted to the divergence of each update."""

    ratio: Literal["factor", "joint"] = "factor"
    """factor: one ratio and credit per factor. joint: one of each for the joint action, as with a single agent."""
    minibatch_of: Literal["factors", "steps"] = "factors"
    """Unit of batch_size: the action of one factor in one step, or steps with the actions of all factors."""
    shuffle: Literal["rollout", "epoch"] = "rollout"
    """When minibatches are drawn: once, in another order in each pass and without a remainder, or in each pass."""
    gae_steps: Count | None = 200
    """Length of the fragments within which advantages are estimated; it must divide n_steps. None: whole rollouts."""
    bootstrap: Literal["never", "auto"] = "never"
    """Value at the end of an episode. never: 0, so that truncation counts as termination. auto: by its flags."""
    normalize_over: Literal["rollout", "minibatch"] = "rollout"
    """Credits that are standardised together, with normalize_advantage."""
    kl_coef: NotNegative = 0.2
    """Initial weight β of the penalty."""
    kl_target: Positive | None = 0.01
    """β grows by half above twice this divergence, and is halved below half of it; None: β is constant."""
    kl_of: Literal["auto", "factor", "action"] = "auto"
    """Divergence compared with kl_target: the mean over factors, or their sum. auto: action for a joint ratio."""
    adam_eps: Positive = 1e-8  # type: ignore[misc]
    """ε in the denominator of the Adam optimizer."""

    title: ClassVar[str] = "PPO of RLlib 0.7"
    reference: ClassVar[str] = "Liang et al. (2018)"
    # Only the problem tells how many samples a rollout has; `critic` compares them with batch_size.
    divides_rollout: ClassVar[bool] = False

    def network(self, spec: Spec) -> BaseNetwork:
        """Return the problem's network, or one row of ones for a joint ratio."""
        return spec.network if self.ratio == "factor" else InfluenceNetwork.complete(1, spec.n_targets)

    def critic(self, update: Any, policy: Any, key: jax.Array) -> Any:
        """Return the critic, as factored PPO; raise ValueError if the settings do not fit the problem."""
        critic, c, size = super().critic(update, policy, key), update.config, update.config.rollout_steps
        if self.minibatch_of == "factors":
            check_factors(update.spec, c, policy, critic)
            size *= update.spec.n_factors
        if size < c.batch_size or (self.shuffle == "epoch" and size % c.batch_size):
            raise ValueError(
                f"batch_size: got {c.batch_size}, want a divisor of the {size} samples of a rollout, or with "
                "shuffle=rollout any smaller number"
            )
        if self.gae_steps is not None and c.n_steps % self.gae_steps:
            raise ValueError(f"gae_steps: got {self.gae_steps}, want a divisor of n_steps = {c.n_steps}")
        if policy.memory or (critic is not None and critic.memory):
            raise ValueError(f"architecture: got {c.architecture} with method rllib07, want networks without memory")
        return critic

    def credit(
        self, update: Any, learned: Learned, rollout: Rollout, k: Any, hyper: Hyper, key: jax.Array
    ) -> tuple[Learned, Credit]:
        """Return the credit of every factor, from advantages within fragments, standardised over the rollout."""
        # The end of a fragment is a truncation: it ends the sum of GAE, and bootstraps from the next observation.
        last = jnp.arange(1, len(rollout.psi) + 1) % (self.gae_steps or len(rollout.psi)) == 0
        terminated = rollout.ended if self.bootstrap == "never" else rollout.terminated
        rollout = rollout._replace(terminated=terminated, truncated=rollout.truncated | last[:, None])
        learned, credit = super().credit(update, learned, rollout, k, hyper, key)
        if not update.config.normalize_advantage or self.normalize_over == "minibatch":
            return learned, credit
        return learned, credit._replace(credit=_standardised(credit.credit, rollout.factor_mask))

    def policy_loss(self, log_ratio: jax.Array, credit: jax.Array, hyper: Hyper) -> jax.Array:
        """Return the clipped loss, with one ratio per factor or one of the joint action."""
        return clipped_loss(joint(log_ratio) if self.ratio == "joint" else log_ratio, credit, hyper.clip_range)

    def loss(
        self, update: Any, outputs: Outputs, samples: Samples, hyper: Hyper, carried: Any = None
    ) -> tuple[jax.Array, jax.Array]:
        """Return the loss of a minibatch, with the penalty and a pessimistic value loss, and log r of its factors."""
        c, (out, values), (kl_coef, acting) = update.config, outputs, carried
        components, by_factor = update.spec.components, update.spec.by_factor
        if self.minibatch_of == "factors":
            components, acting = one_of(components), spread_of(acting, samples.local)
        log_ratio = (by_factor(components.log_prob(*out, samples.action)) - samples.log_prob) * samples.acted
        per_minibatch = c.normalize_advantage and self.normalize_over == "minibatch"
        credit = standardise(samples.credit, samples.acted) if per_minibatch else samples.credit
        entropy = (by_factor(components.entropy(*out)) * samples.acted).sum(axis=-1).mean()
        # The divergence of the distributions, as in RLlib, not its estimate from the actions taken.
        kl = (by_factor(components.kl((samples.parameters, acting), out)) * samples.acted).sum(axis=-1).mean()
        errors = (samples.returns - values) ** 2
        if c.clip_range_vf is not None:  # the larger error, where Stable-Baselines3 has the clipped one
            near = samples.value + jnp.clip(values - samples.value, -c.clip_range_vf, c.clip_range_vf)
            errors = jnp.maximum(errors, (samples.returns - near) ** 2)
        policy_loss = self.policy_loss(log_ratio, credit, hyper)
        return policy_loss - hyper.ent_coef * entropy + hyper.vf_coef * errors.mean() + kl_coef * kl, log_ratio

    def minibatches(
        self, update: Any, learned: Learned, samples: Samples, hyper: Hyper, key: jax.Array
    ) -> tuple[Learned, Minibatches]:
        """Return minibatches of steps or of single factors, drawn in each pass or once."""
        rows, outputs = samples._replace(memory=None, critic_memory=None, starts=None), partial(self.evaluate, update)
        if self.minibatch_of == "factors":
            rows, outputs = split(learned[0], rows), evaluate
        size, batch = len(rows.action), update.config.batch_size
        # A key of its own: the passes split the other one.
        once = shuffled(jax.random.fold_in(key, 2), size)[: size // batch * batch].reshape(-1, batch)
        orders = {
            "rollout": lambda key: once[shuffled(key, len(once))],
            "epoch": lambda key: shuffled(key, size).reshape(-1, batch),
        }
        return learned, Minibatches(orders[self.shuffle], lambda i: jax.tree.map(lambda x: x[i], rows), outputs)

    def init_state(self) -> jax.Array:
        """Return β before training."""
        return jnp.float32(self.kl_coef)

    def next_state(self, state: Any, metrics: Metrics) -> Any:
        """Return β for the next update."""
        if self.kl_target is None:
            return state
        # RLlib has the mean over the last pass, whose first minibatches still have a policy nearer to the acting one.
        of_action = self.ratio == "joint" if self.kl_of == "auto" else self.kl_of == "action"
        kl = metrics["factor/kl"].sum() if of_action else metrics["train/kl"]
        return state * jnp.where(kl > 2 * self.kl_target, 1.5, jnp.where(kl < self.kl_target / 2, 0.5, 1.0))


def _standardised(credit: jax.Array, mask: Any) -> jax.Array:
    """Return credits with mean 0 and deviation 1 over a rollout: the biased one, at least 1e-4, as in RLlib."""
    acted = jnp.ones_like(credit) if mask is None or credit.shape[-1] < mask.shape[-1] else mask.astype(credit.dtype)
    count = jnp.maximum(acted.sum(), 1)
    mean = (credit * acted).sum() / count
    deviation = jnp.sqrt((acted * (credit - mean) ** 2).sum() / count)
    return (credit - mean) / jnp.maximum(deviation, 1e-4)
