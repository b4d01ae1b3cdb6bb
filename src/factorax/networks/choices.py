"""Choices of networks, with their settings: how components share a policy, and which layers it has. Imports no JAX."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from .._checks import Count, Range
from .._text import did_you_mean
from ..choices import Choice, Menu

INITS = ("orthogonal", "lecun", "he", "normc")
"""Names of initialisers, see `factorax.networks.mlp.INITIALISERS`."""


@dataclass(frozen=True)
class _Init:
    """The values of `init`: a name, or a function of a key, a shape and a dtype."""

    def __str__(self) -> str:
        return f"among {', '.join(map(repr, INITS))}, or in Python a function (key, shape, dtype)"

    def converted(self, value: Any, kind: Any) -> Any:
        # "custom" stands for a function in texts and files, which never contain code
        if callable(value) or value in (*INITS, "custom"):
            return value
        raise ValueError(did_you_mean(value, INITS, quoted=True).removeprefix("; ") if isinstance(value, str) else "")


# A type checker must accept functions; the annotation that is read at run time converts texts of files and commands.
if TYPE_CHECKING:
    Init = str | Callable[..., Any]
else:
    Init = Annotated[str, _Init()]


@dataclass(frozen=True)
class AutoPolicy(Choice):
    """Shared if there are local observations or the architecture requires it, otherwise joint."""


@dataclass(frozen=True)
class JointPolicy(Choice):
    """One network for all components, which receives the full observation."""


@dataclass(frozen=True)
class SharedPolicy(Choice):
    """One network, applied to the observation of each component."""

    identity: Annotated[int, Range(0, 2**12)] | None = None
    """Size of the learned embedding that tells the network for which component it acts; 0 for none, with which
    components act alike where they observe the same. By default 8 if several components observe the same, else 0."""


@dataclass(frozen=True)
class IndependentPolicy(Choice):
    """One network per component."""


POLICIES = Menu(
    "policy",
    {"auto": AutoPolicy, "joint": JointPolicy, "shared": SharedPolicy, "independent": IndependentPolicy},
    # Names by which other libraries know these, such as MlpPolicy of Stable-Baselines3.
    {"mlppolicy": "joint", "mlp": "joint", "central": "joint", "decentralised": "independent"},
)


class Architecture(Choice):
    """The layers of a network, with the initialiser of their weights, `init`.

    It is orthogonal, lecun, he, normc (normal weights, scaled to norm 1 per unit, and to 0.01 in the last layers of
    policy and critic, as in RLlib), or in Python a function of a key, a shape and a dtype, as in jax.nn.initializers.
    The last layer of a policy is always scaled down.
    """

    layer_norm: Any = False
    init: Any = "orthogonal"
    mlp: ClassVar[Any] = None
    """The class of its multilayer perceptrons, for plug-ins that compute them in another way; None for ours."""

    def __str__(self) -> str:
        return str(replace(self, init="custom")) if callable(self.init) else super().__str__()  # type: ignore[type-var]


@dataclass(frozen=True)
class _Layers(Architecture):
    layer_norm: bool = False
    """Apply layer normalisation before activation functions."""
    init: Init = "orthogonal"
    """Initialiser of weights: orthogonal, lecun, he or normc; in Python also a function of a key, a shape and a
    dtype."""


@dataclass(frozen=True)
class Mlp(_Layers):
    """Fully connected layers."""


@dataclass(frozen=True)
class Conv(_Layers):
    """Convolutions for the images in an observation, then fully connected layers."""


@dataclass(frozen=True)
class Choices(_Layers):
    """Fully connected layers that score each choice of a component of a shared policy from its observation of it."""


@dataclass(frozen=True)
class Gru(Architecture):
    """Fully connected layers, of which the last hidden one is a GRU."""

    # Not one of `_Layers`: layers in front of a recurrent cell are not normalised.
    sequence_length: Count = 16
    """Length of truncated backpropagation through time; it must divide n_steps and batch_size."""
    init: Init = "orthogonal"
    """Initialiser of weights, as for mlp."""


@dataclass(frozen=True)
class Lstm(Gru):
    """Fully connected layers, of which the last hidden one is an LSTM."""


@dataclass(frozen=True)
class Attention(Architecture):
    """Fully connected layers, then attention of each component of a shared policy to its neighbours."""

    rounds: Annotated[int, Range(1, 16)] = 1
    """Number of rounds: in each, information travels one edge further between components."""
    layer_norm: bool = False
    """Apply layer normalisation before activation functions."""
    init: Init = "orthogonal"
    """Initialiser of weights, as for mlp."""


ARCHITECTURES = Menu(
    "architecture",
    {"mlp": Mlp, "gru": Gru, "lstm": Lstm, "conv": Conv, "attention": Attention, "choices": Choices},
    {"cnn": "conv", "rnn": "gru", "transformer": "attention", "gnn": "attention"},
)
