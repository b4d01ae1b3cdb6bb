"""`Learner`: training as two pure functions, `init` and `update`."""

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from .._arrays import zeros, zeros_of
from .._checks import Seed, check_number, check_type
from .._credit import credit
from ..networks import Agent, Policy, make_policy, policy_arrays, policy_features, worker_policy
from ..rollouts import Behaviour, Collector, Processes, Transition, collector_for
from ..spec import Spec
from ..structure import BaseNetwork, InfluenceNetwork
from ..structure.base_network import RolloutView, TrainingSizes
from .adaptive import AdaptiveNetwork
from .config import Config, check_hyper
from .credits import Rollout
from .diagnostics import Evidence
from .hints import warn_if_dense, warn_if_open_loop, warn_if_unscaled
from .metrics import Metrics
from .missing_edges import MissingEdges
from .model_files import save_model
from .state import RunningMoments, TrainState
from .update import Update


@dataclass(frozen=True, eq=False)
class Learner:
    """Training on one problem with one set of settings, as pure functions of a `TrainState`."""

    spec: Spec
    config: Config
    place: Callable[[Any], Any] = lambda samples: samples
    """Applied to each minibatch, for example to distribute it over devices."""

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
        own_size: bool = False,
    ) -> "Learner":
        """Create a learner for a problem; arguments left out are taken from the problem.

        - `network`: as for `FactoredPPO`; ``"adaptive"`` starts with all edges.
        - `own_size`: whether to use the `num_envs` of a vector environment as `n_envs`.
        """
        config = Config() if config is None else config
        check_type("config", config, Config, "a Config, or None for its defaults")
        is_adaptive = isinstance(network, str)
        if is_adaptive and network != "adaptive":
            raise ValueError(
                f"network: got {network!r}, want 'adaptive', or a network (InfluenceNetwork.load reads a file)"
            )
        if isinstance(config.rollouts, Processes) and hasattr(problem, "measure_in_worker"):
            problem.measure_in_worker(config.rollouts.seconds)  # no environment is then made in this process
        options: dict[str, Any] = {"weights": weights, "local": local, "neighbours": neighbours}
        spec = Spec.of(problem, None if is_adaptive else network, **options, distribution=config.distribution)
        if is_adaptive:
            spec = spec.with_network(AdaptiveNetwork.from_complete(spec.network.static))
        if own_size and spec.num_envs is not None:
            config = dataclasses.replace(config, n_envs=spec.num_envs)
        learner = cls(spec, config)
        if learner.network is spec.network and not is_adaptive:
            warn_if_dense(spec, config)
            warn_if_open_loop(spec, config)
        warn_if_unscaled(spec, config)
        return learner

    def __post_init__(self) -> None:
        check_type("spec", self.spec, Spec, "a Spec, such as Spec.of(problem) returns")
        check_type("config", self.config, Config, "a Config")
        config = self.config.for_problem(self.spec)
        object.__setattr__(self, "config", config)
        self.network.check_settings(config)
        length = self._example.sequence_length
        for name in ("n_steps", "batch_size"):
            if length and getattr(config, name) % length:
                raise ValueError(f"sequence_length: got {length}, want a divisor of {name} = {getattr(config, name)}")
        _ = self.collector  # raises if settings do not fit the problem

    @cached_property
    def rule(self) -> Update:
        """The update of the agent."""
        return Update(self.spec, self.config, self.place)

    @property
    def network(self) -> BaseNetwork:
        """The network that credits the factors."""
        return self.rule.network

    @cached_property
    def collector(self) -> Collector:
        """The collector of the problem. It starts nothing here: a compiled learner has a collector of its own."""
        return self.new_collector()

    def new_collector(self) -> Collector:
        """Return a new collector, which may start environments and workers."""
        c, policy = self.config, self._example.policy
        # The gradient of log r is that of log π whatever policy acted: only a ratio that is a factor corrects for it.
        if isinstance(c.rollouts, Processes) and c.rollouts.overlap and not c.method.has_ratios:
            raise ValueError(
                f"rollouts: got overlap=true with method={c.method.name!r}, which has no ratios that correct for the "
                "policy of one update ago; want overlap=false, or a method that has, such as 'factored'"
            )
        return collector_for(
            self.spec,
            rollouts=c.rollouts,
            n_envs=c.n_envs,
            n_steps=c.n_steps,
            seed=c.seed,
            policy=worker_policy(self.spec, c, policy),
        )

    @cached_property
    def _example(self) -> Agent:
        """The structure and shapes of the agent."""
        return eqx.filter_eval_shape(lambda: self._agent(jax.random.key(0), jax.random.key(0)))

    def _agent(self, for_policy: jax.Array, for_critic: jax.Array) -> Agent:
        policy = make_policy(self.spec, self.config, for_policy)
        return Agent(policy, self.config.method.critic(self.rule, policy, for_critic))

    def init(self, seed: int | jax.Array | None = None, **hyper: Any) -> TrainState:
        """Return the state before training, for a seed or a PRNG key. `hyper` overrides settings by the names of
        `Hyper`.

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
        spec, c = self.spec, self.config
        _check_single_precision()
        unknown = hyper.keys() - set(c.hyper._fields)
        if unknown:
            raise ValueError(
                f"hyper: got {', '.join(sorted(unknown))}, want some of {', '.join(c.hyper._fields)}; pass other "
                "settings to Config, since they change the program"
            )
        for name, value in hyper.items():
            check_hyper(name, value)
        # Separate keys, so that another critic changes neither the policy nor the first episodes of a seed.
        key, for_policy, for_critic, for_environments = jax.random.split(_key(c.seed if seed is None else seed), 4)
        agent = self._agent(for_policy, for_critic)
        features = 1 + policy_features(spec, agent.policy).shape[-1]
        sizes = TrainingSizes(
            n_components=len(spec.components),
            n_factors=spec.n_factors,
            n_targets=spec.n_targets,
            score_size=spec.components.width * features,
            grouped=spec.factors is not None,
        )
        is_tested = c.check_network and self.network.is_fixed and self.network is spec.network
        is_tested = is_tested and self.network.static.density < 1  # a complete network lacks no edge
        return TrainState(
            agent=agent,
            optimiser=zeros_of(c.method.optimiser(c.hyper).init, eqx.filter(agent, eqx.is_inexact_array)),
            method=c.method.init_state(),
            obs=RunningMoments.of((spec.n_inputs,)),
            reward=RunningMoments.of(()),
            discounted=zeros(c.n_envs),
            environments=self.collector.init(for_environments),
            key=key,
            timesteps=jnp.int32(0),
            hyper=jax.tree.map(jnp.float32, c.hyper._replace(**hyper)),
            network=self.network.init_state(sizes),
            missing_edges=MissingEdges.start(len(spec.components), features, spec.n_targets) if is_tested else None,
            critic_memory=zeros((c.n_envs, agent.critic_memory)) if agent.critic_memory else None,
        )

    def update(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """Collect a rollout of a JAX problem and learn from it.

        A pure function: compile it, scan it over updates, vectorise it over seeds.
        """
        if not self.collector.traced:
            raise TypeError(
                "update: is a pure function only for JAX problems; environments that are stepped outside of JAX are "
                "trained by FactoredPPO.learn, or by learn_from with transitions of your own"
            )
        state, transitions = self.collect(state)
        new, metrics = self.learn_from(state, transitions)
        return new, metrics | {"rollout/not_finite": _first_not_finite(transitions)}

    def collect(self, state: TrainState) -> tuple[TrainState, Transition]:
        """Return the state after a rollout of a JAX problem, and the rollout, ``[T, B, ...]``. Pure."""
        environments, key, transitions = self.collector.collect(self.behaviour(state), state.environments, state.key)
        return state._replace(environments=environments, key=key), transitions

    def save(self, path: str | os.PathLike[str], state: TrainState) -> None:
        """Write a state and the settings to a file, from which ``FactoredPPO.load(path, problem)`` makes a model."""
        save_model(path, self.spec, self.config, state)

    def act(self, state: TrainState, key: jax.Array, obs: jax.Array, deterministic: bool = False) -> jax.Array:
        """Return flat actions for raw observations ``(..., d)``."""
        return self.behaviour(state).act(key, obs, deterministic=deterministic)

    def behaviour(self, state: TrainState) -> Behaviour:
        """Return the policy of a state, for the code that steps the environments."""
        policy, moments = state.agent.policy, state.obs if self.config.normalize_obs else None
        # Arrays are passed as arguments, so that one compiled program serves all states.
        return Behaviour(Partial(self._act, policy, state.obs), lambda: policy_arrays(policy, moments), state.timesteps)

    def _act(
        self,
        policy: Policy,
        moments: RunningMoments,
        key: jax.Array,
        obs: jax.Array,
        memory: Any = None,
        deterministic: Any = False,
    ) -> Any:
        """Return flat actions, and the memory of a recurrent policy; `deterministic` may be traced."""
        obs = self.normalised(moments, obs)
        (parameters, spread), memory = policy.step(obs, self.rule.local(obs), memory)
        components = self.spec.components
        sampled, mode = components.sample(key, parameters, spread), components.mode(parameters)
        actions = jnp.where(deterministic, mode, sampled)
        return (actions, memory) if policy.memory else actions

    def normalised(self, moments: RunningMoments, obs: jax.Array) -> jax.Array:
        """Return observations in the form that the agent receives."""
        return moments.normalised(obs, self.spec.observations.measured) if self.config.normalize_obs else obs

    def learn_from(self, state: TrainState, transitions: Transition) -> tuple[TrainState, Metrics]:
        """Update the state from the transitions of a rollout, ``[T, B, ...]``. Pure."""
        c, network = self.config, self.network
        rollout, reward, discounted = self.rollout(state, transitions)
        before, critic_memory = state.agent.critic_memories(
            rollout.obs, rollout.local, state.critic_memory, rollout.starts, rollout.ended[-1]
        )
        rollout = rollout._replace(critic_memory=before)
        key, for_update = jax.random.split(state.key)
        # Of the agent that acted: scores of the new one would not have mean zero on these samples.
        evidence = Evidence(self.rule, state.agent, rollout, state.hyper)
        agent, optimiser, method, metrics = self.rule.learn(
            state.agent,
            state.optimiser,
            rollout,
            key=for_update,
            k=network.for_rollout(state.network, self.rollout_view(state, transitions)),
            hyper=c.annealed(state.hyper, state.timesteps),  # without this rollout, which Stable-Baselines3 counts
            state=state.method,
        )
        network_state, network_metrics = network.update_state(state.network, evidence)
        missing = state.missing_edges
        if missing is not None:
            missing = missing.updated(evidence.location_scores, evidence.scores.inner, evidence.advantage)
        new = state._replace(
            agent=agent,
            optimiser=optimiser,
            method=method,
            # After the update, which must normalise as the policy did when it acted.
            obs=state.obs.updated(transitions.obs) if c.normalize_obs else state.obs,
            reward=reward,
            discounted=discounted,
            key=key,
            timesteps=state.timesteps + c.rollout_steps,
            network=network_state,
            missing_edges=missing,
            critic_memory=critic_memory,
        )
        return new, metrics | network_metrics | self._episode_metrics(transitions)

    def rollout(self, state: TrainState, transitions: Transition) -> tuple[Rollout, RunningMoments, jax.Array]:
        """Return a rollout with normalised observations and targets, the moments of returns, and the returns in
        progress."""
        c, t = self.config, transitions

        def accumulate(total: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            total = total * state.hyper.gamma + step[0]
            return jnp.where(step[1], 0.0, total), total

        scale, reward, discounted = c.reward_scale, state.reward, state.discounted
        if c.normalize_reward:
            steps = self._objective(t.psi), t.terminated | t.truncated
            discounted, returns = jax.lax.scan(accumulate, discounted, steps)
            reward = reward.updated(returns)
            # One scale for all targets keeps the meaning of λ; centring would change what a longer episode is worth.
            scale = scale / jnp.sqrt(reward.variance + 1e-8)
        obs, next_obs = self.normalised(state.obs, t.obs), self.normalised(state.obs, t.next_obs)
        rollout = Rollout(
            obs=obs,
            local=self.rule.local(obs),
            action=t.action,
            psi=scale * t.psi,
            next_obs=next_obs,
            terminated=t.terminated,
            truncated=t.truncated,
            factor_mask=t.factor_mask,
            target_terminated=t.target_terminated,
            log_prob=t.log_prob,
            memory=t.memory,
        )
        return rollout, reward, discounted

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


def _check_single_precision() -> None:
    if getattr(jax.config, "jax_enable_x64", False):
        raise ValueError(
            "jax_enable_x64: got True, want False: agents are trained in single precision, and only some of their "
            "arrays would be doubles. Train inside `with jax.enable_x64(False):` if other code needs doubles"
        )


def _key(seed: Any) -> jax.Array:
    """Return the PRNG key of a seed, or a key itself."""
    if hasattr(seed, "dtype") and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        return seed
    check_number("seed", seed, Seed)
    return jax.random.key(seed)


def _first_not_finite(transitions: Transition) -> jax.Array:
    """Return step, environment and target (m: the observation) of the first non-finite value; −1 if there is none."""
    # As numbers, because a compiled program cannot raise.
    psi, obs = transitions.psi, transitions.next_obs
    bad = jnp.concatenate([~jnp.isfinite(psi), ~jnp.isfinite(obs).all(axis=-1, keepdims=True)], axis=-1)
    where = jnp.stack(jnp.unravel_index(bad.argmax(), bad.shape))
    return jnp.where(bad.any(), where, -1)
