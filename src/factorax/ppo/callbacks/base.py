"""The interface of callbacks, the model interface that they use, and conversion from other forms."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from ..._checks import listed
from ..._text import shown
from ..config import Config
from ..logger import Logger
from ..metrics import Metrics


class Model(Protocol):
    """The interface of a model that callbacks use; `factorax.ppo.FactoredPPO` implements it."""

    config: Config
    logger: Logger
    last_timestep: int
    """The step at which training will end."""

    @property
    def num_timesteps(self) -> int: ...  # noqa: D102
    def predict(self, observation: Any, state: Any = None, *, deterministic: bool = False) -> tuple[Any, Any]: ...  # noqa: D102
    def evaluate(self, episodes: int = 10, *, deterministic: bool = True) -> dict[str, Any]: ...  # noqa: D102
    def on(self, problem: Any) -> Any: ...  # noqa: D102
    def save(self, path: Any) -> None: ...  # noqa: D102


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

    def on_training_start(self, model: Model) -> None:
        """Called once, before the first rollout."""

    def on_rollout_end(self, model: Model, metrics: Metrics) -> bool | None:
        """Called after each rollout and its update, with the metrics; training stops if it returns False."""

    def on_training_end(self, model: Model) -> None:
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

    def on_training_start(self, model: Model) -> None:
        """Call `on_training_start` of each callback."""
        for callback in self.callbacks:
            callback.on_training_start(model)

    def on_rollout_end(self, model: Model, metrics: Metrics) -> bool:
        """Return False if one of the callbacks does."""
        return not any([stops(callback.on_rollout_end(model, metrics)) for callback in self.callbacks])  # noqa: C419

    def on_training_end(self, model: Model) -> None:
        """Call `on_training_end` of each callback."""
        for callback in self.callbacks:
            callback.on_training_end(model)

    @contextmanager
    def training(self, model: Model) -> Iterator[None]:
        """Start each callback, and end each of them however the block ends."""
        self.on_training_start(model)
        try:
            yield
        finally:
            self.on_training_end(model)


def each_of(callback: Callback) -> list[Callback]:
    """Return a callback, or the callbacks in nested lists, as a flat list."""
    if not isinstance(callback, CallbackList):
        return [callback]
    return [inner for each in callback.callbacks for inner in each_of(each)]


class _Functions(Callback):
    """A callback with these functions in place of its methods."""

    def __init__(self, **functions: Callable[..., Any]):
        vars(self).update(functions)


class _OfStableBaselines3(Callback):
    """A callback of Stable-Baselines3.

    It expects a call after each step of the environments. Here a rollout is one program, so all these calls follow at
    the end of the rollout, and see the policy after the update.
    """

    def __init__(self, wrapped: Any):
        self.wrapped = wrapped

    def on_training_start(self, model: Model) -> None:
        self.wrapped.init_callback(model)
        self.wrapped.on_training_start({"self": model, "total_timesteps": model.last_timestep}, {})
        self.wrapped.on_rollout_start()

    def on_rollout_end(self, model: Model, metrics: Metrics) -> bool:
        self.wrapped.update_locals({"self": model, "metrics": metrics})
        goes_on = not any(stops(self.wrapped.on_step()) for _ in range(model.config.n_steps))
        self.wrapped.on_rollout_end()
        if goes_on:
            self.wrapped.on_rollout_start()
        return goes_on

    def on_training_end(self, model: Model) -> None:
        self.wrapped.on_training_end()


def as_callback(callback: Any, argument: str = "callback") -> Callback:
    """Return a callback from None, a function, an object, a callback of Stable-Baselines3, or a list of these."""
    if callback is None:
        return CallbackList([])
    if isinstance(callback, Callback):
        return callback
    if hasattr(callback, "init_callback") and hasattr(callback, "on_step"):
        return _OfStableBaselines3(callback)
    names = ("on_training_start", "on_rollout_end", "on_training_end")
    methods = {name: getattr(callback, name) for name in names if hasattr(callback, name)}
    if methods:
        return _Functions(**methods)
    if callable(callback):
        return _Functions(on_rollout_end=callback)
    if isinstance(callback, Iterable) and not isinstance(callback, str):
        return CallbackList([as_callback(each, argument) for each in callback])
    raise TypeError(
        f"{argument}: got {shown(callback)}, want a function f(model, metrics), an object with "
        "on_training_start, on_rollout_end or on_training_end, or a list of those"
    )
