"""The interface of a distribution of action components."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np

from .._checks import Range
from .._text import shown
from ..choices import Choice, Menu
from .functions import Array

KINDS: dict[str, type["Distribution"]] = {}
"""All registered kinds of distributions by name."""


class BoundedChoice(Choice):
    """The distribution of the components of a Box with finite bounds: the attribute `bounded` of a kind names it."""


@dataclass(frozen=True)
class GaussianChoice(BoundedChoice):
    """A Gaussian distribution, with the settings of its standard deviation, which those without bounds also have."""

    std: Literal["component", "shared", "state", "full"] = "component"
    """Standard deviation. component: one parameter per component. shared: one parameter for all. state: an output of
    the policy network, to which initial_log_std is added. full: one parameter per component, and a full covariance
    of the components of each factor; different factors are always independent."""
    initial_log_std: Annotated[float, Range(-20, 10)] | None = None
    """Initial log standard deviation. None: 0 in raw units and before a tanh, and log ½ for actions scaled to their
    bounds, which are then two standard deviations from the middle."""


@dataclass(frozen=True)
class Scale(GaussianChoice):
    """A Gaussian in units in which the bounds are −1 and 1, clipped."""


@dataclass(frozen=True)
class Clip(GaussianChoice):
    """A Gaussian in raw units, clipped: raw actions are those of the environment."""


@dataclass(frozen=True)
class Tanh(GaussianChoice):
    """A Gaussian squashed by a tanh."""


@dataclass(frozen=True)
class BetaChoice(BoundedChoice):
    """A Beta distribution."""


DISTRIBUTIONS = Menu(
    "distribution",
    {"scale": Scale, "clip": Clip, "tanh": Tanh, "beta": BetaChoice},
    {"squash": "tanh", "squashed": "tanh", "gaussian": "scale", "raw": "clip", "none": "clip"},
)

Kind = TypeVar("Kind", bound="type[Distribution]")


def register(kind: Kind) -> Kind:
    """Add a kind to `KINDS` under its `name`, and to `DISTRIBUTIONS` under the name `bounded`, if it has one. Use it
    as a class decorator."""
    if not isinstance(kind, type) or not issubclass(kind, Distribution):
        raise TypeError(f"kind: got {shown(kind)}, want a subclass of Distribution")
    if not isinstance(getattr(kind, "name", None), str) or not kind.name:
        raise ValueError(f"kind: got the name {getattr(kind, 'name', None)!r}, want a non-empty string")
    for field in ("name", "bounded"):
        name = getattr(kind, field)
        others = [other for other in KINDS.values() if getattr(other, field) == name is not None]
        # a kind of the same class name is a module that was loaded again
        if others and others[0].__qualname__ != kind.__qualname__:
            raise ValueError(
                f"kind: got the {field} {name!r}, which {others[0].__qualname__} has; want a unique name for "
                f"{kind.__qualname__}"
            )
    KINDS[kind.name] = kind
    # Ours have choices with settings already; a module that was loaded again keeps the first one.
    if kind.bounded is not None and kind.bounded not in DISTRIBUTIONS.kinds:
        base = GaussianChoice if kind.has_spread else BoundedChoice
        choice: Any = type(kind.__name__, (base,), {"__doc__": kind.__doc__})
        DISTRIBUTIONS.register(kind.bounded, choice)
    return kind


@dataclass(frozen=True, eq=False)
class Distribution(ABC):
    """k action components with the same kind of distribution, independent of each other given the parameters.

    Each kind is a subclass, decorated with `register`. Its methods work with both NumPy and JAX: they
    take the array module from their arguments (`functions.namespace`). Rollout workers use NumPy and never import JAX;
    the learner uses JAX and differentiates `log_prob`, `entropy` and `kl`.

    Arguments have these shapes, with any axes in front:

    - `parameters`: the outputs of the policy network for the components, ``(..., k, width)``;
    - `action`: *raw* actions, as sampled and stored, floats ``(..., k)``; choices are numbered from 0;
    - `log_std`: log σ of each component, ``(k,)``. A parameter of the policy that does not depend on the state. Kinds
      with ``has_spread = False`` ignore it.

    The environment receives the raw action after `rescale`, clipped to the bounds of the space.
    """

    name: ClassVar[str]
    """Name of the kind in `ActionSpace.kinds`."""
    title: ClassVar[str] = ""
    """Name of the kind in `ActionSpace.describe_actions`; by default its `name`."""
    discrete: ClassVar[bool] = False
    """Whether an action is a choice, numbered from 0."""
    has_spread: ClassVar[bool] = False
    """Whether the action is a Gaussian deviation σ ε from its first parameter, so that `log_std` applies and the
    components of a factor may have a full covariance."""
    bounded: ClassVar[str | None] = None
    """The value of the setting `distribution` that selects this kind for the components of a Box with finite bounds;
    None for kinds that are used elsewhere."""
    initial_log_std: ClassVar[float] = 0.0
    """Default log σ of an untrained policy."""
    rescales: ClassVar[bool] = False
    """Whether raw actions must be mapped into the bounds of the space by `rescale`."""

    low: np.ndarray
    high: np.ndarray
    """Bounds of the components in the action space, ``(k,)``; infinite if there are none."""
    choices: np.ndarray
    """Number of choices of each component, ``(k,)``; 0 for continuous components."""

    def __len__(self) -> int:
        return len(self.choices)

    @property
    def width(self) -> int:
        """Number of parameters per component."""
        return 1

    @abstractmethod
    def log_prob(self, parameters: Array, action: Array, log_std: Array) -> Array:
        """Return the log-probability or log-density of raw actions, ``(..., k)``."""

    @abstractmethod
    def entropy(self, parameters: Array, log_std: Array) -> Array:
        """Return the entropy of each component, ``(..., k)``."""

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

    @abstractmethod
    def choose(self, parameters: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return raw actions ``(..., k)`` from parameters and noise, both ``(..., k, width)``, with NumPy."""

    def rescale(self, action: Array) -> Array:
        """Map raw actions ``(..., k)`` into the bounds, before clipping. Only for kinds with ``rescales = True``."""
        return action

    @abstractmethod
    def standardised(
        self, parameters: np.ndarray, action: np.ndarray, between: np.ndarray, log_std: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and uniform variables of raw actions, both ``(..., k)``, with NumPy.

        Scores increase with the action and have mean 0 and variance 1 given the state. The uniform variables are
        F(a|s); for choices, they lie between F below a and F at a, at the fraction `between` ∈ [0, 1).
        """

    @property
    def direction(self) -> np.ndarray:
        """Direction in parameter space that shifts the action upwards (or to later choices), ``(k, width)``.

        By default the first parameter.
        """
        shift = np.zeros((len(self), self.width), np.float32)
        shift[:, 0] = 1.0
        return shift

    def neutral(self) -> tuple[np.ndarray, np.ndarray]:
        """Return parameters ``(k, width)`` and σ ``(k,)`` of a policy that explores independently of the state."""
        return np.zeros((len(self), self.width), np.float32), np.ones(len(self))
