"""The learned parts: a policy from observations to action distributions, and a critic of values of targets."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._arrays import zeros
from ..distributions import Spread
from ..spaces import ActionMask
from .arrangements import Shared
from .custom import Custom
from .mlp import LayerSettings, matmul


class Policy(eqx.Module):
    """A network for the parameters of a product distribution, and the state-independent spread of its Gaussians."""

    net: Any
    spread: Spread
    mask: ActionMask | None = eqx.field(static=True, default=None)
    learns_spread: bool = eqx.field(static=True, default=True)
    """Whether the spread is trained; otherwise it is constant, and the network outputs deviations from it."""

    def __call__(self, obs: jax.Array, local: Any) -> tuple[jax.Array, Spread]:
        """Return parameters ``(..., c, width)`` and the spread."""
        return self._output(self.net(obs, local), obs)

    @property
    def usable_spread(self) -> Spread:
        """The spread, with gradients stopped if it is not trained."""
        # With an output for log σ, the spread is its initial value: trained as well, it would double the step of σ.
        return self.spread if self.learns_spread else jax.lax.stop_gradient(self.spread)

    def _output(self, parameters: jax.Array, obs: jax.Array) -> tuple[jax.Array, Spread]:
        """Return parameters under which actions that the observation excludes have probability zero, and the spread."""
        masked = parameters if self.mask is None else self.mask.applied(parameters, obs, jnp)
        return masked, self.usable_spread

    @property
    def memory(self) -> int:
        """Size of the memory; 0 unless the policy is recurrent."""
        return getattr(self.net, "memory", 0)

    def step(self, obs: jax.Array, local: Any, memory: Any) -> tuple[tuple[jax.Array, Spread], Any]:
        """Return the output and the new memory, given the memory ``(..., h)`` (None if there is none)."""
        if not self.memory:
            return self(obs, local), memory
        parameters, memory = self.net.step(obs, local, memory)
        return self._output(parameters, obs), memory

    def at(self, obs: jax.Array, local: Any, memory: Any) -> tuple[jax.Array, Spread]:
        """Return the output, given the memory ``(..., h)`` (None if there is none)."""
        return self.step(obs, local, memory)[0]

    def unroll(
        self, obs: jax.Array, local: Any, memory: jax.Array, starts: jax.Array
    ) -> tuple[tuple[jax.Array, Spread], jax.Array]:
        """Return the output of a recurrent policy for sequences ``(L, S, ...)``, and the input of the last layer ``(L,
        S, c or 1, h)``, given the memory before them ``(S, h)``.

        `starts` marks the steps at which new episodes start, ``(L, S)``.
        """
        parameters, features, _ = self.net.unroll(obs, local, memory, starts)
        return self._output(parameters, obs), features

    def features(self, obs: jax.Array, local: Any, memory: Any = None) -> jax.Array:
        """Return the input of the last layer, ``(..., c or 1, h)``."""
        return self.net.features(obs, local, memory) if self.memory else self.net.features(obs, local)

    def fitted_to(self, other: "Policy") -> "Policy":
        """Return this policy for the number of components of another one.

        A shared network gets the mean embedding and the mean spread; any other network is unchanged.
        """
        if not isinstance(self.net, Shared) or self.net.identity.shape == other.net.identity.shape:
            return self
        mean = lambda ours, theirs: jnp.broadcast_to(ours.mean(axis=0), (len(theirs), *ours.shape[1:]))  # noqa: E731
        net = eqx.tree_at(lambda net: net.identity, self.net, mean(self.net.identity, other.net.identity))
        return Policy(net, jax.tree.map(mean, self.spread, other.spread), other.mask, self.learns_spread)


class TrunkHead(eqx.Module):
    """Values as a linear function of the policy's features, which the value loss then also trains.

    If each component has its own features, the value of a target uses their mean over components, and the value of a
    factor those of its component.
    """

    kernel: jax.Array
    bias: jax.Array
    per_component: bool = eqx.field(static=True)

    def __init__(self, key: jax.Array, features: Any, values: int, *, per_component: bool, settings: LayerSettings):
        """Create the layer; `features` is anything with the shape of the policy's features, ``(..., c or 1, h)``."""
        self.per_component = per_component and features.shape[-2] == values
        size = 1 if self.per_component else values
        self.kernel = settings.kernel(key, (features.shape[-1], size), 1.0)
        self.bias = zeros(values)

    def __call__(self, features: jax.Array) -> jax.Array:
        """Map features ``(..., c or 1, h)`` to values ``(..., v)``."""
        if self.per_component:
            return matmul(features, self.kernel)[..., 0] + self.bias
        return features.mean(axis=-2) @ self.kernel + self.bias


