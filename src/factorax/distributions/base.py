"""The interface of a distribution: what every kind of action component answers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from .._checks import shown
from .functions import Array

KINDS: dict[str, type["Distribution"]] = {}
"""Every kind of distribution by name, as `register` has added them."""


Kind = TypeVar("Kind", bound="type[Distribution]")


def register(kind: Kind) -> Kind:
    """Add a kind to `KINDS` under its `name`; a decorator of classes."""
    if not isinstance(kind, type) or not issubclass(kind, Distribution):
        raise TypeError(f"kind: got {shown(kind)}, want a subclass of Distribution")
    if not isinstance(getattr(kind, "name", None), str) or not kind.name:
        raise ValueError(f"kind: got the name {getattr(kind, 'name', None)!r}, want a text that is not empty")
    other = KINDS.get(kind.name)
    if other is not None and other.__qualname__ != kind.__qualname__:
        raise ValueError(
            f"kind: got the name {kind.name!r} of {other.__qualname__}, want a unique name for {kind.__qualname__}"
        )
    KINDS[kind.name] = kind
    return kind


@dataclass(frozen=True, eq=False)
class Distribution(ABC):
    """k action components that have the same kind of distribution, independent of each other given the parameters.

    A kind is a subclass in a file of its own, decorated with `register`. Its methods are written once for NumPy and
    JAX: they take the array module from their arguments (`functions.namespace`). NumPy serves rollout workers, which
    never import JAX; JAX serves the learner, which differentiates `log_prob`, `entropy` and `kl`.

    Arguments have these shapes, with any axes in front:

    - `parameters`: what the policy network returns for the components, ``(..., k, width)``;
    - `action`: *raw* actions, as they are sampled and stored, ``(..., k)``, floats; choices by their number from 0;
    - `log_std`: log σ of each component, ``(k,)``. A parameter of the policy that does not depend on the state. Kinds
      with ``has_spread = False`` ignore it.

    What an environment receives is the raw action after `rescale`, clipped to the bounds of the space.
    """

    name: ClassVar[str]
    """What `ActionSpace.kinds` calls it."""
    title: ClassVar[str] = ""
    """What `ActionSpace.describe_actions` calls it; its name if empty."""
    discrete: ClassVar[bool] = False
    """Whether an action is a choice, numbered from 0."""
    has_spread: ClassVar[bool] = False
    """Whether the distribution is that of a Gaussian deviation σ ε from a mean: then `log_std` applies to it, and the
    components of a factor may have a full covariance. Such kinds derive from `Gaussian`."""
    additive: ClassVar[bool] = False
    """Whether `choose` depends on ``parameters + noise`` alone; then `pick` is what a kind implements."""
    bounded: ClassVar[str | None] = None
    """The value of the setting `bounded` that gives this distribution to the bounded components of a Box."""
    initial_log_std: ClassVar[float] = 0.0
    """log σ of an untrained policy, unless the settings say otherwise."""
    rescales: ClassVar[bool] = False
    """Whether raw actions have to be mapped into the bounds of the space by `rescale`."""

    low: np.ndarray
    high: np.ndarray
    """Bounds of the components in the action space, ``(k,)``; infinite where there are none."""
    choices: np.ndarray
    """Number of choices of each component, ``(k,)``; 0 for continuous ones."""

    def __len__(self) -> int:
        return len(self.choices)

    @property
    def width(self) -> int:
        """Number of parameters of a component."""
        return 1

    @abstractmethod
    def log_prob(self, parameters: Array, action: Array, log_std: Array) -> Array:
        """Return the log-probability or log-density of raw actions, ``(..., k)``."""

    @abstractmethod
    def entropy(self, parameters: Array, log_std: Array) -> Array:
        """Return the entropy of every component, ``(..., k)``."""

    @abstractmethod
    def kl(self, old: tuple[Array, Array], new: tuple[Array, Array]) -> Array:
        """Return KL(old ‖ new), ``(..., k)``; `old` and `new` are pairs of `parameters` and `log_std`."""

    @abstractmethod
    def mode(self, parameters: Array) -> Array:
        """Return the most probable raw action, ``(..., k)``."""

    @abstractmethod
    def sample(self, key: Any, parameters: Array, log_std: Array) -> Array:
        """Draw raw actions ``(..., k)`` with a JAX key."""

    @abstractmethod
    def noise(self, rng: np.random.Generator, n_steps: int, log_std: np.ndarray) -> np.ndarray:
        """Draw the random part of `n_steps` actions ahead of time with NumPy, float32 ``(T, k, width)``."""

    def choose(self, parameters: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return raw actions ``(..., k)`` made of parameters and noise, both ``(..., k, width)``, with NumPy."""
        return self.pick(parameters + noise)

    def pick(self, perturbed: np.ndarray) -> np.ndarray:
        """Return raw actions ``(..., k)`` for ``parameters + noise``, ``(..., k, width)``; of `additive` kinds."""
        raise NotImplementedError(f"{type(self).__name__}: want `pick` if the kind is additive, `choose` if it is not")

    def rescale(self, action: Array) -> Array:
        """Map raw actions ``(..., k)`` into the bounds; clipping follows. Only of kinds with ``rescales = True``."""
        return action

    @abstractmethod
    def standardised(
        self, parameters: np.ndarray, action: np.ndarray, between: np.ndarray, log_std: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and uniforms of raw actions, both ``(..., k)``, with NumPy.

        Scores increase with the action and have mean 0 and variance 1 given the state. Uniforms are F(a|s); for choices
        a point between F below a and F at a, at the share `between` ∈ [0, 1) of the way.
        """

    @property
    def direction(self) -> np.ndarray:
        """Direction in the space of parameters that shifts the action upwards, ``(k, width)``; of choices, to later
        ones. The first parameter unless a kind says otherwise."""
        shift = np.zeros((len(self), self.width), np.float32)
        shift[:, 0] = 1.0
        return shift

    def neutral(self) -> tuple[np.ndarray, np.ndarray]:
        """Return parameters ``(k, width)`` and σ ``(k,)`` of a policy that explores without looking at the state."""
        return np.zeros((len(self), self.width), np.float32), np.ones(len(self))
