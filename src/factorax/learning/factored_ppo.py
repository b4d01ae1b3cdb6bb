"""`FactoredPPO`: learn, predict, evaluate, save, load."""

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .. import _progress
from ..rollouts import episodes as episodes_
from ..rollouts.observability import warn_if_actors_respond
from ..spec import Spec
from ..structure import InfluenceNetwork
from . import checkpoints
from .config import WHO_STEPS, Config
from .devices import peak_memory
from .learner import Learner, Metrics, Program
from .missing_edges import warn_if_missing
from .policies import Agent
from .state import TrainState

Callback = Callable[["FactoredPPO", Metrics], bool | None]


class FactoredPPO:
    """Proximal policy optimisation that credits every factor with the targets it influences.

    **Arguments**

    - `problem`: a JAX `Problem`, or a function that makes a Gymnasium environment, as in
      ``lambda: gym.make("CartPole-v1")``: its scalar reward is ``weights @ info["vector_reward"]``, or, without such a
      vector, the one target there is.
    - `network`: the influence network of returns, one row for each component of the action space, or factored; or one
      that varies: a `NetworkSchedule` over time steps, a `StateNetwork`, a `LaggedNetwork`, an `AdaptiveNetwork`, or a
      `BaseNetwork` of your own. The problem's own if left out.
    - `policy`, and all else by name: the fields of `Config`.

    >>> from factorax.learning import FactoredPPO
    >>> from factorax.problems import contextual_bandit
    >>> model = FactoredPPO(contextual_bandit(4), n_envs=8, n_steps=8, batch_size=32, n_epochs=2)
    >>> model.learn(128, progress_bar=False).timesteps
    128
    """

    def __init__(self, problem: Any, network: Any = None, *, weights: Any = None, local: Any = None, **settings: Any):
        self.config = Config(**settings)
        self.learner = Learner.of(problem, network, self.config, weights=weights, local=local)
        self.program = Program(self.learner)
        self.state: TrainState = self.learner.init()
        self.history: list[Metrics] = []
        self._episodes: Sequence[episodes_.Episode] | None = None
        self._predictions = jax.random.fold_in(jax.random.key(self.config.seed), 1)

    @property
    def spec(self) -> Spec:
        """What is fixed about the problem: spaces, components, factors, network, λ."""
        return self.learner.spec

    @property
    def network(self) -> InfluenceNetwork:
        """The network as it is now; where K depends on states or lags, every edge that it may have."""
        return self.spec.network.present(self.state.network, self.timesteps)

    @property
    def timesteps(self) -> int:
        """Steps of all environments so far."""
        return int(self.state.timesteps)

    def learn(
        self, total_timesteps: int | None = None, *, progress_bar: bool = True, callback: Callback | None = None
    ) -> "FactoredPPO":
        """Train until this many steps have been made in total, in whole rollouts; returns this object.

        `callback` is called after every update with this object and the metrics; if it returns False, training stops.
        """
        total = self.config.total_timesteps if total_timesteps is None else total_timesteps
        last, warned, collector = np.nan, False, self.program.collector
        if self.timesteps == 0 < total and self.state.missing_edges is not None:
            warn_if_actors_respond(self.spec, self.config.policy)
        if collector.episodes is None:
            collector.episodes = self._episodes  # from a checkpoint, or from before `close`
        begun = time.perf_counter()
        with _progress.progress_bar(disable=not progress_bar) as progress:
            bar = progress.add_task("", total=total, completed=self.timesteps)
            while self.timesteps < total:
                started, before = time.perf_counter(), self.timesteps
                state, metrics = self.program.update(self.state)
                metrics = checked_metrics(
                    {name: np.asarray(value) for name, value in metrics.items()}, self.config, before
                )
                after, now = int(state.timesteps), time.perf_counter()
                metrics["time/fps"] = (after - before) / (now - started)
                metrics["time/time_elapsed"] = now - begun
                metrics |= peak_memory()
                last = float(metrics.get("rollout/ep_rew_mean", last))
                self.state, self._episodes = state, collector.episodes
                self.history.append(metrics)
                warned = warned or warn_if_missing(self.spec, state.missing_edges, metrics["time/iterations"])
                shown = "–" if np.isnan(last) else f"{last:.4g}"
                text = f"return {shown}  {metrics['time/fps']:,.0f} steps/s  kl {metrics['train/approx_kl']:.2g}"
                progress.update(bar, completed=self.timesteps, description=text)
                if callback is not None and callback(self, metrics) is False:
                    break
        return self

    def predict(self, obs: Any, deterministic: bool = False) -> Any:
        """Actions, as elements of the action space, for one observation, or a list of them for a batch ``(B, d)``."""
        obs = np.asarray(obs, np.float32)
        one = self.spec.observation_space.shape or (1,)
        if obs.ndim == 0 and one == (1,):
            obs = obs[None]
        if obs.shape != one and obs.shape[1:] != one:
            raise ValueError(f"obs: got shape {obs.shape}, want {one}, or a batch of them in front")
        flat = obs.reshape(-1, self.spec.n_inputs)
        self._predictions, key = jax.random.split(self._predictions)  # training draws from a key of its own
        actions = self.program.compiled_act(self.state, deterministic)(jax.random.key_data(key), flat)
        elements = list(self.spec.components.to_environments(actions))
        return elements[0] if obs.shape == one else elements

    def evaluate(self, episodes: int = 10, *, deterministic: bool = True, seed: int = 0) -> dict[str, Any]:
        """Mean and standard error of the return over whole episodes, in environments of their own."""
        behaviour, collector = self.learner.behaviour(self.state), self.program.collector
        returns = collector.play_episodes(behaviour, episodes, deterministic=deterministic, seed=seed)
        objective = returns @ self.spec.weights
        error = float(objective.std(ddof=1) / np.sqrt(episodes)) if episodes > 1 else 0.0
        return {
            "return": float(objective.mean()),
            "error": error,
            "targets": returns.mean(axis=0),
            "episodes": objective,
        }

    def on(self, problem: Any, network: Any = None) -> "FactoredPPO":
        """This policy on another problem, to be evaluated there, with an untrained critic.

        A shared policy can move to any number of factors, if each of them sees as many numbers.
        """
        # One environment: some simulators have room for only one in a process.
        settings = dataclasses.asdict(self.config) | {"n_envs": 1, "n_steps": 1, "batch_size": 1, "overlap": False}
        settings = {name: value for name, value in settings.items() if name not in WHO_STEPS}
        other = FactoredPPO(problem, network, **settings)
        theirs = other.state.agent.policy
        policy = self.state.agent.policy.fitted_to(theirs, len(other.spec.components))
        obs = self.state.obs if self.config.normalise_obs else other.state.obs
        if _shapes((policy, obs)) != _shapes((theirs, other.state.obs)):
            a, b = self.spec, other.spec
            raise ValueError(
                f"problem: a {self.config.policy} policy for {a.n_factors} factors, which sees {a.n_inputs} numbers, "
                f"cannot act for {b.n_factors} that see {b.n_inputs}; want a problem of the same size, or a policy "
                "that was trained as shared, on local observations and without normalise_obs"
            )
        other.state = other.state._replace(agent=Agent(policy, other.state.agent.critic), obs=obs)
        return other

    def close(self) -> None:
        """End environments and the workers that step them; `learn` starts them again."""
        self.program.close()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to resume: the agent, the optimiser, the settings, and the state of a JAX problem, or
        the seeds and actions of the episodes that other environments are in."""
        settings = dataclasses.asdict(self.config)
        arrays = {} if self._episodes is None else episodes_.to_arrays(self._episodes)
        checkpoints.save(Path(path), self.state, {"config": settings, "timesteps": self.timesteps}, arrays)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], problem: Any, network: Any = None, *, weights: Any = None, local: Any = None
    ) -> "FactoredPPO":
        """A model from a file that `save` wrote, on the same problem and network."""
        settings = dataclasses.asdict(Config.read(checkpoints.about(Path(path))["config"]))
        model = cls(problem, network, weights=weights, local=local, **settings)
        model.restore(path)
        return model

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Continue from a file that `save` wrote, with the settings of this object.

        Environments that are stepped outside of JAX replay the episodes they were in at the next `learn`.
        """
        state, arrays = checkpoints.load(Path(path), self.state)
        episodes = None
        if arrays:
            size = self.config.n_envs, self.spec.n_inputs, len(self.spec.components)
            try:
                episodes = episodes_.from_arrays(arrays, *size)
            except ValueError as error:
                raise ValueError(f"{path}: {error}; was it made with other settings?") from error
        self.program.close()
        self.state, self._episodes = state._replace(hyper=self.state.hyper), episodes


