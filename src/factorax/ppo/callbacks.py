"""Callbacks of `FactoredPPO.learn`: their interface, and ready-made ones.

Names and arguments are those of Stable-Baselines3. Frequencies count steps of each environment; a callback acts at the
end of the first rollout at which a multiple of its frequency has been reached.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .._checks import Count, Whole, checked, listed, path_of
from .._files import write_whole
from .._text import shown
from .metrics import Metrics

if TYPE_CHECKING:
    from .model import FactoredPPO as Model


class Callback:
    """Called at the start of training, after each rollout and its update, and at the end.

    Subclasses override the methods they need. Any object with some of these methods also works, and so does a function
    ``f(model, metrics)``, which is called like `on_rollout_end`.

    >>> class StopAt(Callback):
    ...     def __init__(self, steps):
    ...         self.steps = steps
    ...
    ...     def on_rollout_end(self, model, metrics):
    ...         return model.num_timesteps < self.steps
    """

    every_update = True
    """Whether to be called after every single update, which is what callbacks of users want. If false, several updates
    may follow each other in one compiled program, and `on_rollout_end` is called for each of them when it ends."""

    def on_training_start(self, model: "Model") -> None:
        """Called once, before the first rollout."""

    def on_rollout_end(self, model: "Model", metrics: Metrics) -> bool | None:
        """Called after each rollout and its update, with the metrics; training stops if it returns False."""

    def on_training_end(self, model: "Model") -> None:
        """Called once when training ends, also after an error."""


def stops(result: Any) -> bool:
    """Return whether a callback returned False (of Python or NumPy); None and anything else continue training."""
    return isinstance(result, bool | np.bool_) and not result


class CallbackList(Callback):
    """Several callbacks, called in order. All of them are called, even if one stops training."""

    def __init__(self, callbacks: Sequence[Any]):
        entries = listed("callbacks", callbacks, "a list of callbacks")
        self.callbacks = [as_callback(each, "callbacks") for each in entries]

    @property
    def every_update(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether one of them wants to be called after every single update."""
        return any(callback.every_update for callback in self.callbacks)

    def on_training_start(self, model: "Model") -> None:
        """Call `on_training_start` of each callback."""
        for callback in self.callbacks:
            callback.on_training_start(model)

    def on_rollout_end(self, model: "Model", metrics: Metrics) -> bool:
        """Return False if one of the callbacks does."""
        # A list, since `any` alone would not call those after the first that stops.
        results = [callback.on_rollout_end(model, metrics) for callback in self.callbacks]
        return not any(map(stops, results))

    def on_training_end(self, model: "Model") -> None:
        """Call `on_training_end` of each callback."""
        for callback in self.callbacks:
            callback.on_training_end(model)

    @contextmanager
    def training(self, model: "Model") -> Iterator[None]:
        """Start each callback, and end each of them however the block ends."""
        for callback in self.callbacks:
            callback.on_training_start(model)
        try:
            yield
        finally:
            for callback in self.callbacks:
                callback.on_training_end(model)


def each_of(callback: Callback) -> list[Callback]:
    """Return a callback, or the callbacks in nested lists, as a flat list."""
    if not isinstance(callback, CallbackList):
        return [callback]
    return [inner for each in callback.callbacks for inner in each_of(each)]


class _OfStableBaselines3(Callback):
    """A callback of Stable-Baselines3.

    It expects a call after each step of the environments. Here a rollout is one program, so all these calls follow at
    the end of the rollout, and see the policy after the update.
    """

    def __init__(self, wrapped: Any):
        self.wrapped = wrapped

    def on_training_start(self, model: "Model") -> None:
        self.wrapped.init_callback(model)
        self.wrapped.on_training_start({"self": model, "total_timesteps": model.last_timestep}, {})
        self.wrapped.on_rollout_start()

    def on_rollout_end(self, model: "Model", metrics: Metrics) -> bool:
        self.wrapped.update_locals({"self": model, "metrics": metrics})
        # At the first step that stops, as in Stable-Baselines3: it does not call the remaining ones either.
        goes_on = not any(stops(self.wrapped.on_step()) for _ in range(model.config.n_steps))
        self.wrapped.on_rollout_end()
        if goes_on:
            self.wrapped.on_rollout_start()
        return goes_on

    def on_training_end(self, model: "Model") -> None:
        self.wrapped.on_training_end()


def as_callback(callback: Any, argument: str = "callback") -> Callback:
    """Return a callback from None, a function, an object, a callback of Stable-Baselines3, or a list of these."""
    if callback is None:
        return CallbackList([])
    if isinstance(callback, Callback):
        return callback
    # First, because these have some of the methods below as well.
    if hasattr(callback, "init_callback") and hasattr(callback, "on_step"):
        return _OfStableBaselines3(callback)
    names = ("on_training_start", "on_rollout_end", "on_training_end")
    methods = {name: getattr(callback, name) for name in names if hasattr(callback, name)}
    if not methods and callable(callback):
        methods = {"on_rollout_end": callback}
    if methods:
        adapted = Callback()
        vars(adapted).update(methods)
        return adapted
    if isinstance(callback, Iterable) and not isinstance(callback, str):
        return CallbackList([as_callback(each, argument) for each in callback])
    raise TypeError(
        f"{argument}: got {shown(callback)}, want a function f(model, metrics), an object with "
        "on_training_start, on_rollout_end or on_training_end, or a list of those"
    )


