"""`FactoredPPO`: learn, predict, evaluate, save and load."""

import copy
import dataclasses
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from .._checks import Count, Range, Seed, Whole, check_type, checked, real_array
from .._text import counted, shown
from ..networks import Agent, policy_kind
from ..problems.registry import find_problem
from ..problems.vectors import OneOfMany
from ..rollouts import episodes as episodes_
from ..rollouts.observability import warn_if_actors_respond
from ..spec import Spec, is_jax, opened
from ..structure import InfluenceNetwork
from . import checkpoints
from .callbacks import CallbackList, ProgressBarCallback, as_callback
from .compiled import Compiled
from .config import Config, is_network
from .devices import peak_memory
from .hints import warn_if_clipped, warn_if_short
from .learner import Learner
from .logger import Logger, TableWriter, TensorBoardWriter, numbered_folder, scalars
from .metrics import Metrics, checked_metrics, copied, remember
from .missing_edges import warn_if_missing
from .model_files import (
    check_given,
    check_size,
    checked_settings,
    existing,
    first_intact,
    given,
    named_in,
    restored,
    save_model,
    shapes_of,
)
from .named_networks import find_network
from .presets import NONE, network_of, settings_with
from .state import TrainState

SECONDS = 0.5
"""Seconds that a call of the compiled program takes, if nobody listens to single updates."""