def checked_metrics(metrics: Metrics, config: Config, before: int) -> Metrics:
    """The metrics of the update after `before` steps, with the time; raises at non-finite values."""
    _check_finite(metrics, before)
    step = config.n_envs * config.n_steps
    metrics |= {"time/total_timesteps": before + step, "time/iterations": before // step + 1}
    if metrics["rollout/episodes"] > 0:
        return metrics
    return {name: value for name, value in metrics.items() if not name.startswith("rollout/ep_")}  # no episode ended


def _shapes(tree: Any) -> list[Any]:
    return [x.shape for x in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def _check_finite(metrics: Metrics, before: int) -> None:
    t, i, j = metrics.pop("rollout/not_finite", (-1, -1, -1))
    if t >= 0:
        what = f"target {j}" if j < len(metrics["rollout/ep_targets_mean"]) else "the observation"
        raise FloatingPointError(
            f"environment {i}, step {t} of the rollout after step {before}: {what} is not finite; the state before it "
            "is kept"
        )
    for name, value in metrics.items():
        if not np.isfinite(value).all():
            where = f"target {int(np.flatnonzero(~np.isfinite(value))[0])} of " if np.ndim(value) else ""
            raise FloatingPointError(
                f"{where}{name} is not finite in the update after step {before}; the state before it is kept. "
                "A smaller learning rate, normalise_reward or a look at the problem's targets may help"
            )