class _Every:
    """Tells whether a multiple of a frequency, in steps per environment, was reached since the last query."""

    def __init__(self, name: str, frequency: int):
        self.frequency, self.reached = checked(name, frequency, Count), 0

    def start(self, model: "Model") -> None:  # a training that continues has reached earlier multiples already
        self.reached = model.num_timesteps // model.config.n_envs // self.frequency

    def due(self, model: "Model") -> bool:
        before, self.reached = self.reached, model.num_timesteps // model.config.n_envs // self.frequency
        return self.reached > before  # a rollout may jump over a multiple, or several


class EvalCallback(Callback):
    """Evaluates the policy regularly and keeps the best model.

    - `eval_env`: where to evaluate: None for environments of the training problem, a problem, an environment factory,
      an environment, or a Stable-Baselines3 vectorised environment.
    - `eval_freq`: steps per environment between evaluations.
    - `best_model_save_path`: a folder for ``best_model.safetensors``.
    - `log_path`: a folder for ``evaluations.npz``, with ``timesteps`` and ``results`` as in Stable-Baselines3.
    - `callback_on_new_best`, `callback_after_eval`: callbacks whose `on_rollout_end` is called after a new best result,
      or after each evaluation; training stops if one of them returns False.

    `best_mean_reward` and `last_mean_reward` are the results; the logger receives ``eval/mean_reward``.
    """

    def __init__(
        self,
        eval_env: Any = None,
        callback_on_new_best: Any = None,
        callback_after_eval: Any = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10_000,
        log_path: str | os.PathLike[str] | None = None,
        best_model_save_path: str | os.PathLike[str] | None = None,
        deterministic: bool = True,
        verbose: int = 1,
    ):
        is_env = hasattr(eval_env, "step_wait") or hasattr(eval_env, "step") or callable(eval_env)
        if eval_env is not None and not is_env and not isinstance(eval_env, str):
            raise TypeError(
                f"eval_env: got {shown(eval_env)}, want an environment, a problem, or None for the training problem"
            )
        self.eval_env, self.deterministic = eval_env, checked("deterministic", deterministic, bool)
        self.n_eval_episodes = checked("n_eval_episodes", n_eval_episodes, Count)
        self.on_best = as_callback(callback_on_new_best, "callback_on_new_best")
        self.after_eval = as_callback(callback_after_eval, "callback_after_eval")
        self.nested = CallbackList([self.on_best, self.after_eval])
        for inner in each_of(self.nested):
            if isinstance(inner, StopTrainingOnRewardThreshold):
                inner.parent = self
        self.every = _Every("eval_freq", eval_freq)
        self.log_path = None if log_path is None else path_of("log_path", log_path, "a folder")
        best = best_model_save_path
        self.best_model_save_path = None if best is None else path_of("best_model_save_path", best, "a folder")
        self.verbose = _verbosity(verbose)
        self.best_mean_reward = self.last_mean_reward = -np.inf
        self.timesteps: list[int] = []
        self.results: list[np.ndarray] = []

    def on_training_start(self, model: "Model") -> None:
        """Create the folders."""
        self.every.start(model)
        # Before training, so that a path that is not writable does not cost the steps until the first evaluation.
        for folder in (self.log_path, self.best_model_save_path):
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        self.nested.on_training_start(model)

    def on_training_end(self, model: "Model") -> None:
        """End the nested callbacks."""
        self.nested.on_training_end(model)

    def on_rollout_end(self, model: "Model", metrics: Metrics) -> bool:
        """Evaluate if an evaluation is due."""
        if not self.every.due(model):
            return True
        returns = returns_in(model, self.eval_env, self.n_eval_episodes, self.deterministic)
        self.last_mean_reward = float(returns.mean())
        self.timesteps.append(model.num_timesteps)
        self.results.append(returns)
        model.logger.record("eval/mean_reward", self.last_mean_reward)
        if self.verbose:
            print(f"evaluation after {model.num_timesteps:,} steps: {returns.mean():.2f} ± {returns.std():.2f}")
        if self.log_path is not None:
            arrays: Any = {"timesteps": np.array(self.timesteps), "results": np.array(self.results)}
            # The whole file each time: an archive of NumPy cannot be appended to.
            write_whole(self.log_path / "evaluations.npz", lambda file: np.savez(file, **arrays))
        goes_on = True
        if self.last_mean_reward > self.best_mean_reward:
            self.best_mean_reward = self.last_mean_reward
            if self.best_model_save_path is not None:
                model.save(self.best_model_save_path / "best_model")
            # The callback after the evaluation is called even if this one stops training.
            goes_on = not stops(self.on_best.on_rollout_end(model, metrics))
        return not stops(self.after_eval.on_rollout_end(model, metrics)) and goes_on