class FactoredPPO:
    """Proximal policy optimisation that credits each factor only with the targets that it influences.

    **Arguments**

    - `problem`: a JAX `Problem`; a function that returns a Gymnasium environment, as in ``lambda:
      gym.make("CartPole-v1")``, with the scalar reward ``weights @ info["vector_reward"]`` or, without such a vector,
      the reward as the only target; a function that returns a vector environment (``gym.make_vec``), whose `num_envs`
      is the default of `n_envs`; or a name for `find_problem`, such as ``"queues:4x4"`` or ``"CartPole-v1"``.
    - `network`: the influence network of returns, with one row per component of the action space, or factored; a
      network that varies: a `NetworkSchedule`, a `StateNetwork`, a `LaggedNetwork`, an `AdaptiveNetwork`, or a
      subclass of `BaseNetwork`; or a name for `find_network`, such as ``"adaptive"`` or ``"complete"``. The default is
      that of the problem.
    - `weights`, `local`, `neighbours`: λ, the function of local observations, and which factors are neighbours; the
      defaults are those of the problem.
    - `preset`: the name of tuned settings, such as ``"queues"``, with a network unless you pass one; settings you pass
      override those of the preset. The default is no preset, for every problem.
    - `tensorboard_log`: a folder for TensorBoard events; `verbose`: 1 prints the metrics of each update.
    - `policy`, `critic`: as in `Config`; or your own network, an `equinox.Module`, or a function of a `Spec` and a key
      that returns one. For one observation and the local observations of the components (None if all observe
      everything), a policy returns parameters ``(c, width)``, and a critic one value per target, ``(m,)``.
    - `method`: factored PPO or a related method, as in `Config`; its settings override those of the preset.
    - Other keyword arguments are the fields of `Config`.

    >>> from factorax.ppo import FactoredPPO
    >>> model = FactoredPPO("contextual-bandit:3", n_envs=4, n_steps=6, batch_size=12, n_epochs=1, hidden=(8,))
    >>> model.learn(48, progress_bar=False).num_timesteps
    48
    """

    def __init__(
        self,
        problem: Any,
        network: Any = None,
        *,
        weights: Any = None,
        local: Any = None,
        neighbours: Any = None,
        preset: str = NONE,
        tensorboard_log: str | os.PathLike[str] | None = None,
        verbose: int = 0,
        **settings: Any,
    ):
        if isinstance(problem, str) and problem.endswith("Policy"):
            raise TypeError(
                f"problem: got {problem!r}, want a problem; factorax.integrations.PPO has the arguments of SB3's PPO"
            )
        self.tensorboard_log = checked("tensorboard_log", tensorboard_log, str | None)
        self.verbose = checked("verbose", int(verbose) if isinstance(verbose, bool) else verbose, Whole)
        settings = settings_with(preset, settings)
        self._own_size, self.config = "n_envs" not in settings, sized_config(settings, problem)
        network = network_of(preset, self.config.method) if network is None else network
        self.names = tuple(each if isinstance(each, str) else None for each in (problem, network))
        objects = {"weights": weights, "local": local, "neighbours": neighbours} | self.config.custom
        self._given = given(network=network, **objects)
        if isinstance(problem, str):
            problem = find_problem(problem)
        if isinstance(network, str):
            network = find_network(problem, network, steps=self.config.total_timesteps)
        options = {"weights": weights, "local": local, "neighbours": neighbours, "own_size": self._own_size}
        self.learner = Learner.of(problem, network, self.config, **options)
        self.config, self.compiled = self.learner.config, Compiled(self.learner)
        self.history: list[Metrics] = []
        """The metrics of the last updates, at most 10,000."""
        self.logger, self._has_own_logger = Logger(), False
        self.last_timestep = self.config.total_timesteps
        self._episodes: Sequence[episodes_.Episode] | None = None
        self._key_lock = threading.Lock()
        self._seconds = SECONDS

    def __repr__(self) -> str:
        steps = f"{self.num_timesteps:,} steps"
        rows = described(self.spec, self.config, self.names[0]) | {"trained": steps}
        return f"{type(self).__name__}(\n" + "".join(f"  {name + ':':<14}{text}\n" for name, text in rows.items()) + ")"

    def __copy__(self) -> "FactoredPPO":
        """Return a model with the same learner, programs and state."""
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        return new

    def with_state(self, state: TrainState, index: int | None = None) -> "FactoredPPO":
        """Return a model with another state, as `Learner.init` and `update` return it; it shares the programs.

        - `index`: which of several stacked states, as `jax.vmap` returns them.
        """
        check_type("state", state, TrainState, "a TrainState, as model.learner.init and update return it")
        if index is not None:
            state = jax.tree.map(lambda x: x[index], state)
        if shapes_of(state) != shapes_of(self.state):
            hint = "" if index is not None or not jnp.ndim(state.timesteps) else "; want index= for stacked states"
            raise ValueError(
                f"state: got arrays of other shapes than those of this model, want a state of model.learner{hint}"
            )
        new = copy.copy(self)
        new.state, new.history, new._episodes = state, [], None
        return new

    def __reduce__(self) -> Any:
        """Refuse `copy.deepcopy` and `pickle`: compiled programs cannot be copied."""
        raise TypeError(
            f"{type(self).__name__}: got copy.deepcopy or pickle, want model.save(path), and "
            f"{type(self).__name__}.load(path, problem) for each copy"
        )

    @property
    def spec(self) -> Spec:
        """The fixed properties of the problem: spaces, components, factors, network, λ."""
        return self.learner.spec

    @cached_property
    def state(self) -> TrainState:
        """Everything that changes during training. The initial state is computed when it is first needed."""
        return self.compiled.init(self.config.seed)

    @cached_property
    def _predictions(self) -> jax.Array:
        return jax.random.fold_in(jax.random.key(self.config.seed), 1)  # training uses another key

    @property
    def network(self) -> InfluenceNetwork:
        """The current network; if K depends on states or lags, with every edge that it may have."""
        if self.learner.network is not self.spec.network:  # a method that credits all factors alike
            return self.spec.network.static
        return self.spec.network.present(self.state.network, self.num_timesteps)

    @property
    def num_timesteps(self) -> int:
        """Number of steps of all environments, since training began or `learn` reset it (`reset_num_timesteps`)."""
        return int(self.state.timesteps)

    @property
    def observation_space(self) -> gym.Space:
        """The observation space of the problem."""
        return self.spec.observation_space

    @property
    def action_space(self) -> gym.Space:
        """The action space of the problem."""
        return self.spec.action_space

    def get_env(self) -> Any:
        """Return None, for callbacks of Stable-Baselines3: environments are created when they are needed."""
        return None

    def get_vec_normalize_env(self) -> None:
        """Return None, for callbacks of Stable-Baselines3: observations are normalised by `normalize_obs`."""

    def set_logger(self, logger: Logger) -> None:
        """Use this logger in `learn`, from `factorax.ppo.configure` or from Stable-Baselines3."""
        if not all(callable(getattr(logger, name, None)) for name in ("record", "dump", "close")):
            raise TypeError(f"logger: got {shown(logger)}, want a Logger, such as configure() returns")
        self.logger, self._has_own_logger = logger, True

    def learn(
        self,
        total_timesteps: int | None = None,
        callback: Any = None,
        log_interval: int | None = 1,
        tb_log_name: str = "FactoredPPO",
        reset_num_timesteps: bool = True,
        progress_bar: bool = True,
    ) -> "FactoredPPO":
        """Train for this many additional steps, rounded up to whole rollouts, and return this object.

        - `total_timesteps`: steps of all environments; by default those of the settings.
        - `callback`: a function of the model and the metrics that is called after each update and stops training by
          returning False; a `Callback` or any object with some of its methods; a callback of Stable-Baselines3; or a
          list of these.
        - `log_interval`: updates between log entries, None for no log; `tb_log_name`: run name in TensorBoard.
        - `reset_num_timesteps`: whether to start counting at 0, with new episodes. If false, counting, schedules and
          episodes continue.
        """
        steps = _number_of_steps(self.config.total_timesteps if total_timesteps is None else total_timesteps)
        checked("log_interval", log_interval, Whole | None)
        checked("tb_log_name", tb_log_name, str)
        checked("reset_num_timesteps", reset_num_timesteps, bool)
        checked("progress_bar", progress_bar, bool)
        if reset_num_timesteps and self.num_timesteps:
            self._restart()
        self.last_timestep = last = self.num_timesteps + steps
        if last >= 2**31:  # steps are counted in 32 bits, all that JAX has by default
            raise ValueError(
                f"total_timesteps: got {steps:,} after {self.num_timesteps:,}, want less than 2³¹ in total"
            )
        if not self.num_timesteps:
            warn_if_short(self.config, steps)
        callbacks = CallbackList([as_callback(callback), *[ProgressBarCallback()] * progress_bar])
        warned, collector = False, self.compiled.collector
        if self.num_timesteps == 0 < steps and self.state.missing_edges is not None:
            kind = policy_kind(self.spec, self.config).name
            warn_if_actors_respond(self.spec, kind, self.config.rollouts)
        if collector.episodes is None:
            collector.episodes = self._episodes  # from a checkpoint, or from before `close`
        # A leaf of the state, so that another length of training needs no new program.
        self.state = self.state._replace(hyper=self.state.hyper._replace(total_timesteps=jnp.float32(last)))
        began = time.perf_counter()
        with self._logging(tb_log_name, new=reset_num_timesteps), callbacks.training(self):
            goes_on = True
            while goes_on and self.num_timesteps < last:
                left = -(-(last - self.num_timesteps) // self.config.rollout_steps)
                state, rows = self.updates(1 if callbacks.every_update else left)
                times = {"time/time_elapsed": time.perf_counter() - began, "time/fps": self._steps_per_second}
                before = self.num_timesteps // self.config.rollout_steps
                for row in rows:  # before the state: an interrupt in between must not lose a row
                    row |= times | peak_memory(self.config)
                    remember(self.history, row)
                self.state, self._episodes = state, collector.episodes
                for i, row in enumerate(rows):
                    warn_if_clipped(self.config, self.history[: len(self.history) - len(rows) + i + 1])
                    # Called even after a stop: the other updates of this program have been made as well.
                    goes_on = self._after_update(callbacks, row, log_interval) and goes_on
                warned = warned or warn_if_missing(self.spec, state.missing_edges, before, before + len(rows))
        return self

    def updates(self, most: int) -> tuple[TrainState, list[Metrics]]:
        """Return the state after one update, or of a JAX problem after up to `most`, as many as take about half a
        second; and the metrics of each. This object does not change."""
        before, rollout = self.num_timesteps, self.config.rollout_steps
        started, count = time.perf_counter(), 1
        if self.compiled.collector.traced:
            count = min(most, max(int(SECONDS / self._seconds), 1), self.compiled.max_updates)
            state, stacked = self.compiled.updates(self.state, count)
            stacked = jax.device_get(stacked)  # waits for the program, which the clock needs
            rows = [copied({name: values[i] for name, values in stacked.items()}) for i in range(count)]
        else:
            collector, behaviour = self.compiled.collector, self.learner.behaviour(self.state)
            environments, key, transitions = collector.collect(behaviour, self.state.environments, self.state.key)
            state = self.state._replace(environments=environments, key=key)
            state, metrics = self.compiled.learn_from(state, transitions)
            rows = [copied(metrics) | collector.metrics()]
        rows = [checked_metrics(row, self.config, before + i * rollout) for i, row in enumerate(rows)]
        self._seconds = (time.perf_counter() - started) / count
        return state, rows

    @property
    def _steps_per_second(self) -> float:
        return self.config.rollout_steps / self._seconds

    def _after_update(self, callbacks: CallbackList, metrics: Metrics, log_interval: int | None) -> bool:
        """Log an update and call the callbacks; return whether to continue."""
        # hundreds of numbers, which are named only if they are written
        vectors = bool(getattr(self.logger, "writers", True))
        shown = {name: value for name, value in metrics.items() if vectors or np.ndim(value) == 0}
        for name, value in scalars(shown, self.spec.network.static):
            self.logger.record(name, value, exclude=None if name in metrics else "stdout")  # no vectors on the screen
        # Before the dump: numbers that callbacks record belong to this update.
        goes_on = callbacks.on_rollout_end(self, metrics)
        if log_interval and metrics["time/iterations"] % log_interval == 0:
            self.logger.dump(self.num_timesteps)
        return goes_on

    @contextmanager
    def _logging(self, name: str, *, new: bool) -> Iterator[None]:
        """Use the logger that the arguments of this object ask for, unless one was set."""
        if self._has_own_logger:
            yield
            return
        writers: list[Any] = [TableWriter()] if self.verbose else []
        folder = None
        if self.tensorboard_log is not None:
            folder = numbered_folder(self.tensorboard_log, name, latest=not new)
            writers.append(TensorBoardWriter(folder))
        self.logger = Logger(folder, writers)
        try:
            yield
        finally:
            self.logger.close()
            self.logger.writers = []  # they are closed, and a callback may still record numbers

    def _restart(self) -> None:
        """Start counting from 0 with new episodes, and keep what was learned."""
        self.close()
        self._episodes = None
        # From the current key, not the seed: new episodes must differ from those of the first training.
        key, for_environments = jax.random.split(self.state.key)
        self.state = self.state._replace(
            timesteps=jnp.zeros_like(self.state.timesteps),
            environments=self.learner.collector.init(for_environments),
            discounted=jnp.zeros_like(self.state.discounted),
            key=key,
        )

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """Return actions, as elements of the action space, and the next hidden state (None unless the policy is
        recurrent).

        - `observation`: one observation, or a batch ``(B, ...)``, for which an array of actions is returned, or a list
          of actions if the action space is a Dict or a Tuple.
        - `state`: the state that the last call returned, for a recurrent policy; None at the start of an episode.
        - `episode_start`: which entries of a batch start new episodes, booleans ``(B,)``: their memory is reset.
        - `deterministic`: whether to return the most probable action instead of a sample.
        """
        if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict):
            raise ValueError("observation: got a pair, as returned by env.reset(); want its first element")
        checked("deterministic", deterministic, bool)
        rows, is_one = self.spec.observations.batch(observation)
        with self._key_lock:  # servers call this from several threads
            self._predictions, key = jax.random.split(self._predictions)
        act = self.compiled.act(self.state, deterministic)
        size = self.state.agent.policy.memory
        if size:
            actions, state = act(jax.random.key_data(key), rows, _memory(state, episode_start, (len(rows), size)))
        else:
            actions = act(jax.random.key_data(key), rows)
        elements = self.spec.components.to_environments(actions)
        return (elements[0] if is_one else elements), state

    def evaluate(self, episodes: int = 10, *, deterministic: bool = True, seed: int = 0) -> dict[str, Any]:
        """Return the mean and standard error of the return over complete episodes, in separate environments."""
        checked("episodes", episodes, Count)
        checked("deterministic", deterministic, bool)
        checked("seed", seed, Seed)
        behaviour, collector = self.learner.behaviour(self.state), self.compiled.collector
        returns = collector.play_episodes(behaviour, episodes, deterministic=deterministic, seed=seed)
        objective = returns @ self.spec.weights
        error = float(objective.std(ddof=1) / np.sqrt(episodes)) if episodes > 1 else 0.0
        means = {"return": float(objective.mean()), "error": error, "targets": returns.mean(axis=0)}
        return means | {"episodes": objective}

    def on(self, problem: Any, network: Any = None) -> "FactoredPPO":
        """Return this policy on another problem, for evaluation, with an untrained critic.

        A shared policy works with any number of factors that have local observations of the same size.
        """
        # One environment, or one vector: some simulators allow only one per process.
        # With steps as here, since the episodes of an evaluation depend on the length of its fragments.
        n_steps = self.config.n_steps
        sizes = {"n_steps": n_steps, "batch_size": n_steps, "n_envs": vector_size(problem) or 1, "rollouts": "inline"}
        # The user's critic may have the sizes of the training problem, and an evaluation does not ask it.
        critic = dataclasses.replace(self.config.critic, module=None)
        other = FactoredPPO(problem, network, **vars(self.config) | sizes | {"critic": critic})
        theirs = other.state.agent.policy
        policy = self.state.agent.policy.fitted_to(theirs)
        obs = self.state.obs if self.config.normalize_obs else other.state.obs
        if shapes_of((policy, obs)) != shapes_of((theirs, other.state.obs)):
            a, b = self.spec, other.spec
            raise ValueError(
                f"problem: got {b.n_factors} factors with {b.n_inputs} observed numbers for a {self.config.policy} "
                f"policy of {a.n_factors} factors with {a.n_inputs}; want a problem of the same size, or a policy "
                "trained as shared, with local observations and without normalize_obs"
            )
        other.state = other.state._replace(agent=Agent(policy, other.state.agent.critic), obs=obs)
        return other

    def close(self) -> None:
        """Stop environments and their workers; `learn` starts them again."""
        self.compiled.close()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to resume training to a file, with the suffix .safetensors by default.

        The file has the agent, the optimizer, the settings, and the state of a JAX problem, or the seeds and actions
        of the episodes in progress of other environments.
        """
        about: dict[str, Any] = {"names": self.names, "given": self._given, "episodes": self._episodes}
        save_model(path, self.spec, self.config, self.state, **about)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        problem: Any = None,
        network: Any = None,
        *,
        weights: Any = None,
        local: Any = None,
        neighbours: Any = None,
        trusted: str | None = None,
        tensorboard_log: str | os.PathLike[str] | None = None,
        verbose: int = 0,
        **settings: Any,
    ) -> "FactoredPPO":
        """Return a model from a file that `save` wrote, or from a run folder.

        - `problem`, `network`: those of training. They may be omitted if the model was created from names, as in
          ``factorax train``.
        - `trusted`: the name of the problem if it refers to code or files, since a file may be untrusted.
        - `settings`: override those in the file. Your own networks are not in it: pass `policy` or `critic` again.
        """
        checked("trusted", trusted, str | None)

        def read(file: Path) -> FactoredPPO:
            names = named_in(file, trusted) if problem is None else (problem, None)
            fixed = {"network": names[1] if network is None else network, "weights": weights, "local": local}
            fixed["neighbours"] = neighbours
            check_given(file, **fixed, **{name: settings.get(name) for name in ("policy", "critic", "method")})
            stored = checked_settings(vars(Config.read(checkpoints.about(file).get("config"))))
            options = {"tensorboard_log": tensorboard_log, "verbose": verbose} | stored | settings
            model = cls._rebuilt(names[0], fixed.pop("network"), **fixed, **options)
            if "n_envs" not in settings:  # with another number, a state may rightly be larger than the file
                check_size(file, model.learner)
            model.restore(file)
            return model

        return first_intact(existing(path), read)

    @classmethod
    def _rebuilt(cls, problem: Any, network: Any, **options: Any) -> "FactoredPPO":
        return cls(problem, network, **options)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Continue from a file that `save` wrote, with the settings of this object; episodes are replayed."""
        state, episodes = first_intact(
            existing(path), lambda file: restored(file, self.state._replace(hyper=None), self.config.n_envs, self.spec)
        )
        self.compiled.close()
        self.state, self._episodes = state._replace(hyper=self.state.hyper), episodes  # these are settings, not learnt


