"""`BaseNetwork`: the interface between a network and training, with defaults for a network that never changes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._text import shown


class TrainingSizes(NamedTuple):
    """Sizes of a training run, for networks that carry a state through it."""

    n_components: int
    """Number of components c of the action space."""
    n_factors: int
    """Number of factors n: the rows of the network."""
    n_targets: int
    """Number of targets m: the columns of the network."""
    score_size: int
    """Length of a component's score with respect to the last layer of the policy."""
    grouped: bool
    """Whether a factor may have several components."""


class RolloutView(NamedTuple):
    """What is known of a rollout before its actions are drawn: all that a network may use to choose K."""

    # Nothing here depends on the actions of the rollout: K may not either, or E[zᵢ bᵢ] = 0 would fail.
    timesteps: Any
    """Environment steps before this rollout, a scalar."""
    obs: Any
    """Raw observations, ``[T, B, d]``."""
    info: Mapping[str, Any]
    """Contains ``"factor_mask"`` ``[T, B, n]`` if the problem has one, and the entries named in ``fx.wrap(…,
    observe=…)``."""


class RolloutCredit(NamedTuple):
    """The credit of every factor, and the regression targets of the critic."""

    credit: Any
    """Credit of every factor, ``[T, B, n]``."""
    value: Any
    """Predictions of the critic, ``[T, B, v]``."""
    returns: Any
    """Returns that the critic is trained to predict, ``[T, B, v]``."""


@dataclass(frozen=True, eq=False)
class KArray:
    """An influence matrix as an array of shape ``(..., n, m)``, possibly traced by JAX.

    The matrix is either the same for all samples or has one entry per sample. `factorax.credit` accepts a `KArray` in
    place of a network.

    >>> import factorax as fx, numpy as np
    >>> fx.credit(KArray(np.array([[[1.0, 1.0]], [[0.0, 1.0]]])), np.array([[10.0, 1.0], [10.0, 1.0]]))
    array([[11.],
           [ 1.]])
    """

    matrix: Any

    def __post_init__(self) -> None:
        if len(getattr(self.matrix, "shape", ())) < 2:
            raise TypeError(f"matrix: got {shown(self.matrix)}, want an array of shape (..., n, m)")
        # By name, because the dtypes of NumPy, JAX and PyTorch have no common type.
        if any(kind in str(self.matrix.dtype) for kind in ("complex", "object", "<U")):
            raise TypeError(f"matrix: got entries of type {self.matrix.dtype}, want weights in [0, 1]")

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_actions, n_targets)``."""
        return self.matrix.shape[-2], self.matrix.shape[-1]


class BaseNetwork(ABC):
    """Base class of every network that can be used in training. Subclass it to write a new kind of network.

    Only `static` has to be defined; everything else defaults to what a fixed network does. During training the learner
    calls, for every rollout and inside one compiled JAX program:

    1. `for_rollout`: returns K for this rollout;
    2. `credit_rollout`: returns the credit [K(λ∘A)] of every factor;
    3. `update_state`: returns the state for the next rollout.

    A state is any pytree of JAX arrays whose shapes and dtypes do not change; it is saved with checkpoints. K may be an
    `InfluenceNetwork`, a `Blend` of two, or a `KArray` (a traced matrix, one for all samples or one per sample).

    The page *Networks that vary* has a complete example.
    """

    # Networks are returned as `Any`: the module of `InfluenceNetwork` imports this one.
    is_fixed: bool = False
    """Whether edges missing from `static` are missing at every step. If true, training tests for missing edges."""
    for_credit: str = "an InfluenceNetwork: model.network for the current edges, or .static for the initial ones"
    """What `factorax.credit` should get instead of this network, for the message of its error."""

    @property
    @abstractmethod
    def static(self) -> Any:
        """A fixed `InfluenceNetwork` with the same labels and shape, used for display and for array sizes."""

    @property
    def n_factor_values(self) -> int:
        """Number of values that the critic predicts in addition to one per target, for use in `credit_rollout`."""
        return 0

    def check_settings(self, config: Any) -> None:
        """Raise ValueError if this network cannot be trained with these settings, a `factorax.ppo.Config`."""
        return

    def check_observations(self, obs: Any, info: Mapping[str, Any]) -> None:
        """Raise if this network cannot work on such observations. Called once, before training.

        `obs` and `info` are as in a `RolloutView`, but traced by JAX: they have shapes and dtypes and no values.
        """
        return

    def init_state(self, sizes: TrainingSizes) -> Any:
        """Return the state before training, or None if the network has no state."""
        return None

    def for_rollout(self, state: Any, rollout: RolloutView) -> Any:
        """Return K for the samples of this rollout: a network, a `Blend` or a `KArray`."""
        return self.static

    def credit_rollout(self, k: Any, estimates: Any, apply: Callable[[Any, Any], Any]) -> RolloutCredit:
        """Return the credit of every factor from the estimates of every target.

        - `k`: the return value of `for_rollout`.
        - `estimates`: a `factorax.ppo.credits.Estimates`: advantages, values and returns ``[T, B, m]``.
        - `apply`: ``apply(k, x)`` is [K(λ∘x)], for x of shape ``[T, B, m]``.
        """
        return RolloutCredit(apply(k, estimates.advantage), estimates.value, estimates.returns)

    def update_state(self, state: Any, evidence: Any) -> tuple[Any, dict[str, Any]]:
        """Return the state after a rollout, and metrics to log.

        `evidence` is a `factorax.ppo.diagnostics.Evidence`: scores, advantages and entropies of the rollout, each
        computed only when it is read.
        """
        # The same state by default; a changed shape or dtype would compile the update again.
        return state, {}

    def present(self, state: Any, timesteps: int) -> Any:
        """Return the `InfluenceNetwork` at this step of training, outside compiled code.

        If K depends on the sample, the result has every edge that K may have.
        """
        return self.static


def refuse_critic_of_factors(network: BaseNetwork, config: Any) -> None:
    """Raise ValueError for critics that predict credits, such as ``"factor"``: credits must add up over steps."""
    # A critic of credits bootstraps: credit now is reward plus the credit of the next step, for one and the same K.
    if config.critic_predicts_credit:
        raise ValueError(
            f"critic: got '{config.critic}' of method='{config.method}' with a {type(network).__name__}, whose "
            "credits do not add up from one step to the next; want method='factored' with critic='target' or 'none'"
        )
