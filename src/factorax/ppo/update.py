"""One update of proximal policy optimisation, with one ratio and credit per factor.

    L = E Σᵢ min(rᵢ Cᵢ, clip(rᵢ, 1 ± ε) Cᵢ),    rᵢ = πᵢ(aᵢ|s) / πᵢ_old(aᵢ|s),    C = [K(λ∘A)]

with A the advantage of every target. With K all ones and the joint ratio ∏ᵢ rᵢ instead it is textbook PPO, the
estimator ``"vanilla"``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg
from jax.sharding import Mesh

from .._credit import credit
from .._xla import any_of_all
from ..distributions import Product, Spread
from ..networks.policies import Agent, Policy
from ..spec import Spec
from ..structure import BaseNetwork, InfluenceNetwork
from . import diagnostics
from .advantages import Estimates, Samples, TrainingBatch, ends, gae, starts
from .config import Config, Hyper
from .devices import shard_minibatch
from .epochs import fixed_minibatches, run_epochs, run_until, sequence_order, shuffled

JOINT_KL = "train/joint_kl"
"""The metric that `Config.target_kl` limits."""
ACTION_KL = "train/action_kl"
"""The KL divergence of the joint action."""

SEEN_AT_ONCE = 2**26
"""Maximum size of the local observations that are computed at once, if batches omit them."""
MAX_FLAT_SIZE = 2**20
"""Maximum size of the vector of all parameters during minibatches. Beyond it the copies would cost more than they
save."""


class Minibatches(NamedTuple):
    """How an update iterates over the samples of a rollout."""

    size: int
    """Number of samples."""
    take: Callable[[jax.Array], Samples]
    """Maps indices of samples to a minibatch."""
    loss: Callable[..., Any]
    """The function `Update.loss` for such a minibatch."""
    enter: Callable[[Any], Any] = lambda carry: carry
    """Maps an agent and its optimizer state to what minibatches update."""
    leave: Callable[[Any, Any], Any] = lambda carry, like: carry
    """The inverse; the second argument has the desired structure."""


@dataclass(frozen=True, eq=False)
class Update:
    """The pure functions of an update for one problem and one set of settings."""

    spec: Spec
    config: Config
    devices: Mesh | None = None
    """The devices that share a minibatch; None for a single device."""
    see: Callable[[jax.Array], Any] | None = None
    """Maps observations to local observations, if batches omit these because they are large; they are then computed
    per step or minibatch."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", self.config.for_problem(self.spec))

    @cached_property
    def network(self) -> BaseNetwork:
        """The network for credits: that of the spec, or one row of ones for the vanilla estimator."""
        vanilla = self.config.estimator == "vanilla"
        return InfluenceNetwork.complete(1, self.spec.n_targets) if vanilla else self.spec.network

    @cached_property
    def components(self) -> Product:
        """The distribution of the action of a sample."""
        return self.spec.components

    def log_prob(self, out: tuple[jax.Array, Spread], action: jax.Array) -> jax.Array:
        """Return log π of each factor, ``(..., n)``, given the output of the policy."""
        return self.spec.by_factor(self.components.log_prob(*out, action))

    def values(self, agent: Agent, obs: jax.Array, local: Any) -> jax.Array:
        """Return the critic's predictions, ``(..., v)``; zero if there is no critic."""
        if agent.critic is None:
            return jnp.zeros((*obs.shape[:-1], self.spec.n_targets))
        return agent.critic(obs, local, agent.policy)

    def over_steps(self, function: Callable[[jax.Array, Any], Any], obs: jax.Array, local: Any) -> Any:
        """Apply a function to observations ``[T, ...]`` and local observations; if batches omit the latter, they are
        computed for a few steps at a time."""
        see = self.see
        if see is None:
            return function(obs, local)
        most = max(SEEN_AT_ONCE // jax.eval_shape(see, obs[0]).size, 1)
        most = min(most, len(obs))
        without_rest = next(n for n in range(most, 0, -1) if len(obs) % n == 0)  # all steps are copied if some remain
        some = without_rest if 2 * without_rest > most else most
        return jax.lax.map(lambda row: function(row, see(row)), obs, batch_size=some)

    def rollout_values(self, agent: Agent, batch: TrainingBatch) -> tuple[jax.Array, jax.Array]:
        """Return the critic's predictions for the observations and next observations of a rollout, ``[T, B, v]``."""
        policy, critic = agent.policy, agent.critic
        if critic is not None and critic.remembers(policy):
            memory = batch.critic_memory if critic.memory else batch.memory
            now, memory = critic.step(batch.obs, batch.local, memory, policy)
            return now, critic.step(batch.next_obs, self.next_local(batch), memory, policy)[0]
        values = partial(self.values, agent)
        now = self.over_steps(values, batch.obs, batch.local)

        def following(batch: TrainingBatch) -> jax.Array:
            return self.over_steps(values, batch.next_obs, self.next_local(batch))

        if critic is None or jax.default_backend() != "cpu":  # on a GPU, the host would wait for the condition
            return now, following(batch)
        # Most next observations are those of the next step. NaN is unequal to itself.
        other = (batch.obs[1:] != batch.next_obs[:-1]).any()
        last = following(batch._replace(next_obs=batch.next_obs[-1:]))
        shifted = jnp.concatenate([now[1:], last])
        return now, jax.lax.cond(any_of_all(other), following, lambda _: shifted, batch)

    def next_local(self, batch: TrainingBatch) -> jax.Array | None:
        """Return the local observations of the next observations; None if batches have none."""
        return None if batch.local is None else self.spec.local_of(batch.next_obs, jnp)

    def outputs(self, policy: Policy, samples: Samples, length: int) -> tuple[jax.Array, Spread]:
        """Return the output of a policy for samples; for a recurrent one, sequences of this length with time first."""
        if not policy.memory:
            return policy(samples.obs, samples.local)
        parameters, spread = policy.unroll(*_sequences(samples, samples.memory, length))
        return parameters.reshape(-1, *parameters.shape[2:]), spread

    def evaluated(self, agent: Agent, samples: Samples, length: int) -> tuple[tuple[jax.Array, Spread], jax.Array]:
        """Return the output of the policy, as in `outputs`, and the critic's predictions for samples."""
        policy, critic = agent.policy, agent.critic
        if critic is None or not critic.remembers(policy):
            return self.outputs(policy, samples, length), self.values(agent, samples.obs, samples.local)
        flat = lambda x: x.reshape(-1, *x.shape[2:])  # noqa: E731
        if critic.memory:
            values, _ = critic.unroll(*_sequences(samples, samples.critic_memory, length))
            return self.outputs(policy, samples, length), flat(values)
        # One memory for both, so that it is computed only once.
        parameters, features = policy.unroll_with_features(*_sequences(samples, samples.memory, length))
        return (flat(parameters), policy.spread), flat(critic.net(features))

    def estimates(self, agent: Agent, batch: TrainingBatch, k: Any, hyper: Hyper) -> Estimates:
        """Return advantages, values and returns of each target, or of each factor's credit with a critic of factors."""
        c, m = self.config, self.spec.n_targets
        terminated, ended = ends(batch, c)
        value, following = self.rollout_values(agent, batch)
        psi, factor_value = batch.psi, None
        if c.critic_predicts_credit and agent.critic is not None:  # so K is applied first
            k = InfluenceNetwork.complete(1, m) if c.critic == "central" else k
            psi = credit(k, psi, self.spec.weights)
            if terminated.shape[-1] != 1:
                terminated = credit(k, (~terminated).astype(jnp.float32)) == 0  # none of its targets continues
        elif c.critic == "target":  # values of factors follow those of targets, if the network uses them
            value, factor_value, following = value[..., :m], value[..., m:], following[..., :m]
        common = {"terminated": terminated, "ended": ended, "gamma": hyper.gamma}
        advantage, returns = gae(psi, value, following, **common, trace=hyper.gae_lambda)
        return Estimates(
            advantage=advantage, value=value, returns=returns, next_value=following, **common, factor_value=factor_value
        )

    def target_advantages(self, agent: Agent, batch: TrainingBatch, hyper: Hyper) -> jax.Array:
        """Return the advantage of each target, ``(N, m)``; without a critic of targets, the centred λ-returns."""
        has_critic = self.config.critic == "target"
        estimates = self.estimates(agent if has_critic else Agent(agent.policy, None), batch, None, hyper)
        advantage = estimates.advantage.reshape(-1, self.spec.n_targets)
        return advantage if has_critic else advantage - advantage.mean(axis=0)

    def samples(self, agent: Agent, batch: TrainingBatch, k: Any = None, hyper: Hyper | None = None) -> Samples:
        """Return credits, returns and old log-probabilities of a rollout.

        - `k`: K for this rollout, as returned by `BaseNetwork.for_rollout`; by default the static network.
        - `hyper`: overrides the settings of the same names.
        """
        k, hyper = self.network.static if k is None else k, hyper or self.config.hyper
        estimates = self.estimates(agent, batch, k, hyper)
        factor_credit, value, returns = estimates.advantage, estimates.value, estimates.returns
        if self.config.critic == "central":  # the same for all factors
            shape = (*factor_credit.shape[:-1], self.network.static.shape[0])
            factor_credit = jnp.broadcast_to(factor_credit, shape)
        elif not self.config.critic_predicts_credit:
            apply = lambda k, x: credit(k, x, self.spec.weights)  # noqa: E731
            factor_credit, value, returns = self.network.credit_rollout(k, estimates, apply)
        if self.see is None:
            out = agent.policy.at(batch.obs, batch.local, batch.memory)
        else:
            parameters = self.over_steps(lambda obs, local: agent.policy(obs, local)[0], batch.obs, None)
            out = parameters, agent.policy.usable_spread
        old = self.log_prob(out, batch.action) if batch.log_prob is None else self.spec.by_factor(batch.log_prob)
        samples = Samples(
            obs=batch.obs,
            local=batch.local,
            action=batch.action,
            log_prob=old,
            parameters=out[0],
            credit=factor_credit,
            value=value,
            returns=returns,
            factor_mask=batch.factor_mask,
            memory=batch.memory,
            critic_memory=batch.critic_memory,
            starts=starts(batch) if self.recurrent(agent) else None,
        )
        return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)

    @staticmethod
    def recurrent(agent: Agent) -> bool:
        """Return whether a network of an agent is recurrent, so that minibatches consist of sequences."""
        return bool(agent.policy.memory or (agent.critic is not None and agent.critic.memory))

    def standardised(self, samples: Samples) -> jax.Array:
        """Return the credits, standardised with one common scale over the factors that acted, if the settings ask
        for it."""
        advantage = samples.credit
        if not self.config.normalize_advantage or advantage.size == 1:
            return advantage
        # As Stable-Baselines3 does within a minibatch, and RLlib over a rollout.
        over_rollout = self.config.normalize_over == "rollout"
        if samples.factor_mask is None or self.config.estimator == "vanilla":
            mean, deviation = advantage.mean(), advantage.std(ddof=0 if over_rollout else 1)
        else:
            acted = samples.factor_mask.astype(advantage.dtype)
            count = acted.sum()
            mean = (advantage * acted).sum() / jnp.maximum(count, 1)
            squares = (acted * (advantage - mean) ** 2).sum()
            deviation = jnp.sqrt(squares / jnp.maximum(count if over_rollout else count - 1, 1))
        return (advantage - mean) / (jnp.maximum(deviation, 1e-4) if over_rollout else deviation + 1e-8)

    def divergence(self, samples: Samples, old: Spread, out: tuple[jax.Array, Spread]) -> jax.Array:
        """Return KL(old ‖ new) of each factor that acted, ``(N, n)``, given the output of a policy."""
        kl = self.components.kl((samples.parameters, old), out)
        return self.spec.by_factor(kl) * self._acted(samples)

    def _acted(self, samples: Samples) -> jax.Array:
        mask = samples.factor_mask
        return jnp.ones_like(samples.log_prob) if mask is None else mask.astype(samples.log_prob.dtype)

    def loss(
        self, agent: Agent, samples: Samples, old: Spread, kl_coef: jax.Array, hyper: Hyper | None = None
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Return the loss of a minibatch and its metrics. `old` is the spread of the acting policy."""
        c, hyper = self.config, hyper or self.config.hyper
        out, value = self.evaluated(agent, samples, c.sequence_length)
        loss, metrics = self.policy_loss(out, samples, old, kl_coef, hyper)
        if c.objective == "natural":  # the policy has already made its step
            loss = jax.lax.stop_gradient(loss)
        errors = (samples.returns - value) ** 2
        if c.clip_range_vf is not None:
            value = samples.value + jnp.clip(value - samples.value, -c.clip_range_vf, c.clip_range_vf)
            clipped = (samples.returns - value) ** 2
            errors = jnp.maximum(errors, clipped) if c.pessimistic_vf else clipped
        value_loss = errors.mean()
        loss = loss + hyper.vf_coef * value_loss
        return loss, metrics | {"train/value_loss": value_loss, "train/loss": loss}

    def policy_loss(
        self, out: tuple[jax.Array, Spread], samples: Samples, old: Spread, kl_coef: jax.Array, hyper: Hyper
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Return the policy's part of the loss and its metrics, given the output of the policy."""
        c = self.config
        log_prob, acted = self.log_prob(out, samples.action), self._acted(samples)
        score, log_ratio = log_prob * acted, (log_prob - samples.log_prob) * acted
        entropy = self.spec.by_factor(self.components.entropy(*out)) * acted
        kl = self.divergence(samples, old, out)
        actions, joint = acted.sum(axis=0), log_ratio.sum(axis=-1)
        if c.estimator == "vanilla":
            score, log_ratio = (x.sum(axis=-1, keepdims=True) for x in (score, log_ratio))
            acted = jnp.ones_like(log_ratio)
        ratio = jnp.exp(log_ratio)
        advantage = samples.credit if c.normalize_over == "rollout" else self.standardised(samples)
        if c.objective == "ppo":
            clipped = jnp.clip(ratio, 1 - hyper.clip_range, 1 + hyper.clip_range)
            gain = jnp.minimum(ratio * advantage, clipped * advantage)
        else:
            gain = score * advantage
        policy_loss = -(gain * acted).sum(axis=-1).mean()
        loss = policy_loss - hyper.ent_coef * entropy.sum(axis=0).sum() / len(entropy)
        if c.kl_coef or c.kl_coef_target is not None:
            loss = loss + kl_coef * kl.sum(axis=-1).mean()
        outside = (jnp.abs(ratio - 1) > hyper.clip_range) * acted
        metrics = diagnostics.policy_metrics(
            policy_loss, entropy=entropy, kl=kl, log_ratio=log_ratio, outside=outside, acted=acted, actions=actions
        )
        if c.kl_coef_target is not None and c.kl_is_of_action:
            metrics[ACTION_KL] = kl.sum(axis=-1).mean()
        if c.estimator == "factored" and samples.component is None:
            metrics["factor/clip_fraction"] = outside.sum(axis=0) / jnp.maximum(actions, 1)
        if c.target_kl is not None:  # as `approx_kl` of Stable-Baselines3, which has one ratio for the joint action
            metrics[JOINT_KL] = (jnp.expm1(joint) - joint).mean()
        return loss, metrics

    def optimiser(self, hyper: Hyper | None = None) -> optax.GradientTransformation:
        """Return Adam with gradient clipping by global norm, if there is a limit."""
        hyper = hyper or self.config.hyper
        limit: Any = hyper.max_grad_norm
        cut = optax.identity() if limit is None else optax.clip_by_global_norm(limit)
        return optax.chain(cut, optax.adam(hyper.learning_rate, eps=self.config.adam_eps))

    def for_minibatches(self, agent: Agent, samples: Samples) -> "Minibatches":
        """Return the samples from which minibatches are drawn, and the loss of a minibatch."""
        return Minibatches(len(samples.action), lambda i: jax.tree.map(lambda x: x[i], samples), self.loss)

    def learn(
        self,
        agent: Agent,
        optimiser_state: Any,
        batch: TrainingBatch,
        *,
        kl_coef: jax.Array,
        key: jax.Array,
        k: Any = None,
        hyper: Hyper | None = None,
    ) -> tuple[Agent, Any, jax.Array, dict[str, jax.Array]]:
        """Run all epochs over one rollout; return the agent, the optimizer state, the weight of the KL penalty, and
        metrics."""
        c, hyper = self.config, hyper or self.config.hyper
        k = self.network.static if k is None else k
        optimiser, old = self.optimiser(hyper), agent.policy.spread
        samples = self.samples(agent, batch, k, hyper)
        standardised = self.standardised(samples)
        report = diagnostics.rollout_metrics(self.spec, c, agent, samples, standardised, self.see)
        if c.normalize_over == "rollout":
            samples = samples._replace(credit=standardised)
        if c.variance_report and c.estimator == "factored":
            advantage = self.target_advantages(agent, batch, hyper).reshape(batch.psi.shape)
            report |= diagnostics.variance_report(self.spec, agent, samples, advantage, k)
        if c.objective == "natural":
            outputs = lambda policy: self.outputs(policy, samples, c.n_steps)  # noqa: E731
            policy = natural_step(
                agent.policy,
                forward=not agent.policy.memory,
                loss=lambda policy: self.policy_loss(outputs(policy), samples, old, jnp.float32(0.0), hyper)[0],
                divergence=lambda policy: self.divergence(samples, old, outputs(policy)),
                length=c.natural_kl,
                damping=c.damping,
            )
            agent = eqx.tree_at(lambda a: a.policy, agent, policy)
        minibatches = self.for_minibatches(agent, samples)
        learnt, learnt_state = minibatches.enter((agent, optimiser_state))
        flat = FlatParameters(learnt) if FlatParameters.can_hold(learnt) else None
        loss = minibatches.loss if flat is None else lambda vector, *rest: minibatches.loss(flat.tree(vector), *rest)
        gradient_of = eqx.filter_value_and_grad(loss, has_aux=True)

        def minibatch(carry: tuple[Any, Any], indices: jax.Array) -> tuple[Any, Any]:
            learnt, state = carry
            part = shard_minibatch(self.devices, minibatches.take(indices))
            part = part if self.see is None else part._replace(local=self.see(part.obs))
            (_, metrics), gradient = gradient_of(learnt, part, old, kl_coef, hyper)
            updates, state = optimiser.update(gradient, state, learnt)
            return (eqx.apply_updates(learnt, updates), state), metrics | {"train/grad_norm": optax.tree.norm(gradient)}

        size = minibatches.size
        order = lambda key: shuffled(key, size).reshape(-1, c.batch_size)  # noqa: E731
        if self.recurrent(agent):
            order = lambda key: sequence_order(key, c.n_envs, c.n_steps, c.sequence_length, c.batch_size)  # noqa: E731
        if c.shuffle == "rollout":
            key, once = jax.random.split(key)
            order = fixed_minibatches(shuffled(once, size), c.batch_size)
        run = run_epochs if c.target_kl is None else partial(run_until, measure=JOINT_KL, limit=1.5 * c.target_kl)
        keys = jax.random.split(key, c.passes)
        begin = (learnt, learnt_state) if flat is None else (flat.vector, flat.flat_state(learnt_state))
        carry, last = run(minibatch, begin, keys, order)
        if flat is not None:
            carry = flat.tree(carry[0]), flat.full_state(carry[1], learnt_state)
        agent, optimiser_state = minibatches.leave(carry, (agent, optimiser_state))
        if c.kl_coef_target is not None:
            kl = last[ACTION_KL if c.kl_is_of_action else "train/kl"]
            kl_coef = kl_coef * jnp.where(
                kl > 2 * c.kl_coef_target, 1.5, jnp.where(kl < c.kl_coef_target / 2, 0.5, 1.0)
            )
        last |= {"train/kl_coef": kl_coef, "train/learning_rate": jnp.asarray(hyper.learning_rate)}
        return agent, optimiser_state, kl_coef, last | report


def _sequences(samples: Samples, memory: Any, length: int) -> tuple[Any, ...]:
    """Return observations, local observations, initial memory, and starts of sequences ``(L, S, ...)``."""

    def fold(x: Any) -> Any:
        return None if x is None else x.reshape(length, -1, *x.shape[1:])

    return fold(samples.obs), fold(samples.local), fold(memory)[0], fold(samples.starts)


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


class FlatParameters:
    """Conversion of the trained arrays of a tree, and of optimizer moments, to single vectors and back.

    Adam on one vector is one loop, and the norm of a gradient one sum, where each takes several operations for every
    array of a network. Results are the same, except for the order in which the norm is summed.
    """

    def __init__(self, tree: Any):
        self._learnt, self._rest = eqx.partition(tree, eqx.is_inexact_array)
        self._structure = jax.tree.structure(self._learnt)
        self.vector, self._unravel = ravel_pytree(self._learnt)

    @staticmethod
    def can_hold(tree: Any) -> bool:
        """Return whether the trained arrays of a tree are several, of one type, and small."""
        leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
        return len(leaves) > 1 and len({x.dtype for x in leaves}) == 1 and sum(x.size for x in leaves) <= MAX_FLAT_SIZE

    def tree(self, vector: jax.Array) -> Any:
        """Return the tree with the entries of a vector."""
        return eqx.combine(self._unravel(vector), self._rest)

    def flat_state(self, state: Any) -> Any:
        """Return an optimizer state with a vector instead of each tree like that of the parameters."""
        flat = lambda part: ravel_pytree(part)[0] if self._is_tree(part) else part  # noqa: E731
        return jax.tree.map(flat, state, is_leaf=self._is_tree)

    def full_state(self, flat: Any, like: Any) -> Any:
        """Return the state from which `flat_state` was computed; `like` has its structure."""
        leaves, structure = jax.tree.flatten(like, is_leaf=self._is_tree)
        vectors = jax.tree.leaves(flat)
        parts = [self._unravel(x) if self._is_tree(y) else x for x, y in zip(vectors, leaves, strict=True)]
        return jax.tree.unflatten(structure, parts)

    def _is_tree(self, part: Any) -> bool:
        return jax.tree.structure(part) == self._structure
