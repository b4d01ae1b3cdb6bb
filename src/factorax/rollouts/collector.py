"""`Collector`: the interface for rollouts. All collectors return the same `Transition`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..networks.numpy_policy import PolicyArrays
from .episodes import Episode
from .transitions import Transition


class Behaviour(NamedTuple):
    """The policy that acts in a rollout, in the forms that collectors need."""

    act: Any
    """A JAX function with its parameters, a `jax.tree_util.Partial`: ``act(key, obs, deterministic=False)`` maps raw
    observations ``(B, d)`` to flat actions ``(B, c)``. A recurrent policy is ``act(key, obs, memory, …)`` and also
    returns its memory. ``among=(first, count)``: actions are drawn as for `count` observations, of which these are
    those from number `first` on."""
    arrays: Callable[[], PolicyArrays]
    """The same policy in a form for workers."""
    timesteps: Any
    """Environment steps made before this rollout, a scalar."""


class Collector(ABC):
    """Steps the environments of a problem with a policy.

    `collect` returns the transitions of one rollout, ``[T, B, ...]``. A collector with `traced` true may be called
    inside a compiled JAX program; the state of its environments is then a pytree that is passed in and out.
    """

    traced: bool

    @property
    def episodes(self) -> Sequence[Episode] | None:
        """The episodes in progress after the last rollout, if the collector stores them.

        If set before the first rollout, these episodes are replayed and continued.
        """
        return None

    @episodes.setter
    def episodes(self, episodes: Sequence[Episode] | None) -> None:
        """Do nothing if the state of the environments is passed in and out."""
        return

    @abstractmethod
    def init(self, key: Any) -> Any:
        """Return the state of the environments before the first step; None if the collector stores it."""

    @abstractmethod
    def collect(self, behaviour: Behaviour, environments: Any, key: Any) -> tuple[Any, Any, Transition]:
        """Run one rollout; return the new state of the environments, the key to continue with, and the transitions."""

    @abstractmethod
    def play_episodes(self, behaviour: Behaviour, episodes: int, *, deterministic: bool, seed: int) -> np.ndarray:
        """Return the targets summed over complete episodes, ``(episodes, m)``, in separate environments."""

    def compiled_act(self, behaviour: Behaviour, deterministic: bool) -> Callable[..., Any]:
        """Return the compiled policy for a loop on the host.

        It maps the data of a key and raw observations ``(B, d)`` to flat actions; a recurrent policy also takes and
        returns its memory ``(B, h)``.
        """
        import jax

        return lambda key, obs, *memory: jax.tree.map(
            np.asarray, self._act(behaviour.act, key, obs, memory, deterministic)
        )

    @cached_property
    def _act(self) -> Callable[..., Any]:
        # One function for all parameters: JAX compiles it once per shape. It belongs to this object, so that its
        # compiled programs are released together.
        import jax

        def act(act: Any, key: Any, obs: Any, memory: Any, deterministic: bool) -> Any:
            return act(jax.random.wrap_key_data(key), obs, *memory, deterministic=deterministic)

        return jax.jit(act, static_argnums=4)

    def metrics(self) -> dict[str, Any]:
        """Return metrics of the last rollout."""
        return {}

    def close(self) -> None:  # noqa: B027 (nothing to release, unless a subclass does)
        """Release environments and workers; the next rollout restarts them."""