class CheckpointCallback(Callback):
    """Saves the model every `save_freq` steps of each environment, as ``PREFIX_STEPS_steps.safetensors``."""

    def __init__(self, save_freq: int, save_path: str | os.PathLike[str], name_prefix: str = "rl_model"):
        self.every, self.folder = _Every("save_freq", save_freq), path_of("save_path", save_path, "a folder")
        if not isinstance(name_prefix, str) or not name_prefix or "/" in name_prefix:
            raise ValueError(f"name_prefix: got {shown(name_prefix)}, want the start of a file name")
        self.name_prefix = name_prefix

    def on_training_start(self, model: "Model") -> None:
        """Create the folder."""
        self.every.start(model)
        self.folder.mkdir(parents=True, exist_ok=True)

    def on_rollout_end(self, model: "Model", metrics: Metrics) -> None:
        """Save the model if a checkpoint is due."""
        if self.every.due(model):
            model.save(self.folder / f"{self.name_prefix}_{model.num_timesteps}_steps")


class StopTrainingOnRewardThreshold(Callback):
    """Stops training at a mean return.

    As the `callback_on_new_best` of an `EvalCallback` it uses the return of evaluations, otherwise that of the
    episodes that ended in a rollout."""

    def __init__(self, reward_threshold: float, verbose: int = 0):
        self.reward_threshold = checked("reward_threshold", reward_threshold, float)
        self.verbose = _verbosity(verbose)
        self.parent: EvalCallback | None = None

    def on_rollout_end(self, model: "Model", metrics: Metrics) -> bool:
        """Return False once the return has reached the threshold."""
        reached = metrics.get("rollout/ep_rew_mean", -np.inf)  # absent if no episode ended
        if self.parent is not None:
            reached = self.parent.best_mean_reward
        if reached < self.reward_threshold:
            return True
        if self.verbose:
            print(f"stopped: the mean return {float(reached):.2f} has reached {self.reward_threshold}")
        return False


class ProgressBarCallback(Callback):
    """A progress bar for one call of `learn`, with the last mean return, steps per second and KL divergence."""

    every_update = False

    def on_training_start(self, model: "Model") -> None:
        """Show the bar."""
        self.bar = progress_bar()
        self.bar.start()
        self.task = self.bar.add_task("", total=model.last_timestep, completed=model.num_timesteps)
        self.last = np.nan

    def on_rollout_end(self, model: "Model", metrics: Metrics) -> None:
        """Advance the bar."""
        self.last = float(metrics.get("rollout/ep_rew_mean", self.last))  # absent if no episode ended
        shown = "–" if np.isnan(self.last) else f"{self.last:.4g}"
        text = f"return {shown}  {metrics['time/fps']:,.0f} steps/s  kl {metrics['train/approx_kl']:.2g}"
        self.bar.update(self.task, completed=model.num_timesteps, description=text)

    def on_training_end(self, model: "Model") -> None:
        """Remove the bar."""
        self.bar.stop()


def progress_bar(**options: Any) -> Progress:
    """Return a progress bar with elapsed and remaining time; `options` are passed to rich's ``Progress``."""
    bar = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    clocks = (TimeElapsedColumn(), TextColumn("elapsed,"), TimeRemainingColumn(), TextColumn("left"))
    return Progress(*bar, *clocks, **options)


def _verbosity(verbose: Any) -> int:
    return checked("verbose", int(verbose) if isinstance(verbose, bool) else verbose, Whole)


def returns_in(model: "Model", env: Any, episodes: int, deterministic: bool) -> np.ndarray:
    """Return the returns λ·ψ of complete episodes, ``(episodes,)``; `env` is as for `EvalCallback`."""
    if isinstance(env, gym.Env):  # played as it is: a problem would create other environments than the user's
        return np.array([_play(model, env, deterministic) for _ in range(episodes)])
    if hasattr(env, "step_wait"):  # a vectorised environment of Stable-Baselines3
        from stable_baselines3.common.evaluation import evaluate_policy  # pyright: ignore[reportMissingImports]

        options: Any = {"n_eval_episodes": episodes, "deterministic": deterministic, "warn": False}
        return np.asarray(evaluate_policy(model, env, return_episode_rewards=True, **options)[0])  # pyright: ignore
    played = model if env is None else model.on(env)
    return played.evaluate(episodes, deterministic=deterministic)["episodes"]


def _play(model: "Model", env: gym.Env, deterministic: bool) -> float:
    obs, _ = env.reset()
    total, over, state = 0.0, False, None
    while not over:
        action, state = model.predict(obs, state, deterministic=deterministic)
        obs, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
    return total
