"""Policies and critics: one network for all factors, one shared by them, or one for each."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .actions import Spread


class MLP(eqx.Module):
    """Hidden layers of tanh; orthogonal weights, as is usual for policy gradients."""

    weights: list[jax.Array]
    biases: list[jax.Array]

    def __init__(self, key: jax.Array, sizes: tuple[int, ...], last_gain: float):
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [2**0.5] * (len(sizes) - 2) + [last_gain]
        self.weights = [
            jax.nn.initializers.orthogonal(gain)(k, (i, o), jnp.float32)
            for k, i, o, gain in zip(keys, sizes[:-1], sizes[1:], gains, strict=True)
        ]
        self.biases = [jnp.zeros(o) for o in sizes[1:]]

    def __call__(self, x: jax.Array) -> jax.Array:
        """From ``(..., first size)`` to ``(..., last size)``."""
        return self.features(x) @ self.weights[-1] + self.biases[-1]

    def features(self, x: jax.Array) -> jax.Array:
        """What the last layer sees."""
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jnp.tanh(x @ w + b)
        return x


class Joint(eqx.Module):
    """One network from the whole observation to the parameters of all components."""

    net: MLP
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, key: jax.Array, inputs: int, shape: tuple[int, int], hidden: tuple[int, ...], gain: float):
        self.net = MLP(key, (inputs, *hidden, shape[0] * shape[1]), gain)
        self.shape = shape

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """From ``(..., d)`` to ``(..., c, width)``."""
        out = self.net(obs)
        return out.reshape(*out.shape[:-1], *self.shape)

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """What the last layer sees for every component, ``(..., 1, h)``: the same for all."""
        return self.net.features(obs)[..., None, :]


class Shared(eqx.Module):
    """One network applied to what each component sees, with features learnt for each that tell it which it is."""

    net: MLP
    identity: jax.Array

    def __init__(
        self, key: jax.Array, inputs: int, shape: tuple[int, int], hidden: tuple[int, ...], gain: float, identity: int
    ):
        first, second = jax.random.split(key)
        self.net = MLP(first, (inputs + identity, *hidden, shape[1]), gain)
        self.identity = 0.1 * jax.random.normal(second, (shape[0], identity))

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """From what each sees, ``(..., c, d)``, to ``(..., c, width)``."""
        return self.net(self._with_identity(local))

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """What the last layer sees for every component, ``(..., c, h)``."""
        return self.net.features(self._with_identity(local))

    def _with_identity(self, local: jax.Array) -> jax.Array:
        identity = jnp.broadcast_to(self.identity, (*local.shape[:-1], self.identity.shape[-1]))
        return jnp.concatenate([local, identity], axis=-1)

    def averaged(self, components: int) -> "Shared":
        """For another number of components, each with the mean of what told them apart."""
        mean = jnp.broadcast_to(self.identity.mean(axis=0), (components, self.identity.shape[1]))
        return eqx.tree_at(lambda shared: shared.identity, self, mean)


class Independent(eqx.Module):
    """A network for each component."""

    nets: MLP

    def __init__(self, key: jax.Array, inputs: int, shape: tuple[int, int], hidden: tuple[int, ...], gain: float):
        keys = jax.random.split(key, shape[0])
        self.nets = eqx.filter_vmap(lambda k: MLP(k, (inputs, *hidden, shape[1]), gain))(keys)

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """From what each sees, ``(..., c, d)``, to ``(..., c, width)``."""
        return self._each(lambda net, x: net(x), local)

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """What the last layer sees for every component, ``(..., c, h)``."""
        return self._each(lambda net, x: net.features(x), local)

    def _each(self, apply: Any, local: jax.Array) -> jax.Array:
        mapped: Any = eqx.filter_vmap(apply, in_axes=(eqx.if_array(0), -2), out_axes=-2)
        return mapped(self.nets, local)


Network = Joint | Shared | Independent


def network(
    kind: str,
    key: jax.Array,
    inputs: int,
    shape: tuple[int, int],
    hidden: tuple[int, ...],
    gain: float,
    *,
    identity: int = 0,
) -> Network:
    """A network of a kind for outputs ``(c, width)``."""
    if kind == "shared":
        return Shared(key, inputs, shape, hidden, gain, identity)
    return (Joint if kind == "joint" else Independent)(key, inputs, shape, hidden, gain)


class Policy(eqx.Module):
    """A network for the parameters of a product distribution, and a spread of its Gaussians that knows no state."""

    net: Network
    spread: Spread

    def __call__(self, obs: jax.Array, local: Any) -> tuple[jax.Array, Spread]:
        """Parameters ``(..., c, width)`` and the spread."""
        return self.net(obs, local), self.spread


class Critic(eqx.Module):
    """The value of every target, or of every factor's credit."""

    net: Network

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """Values ``(..., m)``."""
        return self.net(obs, local)[..., 0]
