"""A policy and a critic with equal layers as one network with a leading axis of two.

Small minibatches are bound by the number of kernels that a device launches. As twins, both networks need only the
kernels of one: each product is batched over two, and the optimizer has half as many arrays. Results are the same.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import plugins
from ..networks.arrangements import Shared
from ..networks.mlp import ACTIVATIONS
from ..networks.policies import Agent
from .fused_layers import can_fuse


class Twins(NamedTuple):
    """The layers of both networks, and the other trained arrays."""

    kernels: list[jax.Array]
    """``(2, inputs, outputs)``, the policy's first; the last layers are padded with zeros to the same width."""
    biases: list[jax.Array]
    """``(2, 1, outputs)``"""
    spread: Any

    @staticmethod
    def can_stand_for(agent: Agent) -> bool:
        """Return whether both networks are shared ones with equal inputs and hidden layers."""
        if agent.critic is None or not all(isinstance(net, Shared) for net in (agent.policy.net, agent.critic.net)):
            return False
        ours, theirs = agent.policy.net, agent.critic.net
        same = [a.shape for a in ours.net.kernels[:-1]] == [b.shape for b in theirs.net.kernels[:-1]]
        return same and not (ours.identity.size or theirs.identity.size or ours.net.scales)

    @classmethod
    def of(cls, agent: Any) -> "Twins":
        """Create twins from an agent, or from anything with its structure, such as an optimizer's moments."""
        policy, critic = agent.policy.net.net, agent.critic.net.net
        width = max(net.biases[-1].shape[0] for net in (policy, critic))

        def padded(x: jax.Array) -> jax.Array:
            return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, width - x.shape[-1])])

        last = len(policy.kernels) - 1
        layers = ((policy.kernels, critic.kernels), (policy.biases, critic.biases))
        kernels, biases = (
            [jnp.stack([padded(x) if i == last else x for x in pair]) for i, pair in enumerate(zip(*both, strict=True))]
            for both in layers
        )
        return cls(kernels, [bias[:, None] for bias in biases], agent.policy.spread)

    def apart(self, like: Any) -> Any:
        """Return an agent, or whatever has its structure, with the structure of `like`."""
        nets = like.policy.net.net, like.critic.net.net
        arrays: list[list[jax.Array]] = []
        for i, net in enumerate(nets):
            arrays.append([x[i, :, : k.shape[1]] for x, k in zip(self.kernels, net.kernels, strict=True)])
            arrays.append([x[i, 0, : b.shape[0]] for x, b in zip(self.biases, net.biases, strict=True)])
        where = lambda a: (  # noqa: E731
            a.policy.net.net.kernels,
            a.policy.net.net.biases,
            a.critic.net.net.kernels,
            a.critic.net.net.biases,
            a.policy.spread,
        )
        return eqx.tree_at(where, like, (*arrays, self.spread))

    def __call__(self, x: jax.Array, activation: str) -> jax.Array:
        """Map inputs ``(N, inputs)`` to the outputs of both networks, ``(2, N, width)``. Inputs have no gradient."""
        x = jax.lax.stop_gradient(x)
        if can_fuse(len(x), self.kernels, activation):
            return plugins.kernels().fused(x, self.kernels, self.biases, activation)
        for i, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            x = x @ kernel + bias
            if i < len(self.kernels) - 1:
                x = ACTIVATIONS[activation](x)
        return x


def together(tree: Any) -> Any:
    """Return a tree of agents, such as an optimizer state, with twins instead of agents."""
    return jax.tree.map(lambda x: Twins.of(x) if _is_agent(x) else x, tree, is_leaf=_is_agent)


def apart(tree: Any, like: Any) -> Any:
    """Return the tree from which `together` was computed; `like` has its structure."""
    is_twins = lambda x: isinstance(x, Twins)  # noqa: E731
    twins = jax.tree.leaves(tree, is_leaf=is_twins)
    leaves, structure = jax.tree.flatten(like, is_leaf=_is_agent)
    new = [x.apart(y) if is_twins(x) else x for x, y in zip(twins, leaves, strict=True)]
    return jax.tree.unflatten(structure, new)


def _is_agent(x: Any) -> bool:
    return isinstance(x, Agent)
