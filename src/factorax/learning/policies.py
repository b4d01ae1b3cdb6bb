"""Neural networks of policies and critics: one for all components, one shared by them, or one for each."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..distributions import Spread
from ..rollouts.numpy_policy import PolicyArrays


class MLP(eqx.Module):
    """A multilayer perceptron with tanh activations and orthogonal initialisation."""

    kernels: list[jax.Array]
    biases: list[jax.Array]

    def __init__(self, key: jax.Array, sizes: tuple[int, ...], last_gain: float):
        keys = jax.random.split(key, len(sizes) - 1)
        gains = [2**0.5] * (len(sizes) - 2) + [last_gain]
        self.kernels = [
            jax.nn.initializers.orthogonal(gain)(k, (i, o), jnp.float32)
            for k, i, o, gain in zip(keys, sizes[:-1], sizes[1:], gains, strict=True)
        ]
        self.biases = [jnp.zeros(o) for o in sizes[1:]]

    def __call__(self, x: jax.Array) -> jax.Array:
        """From ``(..., first size)`` to ``(..., last size)``."""
        return self.features(x) @ self.kernels[-1] + self.biases[-1]

    def features(self, x: jax.Array) -> jax.Array:
        """The input of the last layer."""
        for kernel, bias in zip(self.kernels[:-1], self.biases[:-1], strict=True):
            x = jnp.tanh(x @ kernel + bias)
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
        """The input of the last layer, the same for all components, ``(..., 1, h)``."""
        return self.net.features(obs)[..., None, :]

    @property
    def layers(self) -> MLP:
        """Its layers."""
        return self.net


class Shared(eqx.Module):
    """One network applied to what each component sees, with an embedding that tells it which component it acts for."""

    net: MLP
    identity: jax.Array

    def __init__(
        self, key: jax.Array, inputs: int, shape: tuple[int, int], hidden: tuple[int, ...], gain: float, identity: int
    ):
        first, second = jax.random.split(key)
        self.net = MLP(first, (inputs + identity, *hidden, shape[1]), gain)
        self.identity = 0.1 * jax.random.normal(second, (shape[0], identity))

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """From what each component sees, ``(..., c, d)``, to ``(..., c, width)``."""
        return self.net(self._with_identity(local))

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """The input of the last layer for every component, ``(..., c, h)``."""
        return self.net.features(self._with_identity(local))

    def _with_identity(self, local: jax.Array) -> jax.Array:
        identity = jnp.broadcast_to(self.identity, (*local.shape[:-1], self.identity.shape[-1]))
        return jnp.concatenate([local, identity], axis=-1)

    @property
    def layers(self) -> MLP:
        """Its layers."""
        return self.net

    def averaged(self, components: int) -> "Shared":
        """For another number of components, each with the mean embedding."""
        mean = jnp.broadcast_to(self.identity.mean(axis=0), (components, self.identity.shape[1]))
        return eqx.tree_at(lambda shared: shared.identity, self, mean)


class Independent(eqx.Module):
    """A network for each component."""

    nets: MLP

    def __init__(self, key: jax.Array, inputs: int, shape: tuple[int, int], hidden: tuple[int, ...], gain: float):
        keys = jax.random.split(key, shape[0])
        self.nets = eqx.filter_vmap(lambda k: MLP(k, (inputs, *hidden, shape[1]), gain))(keys)

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """From what each component sees, ``(..., c, d)``, to ``(..., c, width)``."""
        return self._each(lambda net, x: net(x), local)

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """The input of the last layer for every component, ``(..., c, h)``."""
        return self._each(lambda net, x: net.features(x), local)

    def _each(self, apply: Any, local: jax.Array) -> jax.Array:
        mapped: Any = eqx.filter_vmap(apply, in_axes=(eqx.if_array(0), -2), out_axes=-2)
        return mapped(self.nets, local)

    @property
    def layers(self) -> MLP:
        """Its layers, with an axis of components in front."""
        return self.nets


NeuralNetwork = Joint | Shared | Independent


def make_network(
    kind: str,
    key: jax.Array,
    *,
    inputs: int,
    shape: tuple[int, int],
    hidden: tuple[int, ...],
    gain: float,
    identity: int = 0,
) -> NeuralNetwork:
    """A network of a kind (``"joint"``, ``"shared"`` or ``"independent"``) with outputs ``(c, width)``."""
    if kind == "shared":
        return Shared(key=key, inputs=inputs, shape=shape, hidden=hidden, gain=gain, identity=identity)
    kinds = Joint if kind == "joint" else Independent
    return kinds(key=key, inputs=inputs, shape=shape, hidden=hidden, gain=gain)


class Policy(eqx.Module):
    """A network for the parameters of a product distribution, and a spread of its Gaussians that knows no state."""

    net: NeuralNetwork
    spread: Spread

    def __call__(self, obs: jax.Array, local: Any) -> tuple[jax.Array, Spread]:
        """Parameters ``(..., c, width)`` and the spread."""
        return self.net(obs, local), self.spread

    def fitted_to(self, other: "Policy", components: int) -> "Policy":
        """This policy for the number of components of another one: a shared network takes the mean embedding and the
        mean spread; any other network stays as it is."""
        if not isinstance(self.net, Shared) or len(self.net.identity) == components:
            return self
        spread = jax.tree.map(lambda ours, theirs: jnp.broadcast_to(ours.mean(axis=0), theirs.shape), self.spread,
                              other.spread)  # fmt: skip
        return Policy(self.net.averaged(components), spread)

    def to_numpy(self, mean: Any = None, scale: Any = None) -> PolicyArrays:
        """The same policy as NumPy arrays, for workers; with the mean and scale that normalise observations, if any."""
        spread = jax.tree.map(np.asarray, self.spread)
        whiten = np.eye(spread.mixing.shape[-1], dtype=np.float32) - np.tril(spread.mixing, -1)
        return PolicyArrays(
            kernels=tuple(np.asarray(kernel) for kernel in self.net.layers.kernels),
            biases=tuple(np.asarray(bias) for bias in self.net.layers.biases),
            identity=np.asarray(self.net.identity) if isinstance(self.net, Shared) else None,
            log_std=spread.log_std,
            colour=np.linalg.inv(whiten) if whiten.size else whiten,
            centre=None if mean is None else np.asarray(mean),
            scale=None if scale is None else np.asarray(scale),
        )


class Critic(eqx.Module):
    """The value of every target, or of every factor's credit."""

    net: NeuralNetwork

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """Values ``(..., m)``."""
        return self.net(obs, local)[..., 0]


class Agent(eqx.Module):
    """What is learnt: a policy, and a critic unless there is none."""

    policy: Policy
    critic: Critic | None
