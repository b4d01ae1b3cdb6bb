"""`init` and `update`: training as two functions, for a loop of one's own or for `FactoredPPO`."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from .._credit import credit
from ..problems.problem import Problem
from ..rollouts import Actor, Inline, Iteration, Plan, Processes, RayActors, Rollouts, Transition
from ..structure import InfluenceNetwork
from . import device_memory, influence, sharding
from .actions import ActionSpace
from .collecting import JaxEnvironments
from .config import Config
from .networks import Policy
from .normalising import Running
from .plain import plain
from .ppo import Batch, Update
from .state import TrainState, begin


@dataclass(frozen=True, eq=False)
class Learner:
    """Training on one problem with one set of settings.

    `problem` is a JAX `Problem`, or a function that makes a Gymnasium environment in which the scalar reward is
    ``weights @ info["vector_reward"]``.
    """

    problem: Problem | Callable[[], gym.Env]
    network: influence.AnyNetwork
    weights: np.ndarray
    observation_space: gym.Space
    action_space: gym.Space
    local: Callable[[Any], Any] | None
    config: Config
    own_local: bool = False
    """Whether `local` is the environment's own."""
    one_per_process: bool = False
    """Whether a process has room for one environment alone, as its `metadata` say."""
    observed_info: tuple[tuple[str, int, int], ...] = ()
    """Names of what observations have from `info`, and where it begins and ends in them."""

    @classmethod
    def of(
        cls, problem: Any, network: Any = None, config: Config | None = None, *, weights: Any = None, local: Any = None
    ) -> "Learner":
        """Fill in from the problem what is left out."""
        config = config or Config()
        make: Any = problem
        if isinstance(problem, Problem):
            given: Any = problem
        elif callable(problem):
            given = make()
        else:
            raise TypeError(
                f"problem: got {type(problem).__name__}, want a Problem or a function that makes a gymnasium.Env, "
                "as in lambda: gym.make('CartPole-v1')"
            )
        source = getattr(given, "unwrapped", given)
        space = ActionSpace.of(given.action_space, squash=config.squash)
        own_network = getattr(source, "network", None)
        if own_network is None:
            own_network = InfluenceNetwork.complete(len(space), 1)  # one target, the reward: plain PPO
        network = influence.named(network, own_network)
        n_targets = influence.start_of(network).shape[1]
        if weights is None:
            weights = getattr(source, "weights", np.ones(n_targets))
        weights = np.asarray(weights, np.float64)
        if weights.shape != (n_targets,):
            raise ValueError(f"weights: got shape {weights.shape}, want ({n_targets},), one λ for each target")
        own = getattr(source, "local", None) if local is None else None
        observed = getattr(source, "observed_info", ())
        if observed and given.observation_space.shape != source.observation_space.shape:
            raise ValueError(
                f"problem: its observations have the shape {given.observation_space.shape}, and {source} gives "
                f"{source.observation_space.shape}, so that what it observes of info cannot be found in them; put the "
                "wrappers that change observations inside fx.wrap"
            )
        if not isinstance(problem, Problem):
            given.close()
        if isinstance(problem, Problem) and (config.overlap or config.rollouts != "inline"):
            name = "overlap" if config.overlap else "rollouts"
            raise ValueError(
                f"{name}: got {getattr(config, name)!r}, and the problem is a JAX problem, which the learner steps on "
                "its own devices; leave it out"
            )
        learner = cls(
            make,
            network,
            weights,
            given.observation_space,
            given.action_space,
            own if local is None else local,
            config,
            own is not None,
            (getattr(given, "metadata", None) or {}).get("one_per_process", False),
            observed,
        )
        learner.check_shapes()
        return learner

    def check_shapes(self) -> None:
        """Raise if factors, components, inputs and the kind of critic do not fit together."""
        _ = self.factors, self.n_inputs, self.devices
        influence.check(self.network, self.config)

    @cached_property
    def space(self) -> ActionSpace:
        """The action space, flat."""
        space = ActionSpace.of(self.action_space, squash=self.config.squash)
        factors = self._factors_of(space)
        return space.with_covariance(factors) if self.config.covariance == "full" and factors is not None else space

    @cached_property
    def network_at_start(self) -> InfluenceNetwork:
        """The network, or that which one that varies begins with: their shapes and names are the same."""
        return influence.start_of(self.network)

    @property
    def n_factors(self) -> int:
        """Rows of the network."""
        return self.network_at_start.shape[0]

    @property
    def n_targets(self) -> int:
        """Columns of the network."""
        return self.network_at_start.shape[1]

    @cached_property
    def factors(self) -> np.ndarray | None:
        """Which factor a component belongs to; None if each is its own."""
        return self._factors_of(self.space)

    def _factors_of(self, space: ActionSpace) -> np.ndarray | None:
        n, c = self.n_factors, len(space)
        factorisation = self.network_at_start.factorisation
        if factorisation is not None and factorisation.n_actions == c and len(factorisation) == n:
            return factorisation.group_of
        if n != c:
            raise ValueError(
                f"network: has {n} rows, and the action space {c} components; want one row for each, or a network "
                "factored with net.factor(factorisation)"
            )
        return None

    @cached_property
    def update_rule(self) -> Update:
        """The losses."""
        return Update(self.space, self.n_factors, self.weights, self.factors, self.config, self.devices)

    @cached_property
    def devices(self) -> Mesh | None:
        """Those that share the environments of a JAX problem; None if it is one."""
        return sharding.mesh(self.config) if isinstance(self.problem, Problem) else None

    @cached_property
    def n_inputs(self) -> int:
        """Length of an observation."""
        if not isinstance(self.observation_space, gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiBinary):
            raise TypeError(
                f"observation space: got {self.observation_space}, want a Box; put "
                "gymnasium.wrappers.FlattenObservation around the environment"
            )
        return int(np.prod(self.observation_space.shape or (1,)))

    def init(self, seed: int | jax.Array | None = None, **hyper: Any) -> TrainState:
        """A state that has learnt nothing. `hyper` replaces settings of the name of a field of `Hyper`.

        Seeds and settings side by side are a map over both:

        >>> import jax, jax.numpy as jnp
        >>> from factorax.learning import Config, Learner
        >>> from factorax.problems import contextual_bandit
        >>> learner = Learner.of(contextual_bandit(4), config=Config(n_envs=4, n_steps=4, batch_size=16, n_epochs=1))
        >>> grid = jax.vmap(lambda seed, rate: learner.init(seed, learning_rate=rate))
        >>> states = grid(jnp.array([0, 0, 1, 1]), jnp.array([1e-3, 3e-3, 1e-3, 3e-3]))
        >>> states, metrics = jax.jit(jax.vmap(learner.update))(states)
        >>> metrics["train/loss"].shape
        (4,)
        """
        return begin(self, seed, hyper)

    def see(self, obs: jax.Array) -> Any:
        """What every component sees, ``(..., c, l)``: its local observation, or all of it; None for a joint policy."""
        if self.config.policy == "joint":
            return None
        if self.local is None:
            return jnp.broadcast_to(obs[..., None, :], (*obs.shape[:-1], len(self.space), obs.shape[-1]))
        seen = self.local(obs)
        return seen if self.factors is None else seen[..., self.factors, :]

    @cached_property
    def environments(self) -> JaxEnvironments:
        """Those of a JAX problem."""
        assert isinstance(self.problem, Problem)
        return JaxEnvironments(self.problem, self.config.n_envs, self.space)

    @cached_property
    def plan(self) -> Plan:
        """What all workers have to know."""
        assert not isinstance(self.problem, Problem)
        c, own = self.config, self.own_local and self.config.policy != "joint"
        actor = Actor(self.space.plain(), c.policy, self.factors, None if own or c.policy == "joint" else self.local)
        return Plan(
            self.problem, actor, c.n_envs, c.n_steps, self.n_inputs, self.n_factors, self.n_targets, c.overlap, own
        )

    @cached_property
    def rollouts(self) -> Rollouts:
        """Who steps the environments of the host."""
        c = self.config
        if self.one_per_process and c.n_envs > 1 and (c.rollouts == "inline" or 0 < c.workers < c.n_envs):
            got = f"rollouts: got {c.rollouts!r}" + (f" with {c.workers} workers" if c.workers else "")
            raise ValueError(
                f"{got} for {c.n_envs} environments, and a process has room for one of these; want 'processes' or "
                f"'ray' with workers={c.n_envs}, or n_envs=1"
            )
        if c.rollouts == "inline":
            return Inline(self.plan)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = c.workers or (c.n_envs if self.one_per_process else min(cores, c.n_envs))
        if c.rollouts == "processes":
            return Processes(self.plan, workers, c.fragment_seconds)
        return RayActors(self.plan, workers, c.fragment_seconds, address=c.ray_address, cpus=c.worker_cpus)

    def close(self) -> None:
        """End the environments of the host and who steps them; they begin anew if they are needed."""
        rollouts = self.__dict__.pop("rollouts", None)
        if rollouts is not None:
            rollouts.close()

    def _normalised(self, seen: Running, obs: jax.Array) -> jax.Array:
        return seen.normalise(obs) if self.config.normalise_obs else obs

    def act(self, state: TrainState, key: jax.Array, obs: jax.Array, deterministic: bool = False) -> jax.Array:
        """Flat actions for raw observations ``(..., d)``."""
        return self._choose(state.agent.policy, state.obs, key, obs, deterministic)

    def _choose(
        self, policy: Policy, seen: Running, key: jax.Array, obs: jax.Array, deterministic: bool = False
    ) -> jax.Array:
        obs = self._normalised(seen, obs)
        parameters, spread = policy(obs, self.see(obs))
        return self.space.mode(parameters) if deterministic else self.space.sample(key, parameters, spread)

    def learn_from(self, state: TrainState, seen: Transition) -> tuple[TrainState, dict[str, jax.Array]]:
        """An update from transitions ``[T, B, ...]``."""
        c = self.config
        obs, next_obs = self._normalised(state.obs, seen.obs), self._normalised(state.obs, seen.next_obs)
        ended = seen.terminated | seen.truncated

        def accumulate(total: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            total = total * state.hyper.discount + step[0]
            return jnp.where(step[1], 0.0, total), total

        total_net = InfluenceNetwork.complete(1, self.n_targets)
        objective = _total(total_net, seen.psi, self.weights)
        discounted, history = jax.lax.scan(accumulate, state.discounted, (objective, ended))
        reward = state.reward.seen(history) if c.normalise_reward else state.reward
        psi = seen.psi / jnp.sqrt(reward.variance + 1e-8) if c.normalise_reward else seen.psi
        batch = Batch(
            obs,
            self.see(obs),
            seen.action,
            psi,
            next_obs,
            self.see(next_obs),
            seen.terminated,
            seen.truncated,
            seen.factor_mask,
            seen.target_terminated,
            seen.log_prob,
        )
        network = total_net if c.estimator == "vanilla" else influence.network_now(self, state, seen)
        key, here = jax.random.split(state.key)
        evidence, valid, watched = influence.watch(self, state, batch)
        agent, optimiser, kl_coef, metrics = self.update_rule.learn(
            state.agent,
            state.optimiser,
            state.kl_coef,
            batch,
            here,
            network,
            c.annealed(state.hyper, state.timesteps),
        )
        count = (seen.episode_length > 0).sum()
        episodes = jnp.maximum(count, 1)
        rollout = {
            "episodes": count,
            "ep_len_mean": seen.episode_length.sum() / episodes,
            "ep_targets_mean": seen.episode_psi.sum(axis=(0, 1)) / episodes,
        }
        rollout["ep_rew_mean"] = _total(total_net, rollout["ep_targets_mean"], self.weights)
        new = state._replace(
            agent=agent,
            optimiser=optimiser,
            kl_coef=kl_coef,
            obs=state.obs.seen(seen.obs) if c.normalise_obs else state.obs,
            reward=reward,
            discounted=discounted,
            key=key,
            timesteps=state.timesteps + c.n_envs * c.n_steps,
            evidence=evidence,
            validity=valid,
        )
        return new, metrics | watched | {f"rollout/{name}": value for name, value in rollout.items()}

    def update(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        """Collect a rollout and learn from it. For a JAX problem it is pure: compile it, map it over seeds."""
        if isinstance(self.problem, Problem):
            key, here = jax.random.split(state.key)
            inner, seen = self.environments.collect(
                state.environments, partial(self.act, state), here, self.config.n_steps
            )
            new, metrics = self.learn_from(state._replace(key=key, environments=inner), seen)
            return new, metrics | {"rollout/not_finite": _first_not_finite(seen)}
        if not self.config.overlap:
            return self._learn(state, self.rollouts.collect(self.iteration(state)))
        lag = int(self.rollouts.in_flight)
        if not lag:
            self.rollouts.begin(self.iteration(state))
        seen = self.rollouts.finish()
        self.rollouts.begin(self.iteration(state, 1))  # for the next update
        new, metrics = self._learn(state, seen)
        return new, metrics | {"rollout/policy_lag": jnp.int32(lag)}

    def iteration(self, state: TrainState, ahead: int = 0) -> Iteration:
        """What workers need to play on with the policy of this state; for the update after the next, with `ahead`."""
        words = np.asarray(jax.random.key_data(state.key)).ravel()  # other ones after every update
        first = self.config.seed if int(state.timesteps) == 0 else None  # a run that goes on begins other episodes
        seen = state.obs if self.config.normalise_obs else None
        return Iteration(plain(state.agent.policy, seen), (*(int(word) for word in words), ahead), first)

    def actor(self, state: TrainState, deterministic: bool = False) -> Callable[[Any, np.ndarray], np.ndarray]:
        """`act` for a loop of the host, compiled once: from the data of a key and raw observations to flat actions."""
        # With what it needs alone: a call takes longer the more arrays it is given.
        act = partial(self._act, state.agent.policy, state.obs, deterministic=deterministic)
        return lambda key, obs: np.asarray(act(key, obs))

    @cached_property
    def _act(self) -> Callable[..., jax.Array]:
        def act(policy: Policy, seen: Running, key: jax.Array, obs: jax.Array, deterministic: bool) -> jax.Array:
            return self._choose(policy, seen, jax.random.wrap_key_data(key), obs, deterministic)

        return jax.jit(act, static_argnames="deterministic")

    def episodes(self, n: int, deterministic: bool) -> tuple[JaxEnvironments, Callable[..., Any]]:
        """For a JAX problem: n environments, and 64 steps of them, compiled once, from a state, theirs and a key."""
        made = self._programs
        if (n, deterministic) not in made:
            assert isinstance(self.problem, Problem)
            environments = JaxEnvironments(self.problem, n, self.space)

            def some(policy: TrainState, state: Any, key: jax.Array) -> Any:
                return environments.collect(state, partial(self.act, policy, deterministic=deterministic), key, 64)

            made[n, deterministic] = environments, eqx.filter_jit(some)
        return made[n, deterministic]

    @cached_property
    def _learn(self) -> Callable[..., Any]:
        return eqx.filter_jit(self.learn_from)

    def compiled(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        """`update`, compiled as far as it can be: once, for all states like the first."""
        if not isinstance(self.problem, Problem):
            return self.update(state)
        state = sharding.place(self.devices, state)
        if "update" not in self._programs:
            self._programs["update"] = device_memory.compiled(self._placed_update, state, self.config)
        return self._programs["update"](state)

    def _placed_update(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        new, metrics = self.update(state)
        return sharding.place(self.devices, new), metrics

    @cached_property
    def _programs(self) -> dict[Any, Any]:
        return {}


def _first_not_finite(seen: Transition) -> jax.Array:
    """Step, environment and target (m: the observation) of the first number that is none; −1 if all are."""
    bad = jnp.concatenate([~jnp.isfinite(seen.psi), ~jnp.isfinite(seen.next_obs).all(axis=-1, keepdims=True)], axis=-1)
    where = jnp.stack(jnp.unravel_index(bad.argmax(), bad.shape))
    return jnp.where(bad.any(), where, -1)


def _total(net: InfluenceNetwork, psi: jax.Array, weights: np.ndarray) -> jax.Array:
    return credit(net, psi, weights)[..., 0]