class Critic(eqx.Module):
    """The value of each target, or of each factor's credit."""

    net: Any

    def __call__(self, obs: jax.Array, local: Any, policy: Any = None) -> jax.Array:
        """Return values ``(..., m)``; a critic that shares the trunk of a policy needs that policy."""
        if isinstance(self.net, TrunkHead):
            return self.net(policy.features(obs, local))
        return self._values(self.net(obs, local))

    def step(self, obs: jax.Array, local: Any, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the values of a critic with its own memory, and the new memory."""
        values, memory = self.net.step(obs, local, memory)
        return self._values(values), memory

    def unroll(self, obs: jax.Array, local: Any, memory: jax.Array, starts: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return values for sequences ``(L, S, ...)`` and the memory after each step, for a critic with its own
        memory."""
        values, _, after = self.net.unroll(obs, local, memory, starts)
        return self._values(values), after

    @property
    def memory(self) -> int:
        """Size of a memory of its own; 0 if it has none, or uses that of the policy."""
        return getattr(self.net, "memory", 0)

    def _values(self, out: jax.Array) -> jax.Array:
        return out if isinstance(self.net, Custom) else out[..., 0]


class Agent(eqx.Module):
    """The learned parts: a policy, and a critic or None."""

    policy: Policy
    critic: Critic | None

    @property
    def sequence_length(self) -> int:
        """Length of the sequences on which the agent is trained; 0 if no network is recurrent.

        If policy and critic have a memory each, it is that of the policy.
        """
        parts = (part for part in (self.policy, self.critic) if part is not None and part.memory)
        return next((part.net.sequence_length for part in parts), 0)

    @property
    def module_names(self) -> dict[str, str]:
        """The class names of the user's own modules, for a file: names, never code."""
        nets = {"policy": self.policy.net, "critic": self.critic and self.critic.net}
        kinds = {name: type(net.module) for name, net in nets.items() if isinstance(net, Custom)}
        return {name: f"{kind.__module__}.{kind.__qualname__}" for name, kind in kinds.items()}

    @property
    def critic_memory(self) -> int:
        """Size of a memory of the critic's own; 0 if it has none, or uses that of the policy."""
        return 0 if self.critic is None else self.critic.memory

    def values(self, obs: jax.Array, local: Any, memories: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        """Return the critic's predictions ``(..., v)``, None without a critic, and the memories after them.

        - `memories`: those of policy and critic, ``(..., h)`` each; None where there is none.
        """
        if self.critic is None:
            return None, memories
        of_policy, of_critic = memories
        if self.critic.memory:
            values, after = self.critic.step(obs, local, of_critic)
            return values, (of_policy, after)
        if self.policy.memory and isinstance(self.critic.net, TrunkHead):
            values = self.critic.net(self.policy.features(obs, local, of_policy))
            return values, (self.policy.step(obs, local, of_policy)[1], of_critic)
        return self.critic(obs, local, self.policy), memories

    def unroll(self, obs: jax.Array, local: Any, starts: Any, memories: tuple[Any, Any]) -> tuple[Any, Any]:
        """Return the output of the policy, and the predictions of the critic or None, for ``N = L S`` samples.

        - `obs`, `local`: sequences, time first, ``(L, S, ...)``; networks without a memory do not care.
        - `starts`: where episodes start, ``(L, S)``; `memories`: of policy and critic before each step.
        """
        policy, critic = self.policy, self.critic
        flat = lambda x: x.reshape(-1, *x.shape[2:])  # noqa: E731
        first: list[Any] = [None if x is None else x[0] for x in memories]
        of_policy, of_critic = first
        if policy.memory:
            (parameters, spread), features = policy.unroll(obs, local, of_policy, starts)
        else:
            (parameters, spread), features = policy(obs, local), None
        values = None
        if critic is not None and critic.memory:
            values = critic.unroll(obs, local, of_critic, starts)[0]
        elif critic is not None and features is not None and isinstance(critic.net, TrunkHead):
            values = critic.net(features)  # one memory for both, so that it is computed only once
        elif critic is not None:
            values = critic(obs, local, policy)
        return (flat(parameters), spread), None if values is None else flat(values)

    def critic_memories(self, obs: jax.Array, local: Any, memory: Any, starts: jax.Array, ended: jax.Array) -> Any:
        """Return the memory of a recurrent critic before each step of a rollout, ``[T, B, h]``, and after its end.

        - `memory`: before the first step, ``(B, h)``; None without such a memory, and so are both results.
        - `starts`: where episodes start, ``[T, B]``; `ended`: which end with the last step, ``(B,)``.
        """
        if self.critic is None or memory is None:
            return None, None
        _, after = self.critic.unroll(obs, local, memory, starts)
        before = jnp.where(starts[..., None], 0.0, jnp.concatenate([memory[None], after[:-1]]))
        return before, jnp.where(ended[:, None], 0.0, after[-1])
