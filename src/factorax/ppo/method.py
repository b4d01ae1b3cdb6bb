"""`Method`: the functions in which factored PPO and related methods differ."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import optax

from ..choices import Choice
from ..distributions import Spread
from ..networks import Agent, make_critic
from ..networks.policies import Policy
from ..spec import Spec
from ..structure import BaseNetwork
from .config import Config, Hyper
from .credits import Credit, Factor, NoCritic, Rollout
from .losses import clipped_loss, squared_error

if TYPE_CHECKING:
    from .update import Update


class Samples(NamedTuple):
    """The samples from which minibatches are drawn, with one axis of samples first: ``N = T B``."""

    obs: jax.Array
    local: jax.Array | None
    action: jax.Array
    log_prob: jax.Array
    """Log-probability of each factor under the acting policy, ``(N, n)``."""
    credit: jax.Array
    """``(N, n)``; ``(N, 1)`` for a joint ratio."""
    value: jax.Array
    returns: jax.Array
    """Both ``(N, v)``."""
    acted: jax.Array
    """Which factors acted, ``(N, n)``; ``(N, 1)`` if all always do."""
    parameters: jax.Array | None = None
    """Parameters of the acting policy's distributions, ``(N, c, width)``; None in minibatches, which do not need it."""
    memory: jax.Array | None = None
    critic_memory: jax.Array | None = None
    """Memory before each step, ``(N, h)``, if networks are recurrent."""
    starts: jax.Array | None = None
    """Whether an episode starts with this step, ``(N,)``, if networks are recurrent."""


Metrics = dict[str, jax.Array]
Learned = tuple[Agent, Any]
"""What an update changes: the agent, and the state of the optimizer."""
Outputs = tuple[tuple[jax.Array, Spread], jax.Array]
"""The output of the policy, and the predictions of the critic."""


class Minibatches(NamedTuple):
    """How samples become minibatches."""

    order: Callable[[jax.Array], jax.Array]
    """Maps a key to the indices of the samples of one pass, ``(minibatches, batch_size)``."""
    take: Callable[[jax.Array], Samples]
    """Maps the indices of a minibatch to its samples."""
    evaluate: Callable[[Agent, Samples], Outputs]
    """Evaluates an agent on a minibatch."""


