"""`BaseNetwork`: what training asks of a network, with the answers of one that never changes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .network import InfluenceNetwork


class TrainingSizes(NamedTuple):
    """Sizes of a training run, for networks that carry a state through it."""

    n_components: int
    """Components c of the action space."""
    n_factors: int
    """Rows n of the network."""
    n_targets: int
    """Columns m of the network."""
    score_size: int
    """Length of a component's score with respect to the last layer of the policy."""
    grouped: bool
    """Whether a factor may have several components."""


class RolloutView(NamedTuple):
    """What a network may look at to say which K holds for a rollout: only what was known before actions were drawn."""

    timesteps: Any
    """Environment steps before this rollout, a scalar."""
    obs: Any
    """Raw observations, ``[T, B, d]``."""
    info: Mapping[str, Any]
    """``"factor_mask"`` ``[T, B, n]``, where the problem gives one, and what ``fx.wrap(…, observe=…)`` names."""


class RolloutCredit(NamedTuple):
    """The credit of every factor, and what the critic learns from the rollout."""

    credit: Any
    """``[T, B, n]``."""
    value: Any
    """What the critic predicted, ``[T, B, v]``."""
    returns: Any
    """What it should have predicted, ``[T, B, v]``."""


class BaseNetwork(ABC):
    """A network as training sees it. Subclass it to write a kind of network of your own.

    Only `static` has to be defined; everything else defaults to what a fixed network does. During training the learner
    calls, for every rollout and inside one compiled JAX program:

    1. `for_rollout`: which K holds for this rollout;
    2. `credit_rollout`: the credit [K(λ∘A)] of every factor;
    3. `update_state`: what the network learns from the rollout, used from the next one on.

    A state is any pytree of JAX arrays whose shapes and dtypes do not change; it is saved with checkpoints. K may be an
    `InfluenceNetwork`, a `Blend` of two, or a `KArray` (a traced matrix, one for all samples or one per sample).

    The page *Networks that vary* has a complete example.
    """

    is_fixed: bool = False
    """Whether the edges that `static` lacks are absent throughout. Training then tests whether one is missing."""

    @property
    @abstractmethod
    def static(self) -> "InfluenceNetwork":
        """A fixed network with the names and the shape of this one: to display it, and to size arrays by."""

    @property
    def n_factor_values(self) -> int:
        """How many values the critic predicts in addition to one per target, for `credit_rollout`."""
        return 0

    def check_settings(self, config: Any) -> None:
        """Raise ValueError if this network cannot be trained with these settings, a `factorax.learning.Config`."""
        return

    def check_observations(self, obs: Any, info: Mapping[str, Any]) -> None:
        """Raise if this network cannot work on observations like these; called once, before training.

        `obs` and `info` are those of a `RolloutView`, as arrays that JAX traces: they have shapes and no values.
        """
        return

    def init_state(self, sizes: TrainingSizes) -> Any:
        """Return the state before training; None if there is none."""
        return None

    def for_rollout(self, state: Any, rollout: RolloutView) -> Any:
        """Return K for the samples of this rollout."""
        return self.static

    def credit_rollout(self, k: Any, estimates: Any, apply: Callable[[Any, Any], Any]) -> RolloutCredit:
        """Return the credit of every factor from the estimates of every target.

        - `k`: what `for_rollout` returned.
        - `estimates`: a `factorax.learning.advantages.Estimates`: advantages, values and returns ``[T, B, m]``.
        - `apply`: ``apply(k, x)`` is [K(λ∘x)], for x of shape ``[T, B, m]``.
        """
        return RolloutCredit(apply(k, estimates.advantage), estimates.value, estimates.returns)

    def update_state(self, state: Any, evidence: Any) -> tuple[Any, dict[str, Any]]:
        """Return the state after a rollout, and metrics to log.

        `evidence` is a `factorax.learning.diagnostics.Evidence`: scores, advantages and entropies of the rollout, each
        computed only if it is asked for.
        """
        return state, {}

    def present(self, state: Any, timesteps: int) -> "InfluenceNetwork":
        """Return the network as it is now, outside of compiled code; where K depends on samples, every edge it may
        have."""
        return self.static


def refuse_critic_of_factors(network: BaseNetwork, config: Any) -> None:
    """Raise for critics that predict credits, such as ``"factor"``, which add up from one step to the next."""
    if config.critic_predicts_credit:
        raise ValueError(
            f"critic: got {config.critic!r} with a {type(network).__name__}, whose credits are not those of one step "
            "after the other; want critic='target', or 'none'"
        )
