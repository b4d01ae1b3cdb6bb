"""`Collector`: who steps the environments of a rollout. What comes back is the same `Transition` for all of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from .episodes import Episode
from .jax_policy import ModuleArrays
from .numpy_policy import PolicyArrays
from .transitions import Transition


class Behaviour(NamedTuple):
    """The policy that acts in a rollout, in the forms that collectors need."""

    act: Any
    """``act(key, obs, deterministic=False)``, from raw observations ``(B, d)`` to flat actions ``(B, c)``: a JAX
    function with its parameters, a `jax.tree_util.Partial`. Of a recurrent policy ``act(key, obs, memory, …)``, to
    actions and memory."""
    arrays: Callable[[], PolicyArrays | ModuleArrays]
    """The same policy for workers."""
    timesteps: Any
    """Environment steps made before this rollout, a scalar."""


class Collector(ABC):
    """Steps the environments of a problem with a policy.

    `collect` gives the transitions of one rollout, ``[T, B, ...]``. A collector whose `traced` is true may be called
    inside a compiled JAX program; the state of its environments is then a pytree that is handed in and out.
    """

    traced: bool

    @property
    def episodes(self) -> Sequence[Episode] | None:
        """The episodes in progress after the last rollout, where the collector itself holds them. May be set before the
        first rollout: those episodes are then replayed, and continued."""
        return None

    @episodes.setter
    def episodes(self, episodes: Sequence[Episode] | None) -> None:
        """Ignored where the state of the environments is handed in and out."""
        return

    @abstractmethod
    def init(self, key: Any) -> Any:
        """Return the state of the environments before the first step; None if the collector holds it."""

    @abstractmethod
    def collect(self, behaviour: Behaviour, environments: Any, key: Any) -> tuple[Any, Any, Transition]:
        """Return one rollout: the state of the environments after it, the key to continue with, and the transitions."""

    @abstractmethod
    def play_episodes(self, behaviour: Behaviour, episodes: int, *, deterministic: bool, seed: int) -> np.ndarray:
        """Return the targets summed over whole episodes, ``(episodes, m)``, in separate environments."""

    def compiled_act(self, behaviour: Behaviour, deterministic: bool) -> Callable[..., Any]:
        """Return the policy for a loop on the host: from the data of a key and raw observations ``(B, d)`` to flat
        actions; of a recurrent policy from its memory ``(B, h)`` as well, to actions and memory."""
        import jax

        return lambda key, obs, *memory: jax.tree.map(
            np.asarray, self._act(behaviour.act, key, obs, memory, deterministic)
        )

    @cached_property
    def _act(self) -> Callable[..., Any]:
        # One function for all parameters: JAX compiles it once per shape. It is this object's own, so that what it
        # compiled can be released with it.
        import jax

        def act(act: Any, key: Any, obs: Any, memory: Any, deterministic: bool) -> Any:
            return act(jax.random.wrap_key_data(key), obs, *memory, deterministic=deterministic)

        return jax.jit(act, static_argnums=4)

    def share(self, other: "Collector") -> None:
        """Use the compiled policy of another collector, for the same kind of policy."""
        self._act = other._act

    def metrics(self) -> dict[str, Any]:
        """Return what is worth logging of the last rollout."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Release environments and workers; the next rollout starts them again."""


class CollectorSettings(Protocol):
    """The settings of `factorax.learning.Config` that say who steps the environments."""

    @property
    def seed(self) -> int: ...  # noqa: D102
    @property
    def n_envs(self) -> int: ...  # noqa: D102
    @property
    def n_steps(self) -> int: ...  # noqa: D102
    @property
    def policy(self) -> Any: ...  # noqa: D102
    @property
    def architecture(self) -> Any: ...  # noqa: D102
    @property
    def activation(self) -> Any: ...  # noqa: D102
    @property
    def rollouts(self) -> Any: ...  # noqa: D102
    @property
    def workers(self) -> int: ...  # noqa: D102
    @property
    def fragment_seconds(self) -> float: ...  # noqa: D102
    @property
    def overlap(self) -> bool: ...  # noqa: D102
    @property
    def ray_address(self) -> str: ...  # noqa: D102
    @property
    def worker_cpus(self) -> float: ...  # noqa: D102


class SteppedEnvironments(Protocol):
    """Environments side by side that are stepped with given actions; each is reset when its episode ends."""

    @property
    def obs(self) -> Any:
        """Current observations, ``(B, d)``."""
        ...

    def init(self, seed: int) -> None:
        """Start all episodes."""
        ...

    def step(self, actions: np.ndarray) -> Transition:
        """Return one transition of all environments, ``[1, B, ...]``, for flat actions ``(B, c)``."""
        ...

    def close(self) -> None:
        """Close all environments."""
        ...