@dataclass(frozen=True)
class Method(Choice):
    """Factored PPO, and the base class of related methods, which override some of its four functions.

    Fields of a subclass are the method's own settings, as in ``method="natural,kl=0.02"``.
    """

    title: ClassVar[str] = "factored PPO"
    """Name in publications."""
    reference: ClassVar[str] = "Spooner et al. (2021)"
    """Authors and year."""
    equation: ClassVar[str] = "Cᵢ = [K(λ∘A)]ᵢ"
    """The credit of factor i."""
    settings: ClassVar[dict[str, Any]] = {}
    """Defaults of other settings for this method."""
    network_name: ClassVar[str | None] = None
    """Name of the network, as for `find_network`; None for that of the preset or problem."""
    predicts_credit: ClassVar[bool] = False
    """Whether the critic predicts what factors are credited with, whatever the setting `critic`."""
    divides_rollout: ClassVar[bool] = True
    """Whether minibatches must divide a rollout."""
    has_ratios: ClassVar[bool] = True
    """Whether ratios correct the gradient for samples of an older policy."""
    adam_eps: ClassVar[float] = 1e-5
    """ε in the denominator of the Adam optimizer, as in Stable-Baselines3's PPO."""

    def network(self, spec: Spec) -> BaseNetwork:
        """Return the network that credits the factors."""
        return spec.network

    def critic(self, update: "Update", policy: Policy, key: jax.Array) -> Any:
        """Return the critic, which defines what is predicted; None for no critic."""
        kind, spec = update.config.critic, update.spec
        if isinstance(kind, NoCritic):
            return None
        return make_critic(
            spec,
            update.config,
            policy,
            key,
            values=kind.n_values(update.network),
            meaning=f"values of {kind.name}s",
            # A method that credits all factors alike has one row, which is no factor.
            per_factor=isinstance(kind, Factor) and update.network is spec.network,
            trunk=kind.trunk,
            critic=kind.module,
        )

    def credit(
        self, update: "Update", learned: Learned, rollout: Rollout, k: Any, hyper: Hyper, key: jax.Array
    ) -> tuple[Learned, Credit]:
        """Return how the critic's values become the credit of every factor; a method may train its critic first."""
        values, weights = update.values(learned[0], rollout), update.spec.weights
        return learned, update.config.critic.credit(update.network, k, weights, rollout, values, hyper)

    def policy_loss(self, log_ratio: jax.Array, credit: jax.Array, hyper: Hyper) -> jax.Array:
        """Return the loss of the policy, a scalar, for log-ratios and credits of the factors, ``(N, n)`` each."""
        return clipped_loss(log_ratio, credit, hyper.clip_range)

    def loss(
        self, update: "Update", outputs: Outputs, samples: Samples, hyper: Hyper, carried: Any = None
    ) -> tuple[jax.Array, jax.Array]:
        """Return the loss of a minibatch and log r of its factors: policy loss, entropy bonus and value loss.

        - `outputs`: those of policy and critic for these samples.
        - `carried`: the state of the method, and the spread of the acting policy.
        """
        c, (out, values) = update.config, outputs
        # The action of an idle factor means nothing: its ratio is 1, without a gradient, however improbable the action.
        log_ratio = (update.log_prob(out, samples.action) - samples.log_prob) * samples.acted
        credit = update.loss_credit(samples)
        entropy = (update.entropy(out) * samples.acted).sum(axis=-1).mean()  # of the joint action, as in PPO
        # A mean over values as well as samples, so that `vf_coef` means the same for any number of targets.
        value_loss = squared_error(values, samples.returns, samples.value, c.clip_range_vf)
        policy_loss = self.policy_loss(log_ratio, credit, hyper)
        return policy_loss - hyper.ent_coef * entropy + hyper.vf_coef * value_loss, log_ratio

    def optimiser(self, hyper: Hyper) -> optax.GradientTransformation:
        """Return the optimizer of policy and critic."""
        # On one flat vector: a kernel for each array takes a tenth of an update with small minibatches on a GPU.
        return optax.flatten(self.adam(hyper))

    def adam(self, hyper: Hyper) -> optax.GradientTransformation:
        """Return Adam, after clipping of the gradient's norm if there is a limit."""
        clip = optax.identity() if hyper.max_grad_norm is None else optax.clip_by_global_norm(hyper.max_grad_norm)
        return optax.chain(clip, optax.adam(hyper.learning_rate, eps=self.adam_eps))

    def passes(self, config: Config) -> int:
        """Return the number of passes over a rollout."""
        return config.n_epochs

    def minibatches(
        self, update: "Update", learned: Learned, samples: Samples, hyper: Hyper, key: jax.Array
    ) -> tuple[Learned, Minibatches]:
        """Return how samples become minibatches; a method may take a step on all samples first, or draw them once."""
        length = learned[0].sequence_length
        return learned, update.sequences(samples, length) if length else update.steps(samples)

    def evaluate(self, update: "Update", agent: Agent, samples: Samples, length: int = 1) -> Outputs:
        """Return the outputs of policy and critic for samples, of which recurrent networks see sequences of this
        length, time first."""
        rows = samples.obs, samples.local, samples.starts, (samples.memory, samples.critic_memory)
        out, values = agent.unroll(*jax.tree.map(lambda x: x.reshape(length, -1, *x.shape[1:]), rows))
        return out, samples.value if values is None else values  # without a critic, a constant value loss

    def init_state(self) -> Any:
        """Return what the method carries from update to update, a pytree of arrays; None for most."""
        return None

    def next_state(self, state: Any, metrics: Metrics) -> Any:
        """Return what is carried to the next update."""
        return state