def _memory(state: Any, episode_start: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return the memory of a recurrent policy, ``(B, h)``, from the arguments of `predict`."""
    if state is None:
        return np.zeros(shape, np.float32)
    memory = real_array("state", state).astype(np.float32)
    if memory.shape != shape:
        raise ValueError(
            f"state: got shape {memory.shape}, want {shape}, the state that the last call of predict returned"
        )
    starts = np.broadcast_to(False if episode_start is None else real_array("episode_start", episode_start), shape[:1])
    return np.where(starts[:, None], 0.0, memory).astype(np.float32)


def _number_of_steps(total_timesteps: Any) -> int:
    """Return a number of steps as an int; floats such as 1e5 are accepted."""
    if isinstance(total_timesteps, float | np.floating) and total_timesteps.is_integer():
        total_timesteps = int(total_timesteps)
    return checked("total_timesteps", total_timesteps, Annotated[int, Range(0)])


def described(spec: Spec, config: Config, name: str | None = None) -> dict[str, str]:
    """Return one line per aspect of a model: its problem, spaces, network, policy and update.

    >>> from factorax.problems import chain
    >>> described(Spec.of(chain(3)), Config())["actions"]
    '3 × Gaussian, scaled to the bounds [-2, 2]'
    """
    c = config
    source = name or getattr(spec.problem, "name", getattr(spec.problem, "__name__", "environment"))
    rollout = f"{counted(c.n_envs, 'environment')} × {c.n_steps} steps"
    return {
        "problem": f"{source}, " + ("in JAX" if spec.is_jax else "on the host"),
        "observations": str(spec.observation_space),
        "actions": spec.components.describe_actions(),
        "network": repr(spec.network),
        "policy": f"{_name(c.policy)}, {c.architecture}, hidden layers {c.hidden}",
        "critic": _name(c.critic.module or c.critic),
        "method": f"{c.method}, {c.method.title}",
        "rollout": f"{rollout}, {counted(c.method.passes(c), 'pass', 'passes')} in minibatches of {c.batch_size}",
    }


def _name(choice: Any) -> str:
    return type(choice).__name__ if is_network(choice) else str(choice)


def vector_size(problem: Any) -> int | None:
    """Return the number of sub-environments if a problem is a vector environment, otherwise None.

    Functions of this library declare it, such as those of `fx.wrap`; others are called, and the result is closed again.
    """
    made_by: Any = find_problem(problem) if isinstance(problem, str) else problem
    if is_jax(made_by) or not callable(made_by):
        return None
    declared: Any = made_by
    if hasattr(declared, "num_envs"):
        return declared.num_envs
    with opened(made_by) as source:
        return source.num_envs if isinstance(source, OneOfMany) else None


def sized_config(settings: dict[str, Any], problem: Any) -> Config:
    """Return checked settings from a dictionary.

    Without `n_envs` they may fit only the `num_envs` of a vector environment; it is created for a moment only if they
    do not fit the default.
    """
    try:
        return Config.of(settings)
    except ValueError:
        asks = "n_envs" not in settings and "batch_size" in settings
        n_envs = vector_size(problem) if asks else None
        if n_envs is None:
            raise
        return Config.of(settings | {"n_envs": n_envs})
