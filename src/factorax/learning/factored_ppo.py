"""`FactoredPPO`: learn, predict, evaluate, save, load."""

import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import _progress
from ..problems.failures import EpisodeLost
from ..problems.problem import Problem
from ..rollouts import HostEnvironments, LostWarning, episodes
from ..structure import InfluenceNetwork
from . import checkpoints, device_memory, influence, sight
from .config import WHO_STEPS, Config
from .learner import Learner
from .networks import Policy, Shared
from .ppo import Agent
from .state import TrainState

Metrics = dict[str, Any]
Callback = Callable[["FactoredPPO", Metrics], bool | None]


class FactoredPPO:
    """Proximal policy optimisation that credits every factor with the targets it influences.

    **Arguments**

    - `problem`: a JAX `Problem`, or a function that makes a Gymnasium environment, as in
      ``lambda: gym.make("CartPole-v1")``: its scalar reward is ``weights @ info["vector_reward"]``, or, without such a
      vector, the one target there is.
    - `network`: the influence network of returns, one row for each component of the action space, or factored; or one
      that varies: a `NetworkSchedule` over time steps, a `StateNetwork`, a `LaggedNetwork`, an `AdaptiveNetwork`. The
      problem's own if left out.
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
        self.state: TrainState = self.learner.init()
        self.history: list[Metrics] = []
        self._episodes: Sequence[episodes.Episode] | None = None
        self._predictions = jax.random.fold_in(jax.random.key(self.config.seed), 1)

    @property
    def network(self) -> InfluenceNetwork:
        """The network as it is now; of one that depends on state or lag, all edges that it may have."""
        return influence.present(self.learner, self.state)

    @property
    def timesteps(self) -> int:
        """Steps of all environments so far."""
        return int(self.state.timesteps)

    def learn(
        self, total_timesteps: int | None = None, *, progress_bar: bool = True, callback: Callback | None = None
    ) -> "FactoredPPO":
        """Train until so many steps have been made in all, whole rollouts; then return this object.

        `callback` is called after every update with this object and the metrics; if it returns False, training stops.
        """
        total = self.config.total_timesteps if total_timesteps is None else total_timesteps
        last, warned = np.nan, False
        if self.timesteps == 0 < total and self.state.validity is not None:
            sight.warn_if_actors_answer(self.learner)
        rollouts = None if isinstance(self.learner.problem, Problem) else self.learner.rollouts
        if rollouts is not None and rollouts.episodes is None:
            rollouts.episodes = self._episodes  # of an earlier life
        begun = time.perf_counter()
        with _progress.progress_bar(disable=not progress_bar) as progress:
            bar = progress.add_task("", total=total, completed=self.timesteps)
            while self.timesteps < total:
                started, before = time.perf_counter(), self.timesteps
                state, new = self.learner.compiled(self.state)
                metrics = finished({name: np.asarray(value) for name, value in new.items()}, self.config, before)
                after, now = int(state.timesteps), time.perf_counter()
                metrics["time/fps"] = (after - before) / (now - started)
                metrics["time/time_elapsed"] = now - begun
                metrics |= device_memory.peak()
                last = float(metrics.get("rollout/ep_rew_mean", last))
                self.state = state
                if rollouts is not None:
                    self._episodes = rollouts.episodes
                self.history.append(metrics)
                warned = warned or influence.warn_if_edges_are_missing(
                    self.learner, state.validity, metrics["time/iterations"]
                )
                shown = "–" if np.isnan(last) else f"{last:.4g}"
                text = f"return {shown}  {metrics['time/fps']:,.0f} steps/s  kl {metrics['train/approx_kl']:.2g}"
                progress.update(bar, completed=self.timesteps, description=text)
                if callback is not None and callback(self, metrics) is False:
                    break
        return self

    def predict(self, obs: Any, deterministic: bool = False) -> Any:
        """Actions, as elements of the action space, for one observation, or a list of them for a batch ``(B, d)``."""
        obs = np.asarray(obs, np.float32)
        one = self.learner.observation_space.shape or (1,)
        if obs.ndim == 0 and one == (1,):
            obs = obs[None]
        if obs.shape != one and obs.shape[1:] != one:
            raise ValueError(f"obs: got shape {obs.shape}, want {one}, or a batch of them in front")
        flat = obs.reshape(-1, self.learner.n_inputs)
        self._predictions, here = jax.random.split(self._predictions)  # training draws from a key of its own
        actions = self.learner.actor(self.state, deterministic)(jax.random.key_data(here), flat)
        elements = list(self.learner.space.to_environments(actions))
        return elements[0] if obs.shape == one else elements

    def evaluate(self, episodes: int = 10, *, deterministic: bool = True, seed: int = 0) -> dict[str, Any]:
        """Mean and standard error of the return over so many whole episodes, in environments of their own."""
        problem: Any = self.learner.problem
        if isinstance(problem, Problem):
            environments, some = self.learner.episodes(episodes, deterministic)
            state = environments.init(jax.random.key(seed))
            returns: Any = np.full((episodes, self.learner.n_targets), np.nan)
            key = jax.random.key(seed + 1)
            for _ in range(10_000):
                key, here = jax.random.split(key)
                state, seen = some(self.state, state, here)
                _keep_first(returns, np.asarray(seen.episode_length), np.asarray(seen.episode_psi))
                if not np.isnan(returns).any():
                    break
            else:
                raise RuntimeError("evaluate: an episode did not end within 640,000 steps")
        else:
            count = 1 if self.learner.one_per_process else min(episodes, self.config.n_envs)
            environments: Any = HostEnvironments(problem, count, self.learner.space, self.learner.n_targets)
            environments.init(seed)
            done: list[list[np.ndarray]] = [[] for _ in range(count)]
            share = [len(range(i, episodes, count)) for i in range(count)]  # the first to end are not the typical ones
            key, act = jax.random.key(seed + 1), self.learner.actor(self.state, deterministic)
            while any(len(d) < s for d, s in zip(done, share, strict=True)):
                key, here = jax.random.split(key)
                lost: dict[int, EpisodeLost] = {}
                seen = environments.collect(partial(act, jax.random.key_data(here)), 1, lost)
                for i, error in lost.items():
                    warnings.warn(f"environment {i} began an episode anew: {error}", LostWarning, stacklevel=2)
                    environments.begin_anew(i)
                for i in np.flatnonzero(seen.episode_length[0]):
                    done[i].append(seen.episode_psi[0, i])
            environments.close()
            returns = np.concatenate([d[:s] for d, s in zip(done, share, strict=True)])
        objective = returns @ self.learner.weights
        error = float(objective.std(ddof=1) / np.sqrt(episodes)) if episodes > 1 else 0.0
        return {
            "return": float(objective.mean()),
            "error": error,
            "targets": returns.mean(axis=0),
            "episodes": objective,
        }

    def on(self, problem: Any, network: Any = None) -> "FactoredPPO":
        """This policy on another problem, to be evaluated there; its critic has learnt nothing.

        A shared policy may go to any number of factors, if what each of them sees has the same size.
        """
        # One environment: there are simulators that have room for one in a process.
        settings = dataclasses.asdict(self.config) | {"n_envs": 1, "n_steps": 1, "batch_size": 1, "overlap": False}
        settings = {name: value for name, value in settings.items() if name not in WHO_STEPS}
        other = FactoredPPO(problem, network, **settings)
        policy, theirs = self.state.agent.policy, other.state.agent.policy
        if isinstance(policy.net, Shared) and len(self.learner.space) != len(other.learner.space):
            spread = jax.tree.map(_averaged, policy.spread, theirs.spread)
            policy = Policy(policy.net.averaged(len(other.learner.space)), spread)
        obs = self.state.obs if self.config.normalise_obs else other.state.obs
        if _shapes((policy, obs)) != _shapes((theirs, other.state.obs)):
            a, b = self.learner, other.learner
            raise ValueError(
                f"problem: a {self.config.policy} policy for {a.n_factors} factors, which sees {a.n_inputs} numbers, "
                f"cannot act for {b.n_factors} that see {b.n_inputs}; want a problem of the same size, or a policy "
                "that was trained as shared, on local observations and without normalise_obs"
            )
        other.state = other.state._replace(agent=Agent(policy, other.state.agent.critic), obs=obs)
        return other

    def close(self) -> None:
        """End the environments of the host, and the workers that step them; `learn` begins them anew."""
        self.learner.close()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to go on: the agent, the optimiser, the settings, and the state of a JAX problem, or
        seeds and actions of the episodes that environments of the host are in."""
        settings = dataclasses.asdict(self.config)
        beside = {} if self._episodes is None else episodes.to_arrays(self._episodes)
        checkpoints.save(Path(path), self.state, {"config": settings, "timesteps": self.timesteps}, beside)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], problem: Any, network: Any = None, *, weights: Any = None, local: Any = None
    ) -> "FactoredPPO":
        """Go on from a file that `save` wrote, on the same problem and network."""
        settings = checkpoints.about(Path(path))["config"]
        model = cls(problem, network, weights=weights, local=local, **settings)
        model.restore(path)
        return model

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on from a file that `save` wrote, with the settings of this object.

        Environments of the host play the episodes they were in again, at the next `learn`.
        """
        state, beside = checkpoints.load(Path(path), self.state)
        found = None
        if beside:
            size = self.config.n_envs, self.learner.n_inputs, len(self.learner.space)
            try:
                found = episodes.from_arrays(beside, *size)
            except ValueError as error:
                raise ValueError(f"{path}: {error}; was it made with other settings?") from error
        self.learner.close()
        self.state, self._episodes = state._replace(hyper=self.state.hyper), found


def finished(metrics: Metrics, config: Config, before: int) -> Metrics:
    """The metrics of an update after so many steps, with the time; raises if a number is none."""
    _check_finite(metrics, before)
    step = config.n_envs * config.n_steps
    metrics |= {"time/total_timesteps": before + step, "time/iterations": before // step + 1}
    if metrics["rollout/episodes"] > 0:
        return metrics
    return {name: value for name, value in metrics.items() if not name.startswith("rollout/ep_")}  # of none


def _averaged(one: jax.Array, like: jax.Array) -> jax.Array:
    return jnp.broadcast_to(one.mean(axis=0), like.shape)


def _shapes(tree: Any) -> list[Any]:
    return [x.shape for x in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def _keep_first(returns: np.ndarray, length: np.ndarray, psi: np.ndarray) -> None:
    """The first episode of every environment that has none yet."""
    for i in np.flatnonzero(np.isnan(returns).any(axis=1)):
        ended = np.flatnonzero(length[:, i])
        if len(ended):
            returns[i] = psi[ended[0], i]


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
