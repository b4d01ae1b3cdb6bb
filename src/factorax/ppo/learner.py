"""`Learner`: training as two pure functions, `init` and `update`."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.tree_util import Partial

from .._arrays import zeros_of
from .._checks import Seed, check_number, check_type, checked, is_traced
from .._credit import credit
from .._xla import separately
from ..networks.architectures import NO_MODULES, OwnModules, check_init, looks_at_local, make_agent, runs_in_numpy
from ..networks.custom import seen_shape
from ..networks.jax_policy import JaxPolicy, ModuleArrays
from ..networks.numpy_policy import NumpyPolicy
from ..networks.policies import Agent, Policy
from ..observations import ObservationSpace
from ..rollouts.collector import Behaviour, Collector
from ..rollouts.factory import collector_for
from ..rollouts.settings import Inline, Processes, Ray, Rollouts
from ..rollouts.transitions import Transition
from ..spec import Spec
from ..structure import InfluenceNetwork
from ..structure.base_network import RolloutView
from . import devices
from .adaptive import AdaptiveNetwork
from .advantages import TrainingBatch, starts
from .combinations import check_identity, check_memory, check_own_modules
from .config import Config
from .counterfactual import CounterfactualUpdate, check_critic
from .diagnostics import Evidence
from .factor_samples import FactorUpdate
from .fused_layers import without_gradients
from .hints import warn_if_dense, warn_if_open_loop, warn_if_unscaled
from .metrics import Metrics
from .state import RunningMoments, TrainState, initial_state
from .step_samples import StepUpdate
from .update import Update

LARGEST_SEEN = 2**28
"""Size up to which local observations of a rollout are stored: 1 GiB."""
_FOR_NEXT_ACTIONS = 2**31 - 1
"""Folded into the key of a state, whose splits are used for other purposes."""


@dataclass(frozen=True, eq=False)
class Learner:
    """Training on one problem with one set of settings, as pure functions of a `TrainState`."""

    spec: Spec
    config: Config
    own: OwnModules = NO_MODULES
    """The user's own networks and initialiser."""

    @classmethod
    def of(
        cls,
        problem: Any,
        network: Any = None,
        config: Config | None = None,
        *,
        weights: Any = None,
        local: Any = None,
        neighbours: Any = None,
        policy: Any = None,
        critic: Any = None,
        init: Any = None,
        own_size: bool = False,
    ) -> "Learner":
        """Create a learner for a problem; arguments left out are taken from the problem.

        - `network`: as for `FactoredPPO`; ``"adaptive"`` starts with all edges.
        - `policy`, `critic`: a module, or a function of a `Spec` and a key that returns one; None for those of
          `config`.
        - `init`: a function of a key, a shape and a dtype that returns initial weights; None for that of `config`.
        - `own_size`: whether to use the `num_envs` of a vector environment as `n_envs`.
        """
        config = Config() if config is None else config
        check_type("config", config, Config, "a Config, or None for its defaults")
        checked("own_size", own_size, bool)
        adaptive = isinstance(network, str)
        if adaptive and network != "adaptive":
            raise ValueError(
                f"network: got {network!r}, want 'adaptive', or a network (InfluenceNetwork.load reads a file)"
            )
        rollouts = rollouts_of(config)
        if isinstance(rollouts, Processes) and hasattr(problem, "measure_in_worker"):
            problem.measure_in_worker(rollouts.seconds)
        options: dict[str, Any] = {"weights": weights, "local": local, "neighbours": neighbours}
        options |= {"bounded": config.bounded, "covariance": config.covariance, "std": config.std}
        spec = Spec.of(problem, None if adaptive else network, **options)
        if not adaptive:
            warn_if_dense(spec, config)
            warn_if_open_loop(spec, config)
        else:
            spec = spec.with_network(AdaptiveNetwork.from_complete(spec.network.static))
        warn_if_unscaled(spec, config)
        if own_size and spec.num_envs is not None:
            config = dataclasses.replace(config, n_envs=spec.num_envs)
        if init is not None:
            config = dataclasses.replace(config, init="custom")
        return cls(spec, config, OwnModules(policy, critic, init))

    def __post_init__(self) -> None:
        check_type("spec", self.spec, Spec, "a Spec, such as Spec.of(problem) returns")
        check_type("config", self.config, Config, "a Config")
        check_type("own", self.own, OwnModules, "OwnModules")
        object.__setattr__(self, "config", self.config.for_problem(self.spec))
        check_identity(self.spec, self.config, self.own)
        check_init(self.config, self.own)
        check_own_modules(self.config, self.own)
        self.spec.network.check_settings(self.config)
        check_critic(self.spec, self.config)
        check_memory(self.config, self._example)
        _ = self.rule, self.collector  # raise if settings do not fit the problem

    @cached_property
    def devices(self) -> Mesh | None:
        """The devices that share the environments of a JAX problem; None for a single device."""
        devices.local_devices(self.config)  # raises if there is no such device
        return devices.mesh(self.config) if self.spec.is_jax else None

    @cached_property
    def rule(self) -> Update:
        """The losses and the update of the agent."""
        kind = FactorUpdate if self.config.minibatch_of == "factors" else StepUpdate
        if self.config.is_counterfactual:
            kind = CounterfactualUpdate
        return kind(self.spec, self.config, self.devices, self.see if self.sees_later else None)

    @cached_property
    def sees_later(self) -> bool:
        """Whether local observations are omitted from batches and computed where needed: if they are large and only
        minibatches of steps use them."""
        c = self.config
        plain = c.minibatch_of == "steps" and c.objective != "natural" and not c.variance_report
        if not plain or c.is_counterfactual or c.is_recurrent or not looks_at_local(self.spec, c, self.own):
            return False
        if self.own.has_network:  # these may be recurrent
            return False
        shape = seen_shape(self.spec)
        return shape is not None and c.rollout_steps * shape[0] * shape[1] > LARGEST_SEEN

    @cached_property
    def collector(self) -> Collector:
        """The collector of the problem. It starts nothing here: a `Program` has its own collector."""
        return self.new_collector()

    def new_collector(self) -> Collector:
        """Return a new collector, which may start environments and workers."""
        c = self.config
        return collector_for(
            self.spec,
            rollouts=rollouts_of(c),
            n_envs=c.n_envs,
            n_steps=c.n_steps,
            seed=c.seed,
            policy=self._worker_policy(),
        )

    def _worker_policy(self) -> NumpyPolicy | JaxPolicy:
        """Return the policy that workers evaluate, with NumPy if it has only our own layers."""
        spec, c, policy = self.spec, self.config, self._example.policy
        if not runs_in_numpy(c, self.own):
            return JaxPolicy(spec.components, WorkerNetwork.of(spec, c, policy), spec.local, policy.memory)
        return NumpyPolicy(
            space=spec.components,
            kind=c.policy,
            factors=spec.factors,
            local=None if c.policy == "joint" else spec.local,
            observations=None if spec.observations.is_plain else spec.observations,
            activation=c.activation,
            by_choice=c.architecture == "choices",
            mask=spec.action_mask,
        )

    @cached_property
    def _example(self) -> Agent:
        """The structure and shapes of the agent."""
        key = jax.eval_shape(lambda: jax.random.key(0))
        return eqx.filter_eval_shape(lambda key: make_agent(self.spec, self.config, self.own, key, key), key)

    def init(self, seed: int | jax.Array | None = None, **hyper: Any) -> TrainState:
        """Return the state before training. `hyper` overrides settings by the names of `Hyper`.

        To train several seeds and settings in parallel, vectorise over both:

        >>> import jax, jax.numpy as jnp
        >>> from factorax.ppo import Config, Learner
        >>> from factorax.problems import contextual_bandit
        >>> config = Config(n_envs=4, n_steps=4, batch_size=16, n_epochs=1, hidden=(8,))
        >>> learner = Learner.of(contextual_bandit(4), config=config)
        >>> grid = jax.jit(jax.vmap(lambda seed, rate: learner.init(seed, learning_rate=rate)))
        >>> states = grid(jnp.array([0, 0, 1, 1]), jnp.array([1e-3, 3e-3, 1e-3, 3e-3]))
        >>> states, metrics = jax.jit(jax.vmap(learner.update))(states)
        >>> metrics["train/loss"].shape
        (4,)
        """
        check_number("seed", seed, Seed | None)
        if getattr(jax.config, "jax_enable_x64", False):
            raise ValueError(
                "jax_enable_x64: got True, want False: agents are trained in single precision, and only some of their "
                "arrays would be doubles. Train inside `with jax.enable_x64(False):` if other code needs doubles"
            )
        state = initial_state(
            self.spec,
            self.config,
            self.own,
            key=jax.random.key(self.config.seed if seed is None else seed),
            environments=self.collector.init,
            optimiser=self.rule.optimiser(),
            hyper=hyper,
        )
        # where `update` returns it, which would be compiled again for states on other devices
        return state if is_traced(state.timesteps) else devices.place(self.devices, state, self.config)

    def update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """Collect a rollout of a JAX problem and learn from it.

        A pure function: compile it, vectorise it over seeds.
        """
        if not self.collector.traced:
            raise TypeError(
                "update: is a pure function only for JAX problems; use Program(learner).update for environments that "
                "are stepped outside of JAX"
            )
        return self.learn_from_traced(*self.collect(state))

    def collect(self, state: TrainState) -> tuple[TrainState, Transition]:
        """Return the state after a rollout of a JAX problem, and the rollout, ``[T, B, ...]``. Pure."""
        environments, key, transitions = self.collector.collect(self.behaviour(state), state.environments, state.key)
        return state._replace(environments=environments, key=key), transitions

    def learn_from_traced(self, state: TrainState, transitions: Transition) -> tuple[TrainState, Metrics]:
        """`learn_from`, for a rollout that the host has not looked at: the metrics say where it is not finite."""
        new, metrics = self.learn_from(state, transitions)
        return new, metrics | {"rollout/not_finite": _first_not_finite(transitions)}

    def act(self, state: TrainState, key: jax.Array, obs: jax.Array, deterministic: bool = False) -> jax.Array:
        """Return flat actions for raw observations ``(..., d)``."""
        return self.behaviour(state).act(key, obs, deterministic=deterministic)

    def behaviour(self, state: TrainState) -> Behaviour:
        """Return the policy of a state, for the code that steps the environments."""
        policy, moments = state.agent.policy, state.obs
        # Arrays are passed as arguments, so that one compiled program serves all states.
        act = Partial(self._choose, policy, moments)

        def arrays() -> Any:
            if not runs_in_numpy(self.config, self.own):
                return module_arrays(policy, moments if self.config.normalize_obs else None)
            if not self.config.normalize_obs:
                return policy.to_numpy()
            return policy.to_numpy(moments.mean, np.sqrt(np.asarray(moments.variance) + np.float32(1e-8)))

        return Behaviour(act, arrays, state.timesteps)

    def _choose(
        self,
        policy: Policy,
        moments: RunningMoments,
        key: jax.Array,
        obs: jax.Array,
        memory: Any = None,
        deterministic: Any = False,
        among: tuple[jax.Array, int] | None = None,
    ) -> Any:
        obs = self.normalised(moments, obs)
        with without_gradients():
            (parameters, spread), memory = policy.step(obs, self.see(obs), memory)
        components = self.spec.components

        def sampled() -> jax.Array:
            if among is None:
                return components.sample(key, parameters, spread)
            first, count = among  # draw for all, so that actions do not depend on how a rollout is divided
            of_all = jnp.zeros((count, *parameters.shape[1:]), parameters.dtype)
            of_all = jax.lax.dynamic_update_slice_in_dim(of_all, parameters, first, axis=0)
            return jax.lax.dynamic_slice_in_dim(components.sample(key, of_all, spread), first, len(parameters), axis=0)

        if isinstance(deterministic, bool):
            actions = components.mode(parameters) if deterministic else sampled()
        else:  # a value of the program
            both = components.mode(parameters), sampled()
            actions = jnp.where(deterministic, *both)
        return (actions, memory) if policy.memory else actions

    def normalised(self, moments: RunningMoments, obs: jax.Array) -> jax.Array:
        """Return observations in the form that the agent receives."""
        return moments.normalised(obs, self.spec.observations.measured) if self.config.normalize_obs else obs

    def see(self, obs: jax.Array) -> Any:
        """Return local observations ``(..., c, l)``; None if there are none, or no network uses them."""
        return self.spec.see(obs, jnp) if looks_at_local(self.spec, self.config, self.own) else None

    def _seen(self, obs: jax.Array, lengths: jax.Array) -> Any:
        """Return the local observations of a rollout, given the lengths of its episodes, which are never negative. XLA
        would compute them again for each of the networks and for the samples."""
        nothing = zeros_of(self.see, obs)
        return None if nothing is None else separately(lambda: self.see(obs), nothing, lengths)

    def learn_from(self, state: TrainState, transitions: Transition) -> tuple[TrainState, Metrics]:
        """Update the state from the transitions of a rollout, ``[T, B, ...]``."""
        c, network = self.config, self.rule.network
        batch, reward, discounted = self.training_batch(state, transitions)
        batch, critic_memory = self._remembered(state, batch)
        evidence = Evidence(
            spec=self.spec,
            agent=state.agent,
            batch=batch._replace(local=self.see(batch.obs))
            if self.sees_later
            else batch,  # computed only if it is used
            advantages=lambda: self.rule.target_advantages(state.agent, batch, state.hyper),
        )
        k = network.for_rollout(state.network, self.rollout_view(state, transitions))
        key, for_update = jax.random.split(state.key)
        agent, optimiser, kl_coef, metrics = self.rule.learn(
            state.agent,
            state.optimiser,
            batch,
            kl_coef=state.kl_coef,
            key=for_update,
            k=k,
            hyper=c.annealed(state.hyper, state.timesteps),
        )
        network_state, network_metrics = self.spec.network.update_state(state.network, evidence)
        missing = state.missing_edges
        if missing is not None:
            missing = missing.updated(evidence.location_scores, evidence.scores.inner, evidence.advantage)
        new = state._replace(
            agent=agent,
            optimiser=optimiser,
            kl_coef=kl_coef,
            obs=state.obs.updated(transitions.obs) if c.normalize_obs else state.obs,
            reward=reward,
            discounted=discounted,
            key=key,
            timesteps=state.timesteps + c.n_envs * c.n_steps,
            network=network_state,
            missing_edges=missing,
            critic_memory=critic_memory,
        )
        return new, metrics | network_metrics | self._episode_metrics(transitions)

    def training_batch(
        self, state: TrainState, transitions: Transition
    ) -> tuple[TrainingBatch, RunningMoments, jax.Array]:
        """Return a rollout with normalised observations and targets, the moments of returns, and the returns in
        progress."""
        c, t = self.config, transitions

        def accumulate(total: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            total = total * state.hyper.gamma + step[0]
            return jnp.where(step[1], 0.0, total), total

        steps = self._objective(t.psi), t.terminated | t.truncated
        discounted, history = jax.lax.scan(accumulate, state.discounted, steps)
        reward = state.reward.updated(history) if c.normalize_reward else state.reward
        obs, next_obs = self.normalised(state.obs, t.obs), self.normalised(state.obs, t.next_obs)
        batch = TrainingBatch(
            obs=obs,
            local=None if self.sees_later else self._seen(obs, t.episode_length),
            action=t.action,
            psi=c.reward_scale * (t.psi / jnp.sqrt(reward.variance + 1e-8) if c.normalize_reward else t.psi),
            next_obs=next_obs,
            terminated=t.terminated,
            truncated=t.truncated,
            factor_mask=t.factor_mask,
            target_terminated=t.target_terminated,
            log_prob=t.log_prob,
            memory=t.memory,
            next_action=self._next_action(state, next_obs) if c.critic == "q" else None,
        )
        return batch, reward, discounted

    def _next_action(self, state: TrainState, next_obs: jax.Array) -> jax.Array:
        """Return the policy's actions at the next observations."""
        key = jax.random.fold_in(state.key, _FOR_NEXT_ACTIONS)
        return self.spec.components.sample(key, *state.agent.policy(next_obs, self.see(next_obs)))

    def _remembered(self, state: TrainState, batch: TrainingBatch) -> tuple[TrainingBatch, jax.Array | None]:
        """Return the batch with the memory of a recurrent critic before each step, and its memory after the last."""
        critic, memory = state.agent.critic, state.critic_memory
        if critic is None or memory is None:
            return batch, None
        begins = starts(batch)
        _, after = critic.unroll(batch.obs, batch.local, memory, begins)
        before = jnp.where(begins[..., None], 0.0, jnp.concatenate([memory[None], after[:-1]]))
        ended = (batch.terminated | batch.truncated)[-1]
        return batch._replace(critic_memory=before), jnp.where(ended[:, None], 0.0, after[-1])

    def rollout_view(self, state: TrainState, transitions: Transition) -> RolloutView:
        """Return what the network may use to choose K for a rollout."""
        obs, mask = transitions.obs, transitions.factor_mask
        info = {name: obs[..., start:end] for name, start, end in self.spec.observed_info}
        return RolloutView(state.timesteps, obs, info if mask is None else info | {"factor_mask": mask})

    def _objective(self, psi: jax.Array) -> jax.Array:
        """Return λ·ψ."""
        return credit(InfluenceNetwork.complete(1, self.spec.n_targets), psi, self.spec.weights)[..., 0]

    def _episode_metrics(self, transitions: Transition) -> Metrics:
        """Return means over the episodes that ended; NaN if none did."""
        count = (transitions.episode_length > 0).sum()
        missing = 0.0 if getattr(jax.config, "jax_debug_nans", False) else jnp.nan  # or it would report this NaN

        def mean(total: jax.Array) -> jax.Array:
            return jnp.where(count > 0, total / jnp.maximum(count, 1), missing)

        targets = mean(transitions.episode_psi.sum(axis=(0, 1)))
        return {
            "rollout/episodes": count,
            "rollout/ep_len_mean": mean(transitions.episode_length.sum()),
            "rollout/ep_targets_mean": targets,
            "rollout/ep_rew_mean": self._objective(targets),
        }


def _first_not_finite(transitions: Transition) -> jax.Array:
    """Return step, environment and target (m: the observation) of the first non-finite value; −1 if there is none."""
    psi, obs = transitions.psi, transitions.next_obs
    bad = jnp.concatenate([~jnp.isfinite(psi), ~jnp.isfinite(obs).all(axis=-1, keepdims=True)], axis=-1)
    where = jnp.stack(jnp.unravel_index(bad.argmax(), bad.shape))
    return jnp.where(bad.any(), where, -1)


def rollouts_of(c: Config) -> Rollouts:
    """Return how environments are stepped."""
    if c.rollouts == "inline":
        return Inline(c.fragment_seconds)
    if c.rollouts == "processes":
        return Processes(c.workers, c.fragment_seconds, c.overlap)
    return Ray(c.workers, c.fragment_seconds, c.overlap, c.ray_address, c.worker_cpus)


@dataclass(frozen=True, eq=False)
class WorkerNetwork:
    """Maps the leaves of a policy and of the moments of observations, and observations, to the policy's output."""

    template: tuple[Policy, RunningMoments | None]
    """Defines the structure; its arrays are not used."""
    observations: ObservationSpace
    factors: np.ndarray | None
    """The factor of each component, ``(c,)``; None if each component is a factor."""

    @classmethod
    def of(cls, spec: Spec, config: Config, policy: Policy) -> "WorkerNetwork":
        """Create the function for policies of this structure."""
        moments = RunningMoments.of((spec.n_inputs,)) if config.normalize_obs else None
        template = jax.tree.map(lambda x: np.zeros(np.shape(x), x.dtype), (policy, moments))
        return cls(template, spec.observations, spec.factors)

    def __call__(self, leaves: Sequence[Any], rows: Any, memory: Any, local: Any) -> tuple[Any, Any]:
        """Return parameters ``(B, c, width)`` and memory for rows of observations ``(B, d)``."""
        policy, moments = jax.tree.unflatten(jax.tree.structure(self.template), leaves)
        obs = rows if moments is None else moments.normalised(rows, self.observations.measured)
        local_obs = None
        if local is not None:
            local_obs = jnp.asarray(
                local(obs if self.observations.is_plain else self.observations.structured(obs, jnp))
            )
            local_obs = local_obs if self.factors is None else local_obs[..., self.factors, :]
        (parameters, _), memory = policy.step(obs, local_obs, memory)
        return parameters, memory


def module_arrays(policy: Policy, moments: RunningMoments | None) -> ModuleArrays:
    """Return the arrays of a policy, in the order of its leaves, for workers."""
    log_std, colour = policy.spread_in_numpy()
    return ModuleArrays(tuple(np.asarray(leaf) for leaf in jax.tree.leaves((policy, moments))), log_std, colour)
