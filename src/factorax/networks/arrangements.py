"""Arrangements of networks over components: one for all of them, one applied to each, or one per component.

All networks of policies and critics take rows of observations ``(..., d)`` and local observations ``(..., c, l)`` (None
if all components observe everything), and return ``(..., c, width)``. `features` is the input of the last layer.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..observations import ObservationSpace
from .mlp import MLP, LayerSettings


class Encoded(eqx.Module):
    """Observations as vectors with one-hot choices, without learned parameters."""

    space: ObservationSpace = eqx.field(static=True)
    components_of_factor: Any = eqx.field(static=True, default=None)
    """For a network that is applied to factors of several components: the components whose local observations form
    that of each factor, `Spec.components_of_factor` as tuples."""

    @property
    def size(self) -> int:
        """Size of a vector."""
        return self.space.encoded_size

    def __call__(self, obs: jax.Array) -> jax.Array:
        """Map rows ``(..., d)`` to vectors ``(..., e)``."""
        return self.space.encoded(obs, jnp)

    def inputs(self, obs: jax.Array, local: jax.Array | None, components: int) -> jax.Array:
        """Return the inputs of the components or factors, ``(..., c, l)``: local observations, or the full one."""
        if local is None:
            return repeated(self(obs), components)
        if self.components_of_factor is None:
            return local
        # The index is padded with c, which is no component: rows of zeros.
        rows = jnp.take(local, jnp.array(self.components_of_factor), axis=-2, mode="fill", fill_value=0.0)
        return rows.reshape(*rows.shape[:-2], -1)

    def input_size(self, local: int | None) -> int:
        """Return the size of these inputs, given that of the local observation of a component (None if there is
        none)."""
        if local is None:
            return self.size
        return local if self.components_of_factor is None else local * len(self.components_of_factor[0])


def repeated(x: jax.Array, components: int) -> jax.Array:
    """Return the same vector for each component, ``(..., e)`` → ``(..., c, e)``."""
    return jnp.broadcast_to(x[..., None, :], (*x.shape[:-1], components, x.shape[-1]))


class Joint(eqx.Module):
    """One network from the full observation to the parameters of all components."""

    net: MLP
    encoder: Any
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, key: jax.Array, encoder: Any, shape: tuple[int, int], gain: float, settings: LayerSettings):
        self.net = settings.layers(key, (encoder.size, *settings.hidden, shape[0] * shape[1]), gain)
        self.encoder, self.shape = encoder, shape

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """Map ``(..., d)`` to ``(..., c, width)``."""
        out = self.net(self.encoder(obs))
        return out.reshape(*out.shape[:-1], *self.shape)

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """Return the input of the last layer, the same for all components, ``(..., 1, h)``."""
        return self.net.features(self.encoder(obs))[..., None, :]


class Shared(eqx.Module):
    """One network applied to the observation of each component, with an embedding of the component."""

    net: MLP
    identity: jax.Array
    encoder: Any

    def __init__(
        self,
        key: jax.Array,
        encoder: Any,
        inputs: int,
        shape: tuple[int, int],
        gain: float,
        settings: LayerSettings,
        identity: int,
    ):
        first, second = jax.random.split(key)
        self.net = settings.layers(first, (inputs + identity, *settings.hidden, shape[1]), gain)
        self.identity = embedding(second, shape[0], identity)
        self.encoder = encoder

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """Map the observations of the components, ``(..., c, l)``, to ``(..., c, width)``."""
        return self.net(self._inputs(obs, local))

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """Return the input of the last layer for each component, ``(..., c, h)``."""
        return self.net.features(self._inputs(obs, local))

    def _inputs(self, obs: jax.Array, local: Any) -> jax.Array:
        return with_identity(self.encoder.inputs(obs, local, len(self.identity)), self.identity)

    def of_components(self, x: jax.Array, components: jax.Array) -> jax.Array:
        """Map the observations of single components, ``(..., l)``, and their indices, ``(...)``, to ``(...,
        width)``."""
        return self.net(with_identity(x, self.identity[components]) if self.identity.shape[1] else x)


def embedding(key: jax.Array, components: int, size: int) -> jax.Array:
    """Return initial embeddings of components, ``(c, size)``."""
    return 0.1 * jax.random.normal(key, (components, size))


def with_identity(x: jax.Array, identity: jax.Array) -> jax.Array:
    """Return observations with the embeddings of their components appended, ``(..., c, l + k)``."""
    identity = jnp.broadcast_to(identity, (*x.shape[:-1], identity.shape[-1]))
    return jnp.concatenate([x, identity], axis=-1)


class PerChoice(Shared):
    """A network from a component's observation of one of its choices to the logit of that choice,

        π_i(k) ∝ exp f(o_ik, e_ik),

    with the same f for all components i and choices k. The local observation of a component consists of equal parts,
    one per choice of the component with the most choices; parts of missing choices are ignored. The policy can
    therefore be moved to components with other numbers of choices, as in FRAP (Zheng et al., 2019).
    """

    def __init__(
        self,
        key: jax.Array,
        encoder: Any,
        inputs: int,
        shape: tuple[int, int],
        gain: float,
        settings: LayerSettings,
        identity: int,
    ):
        components, choices = shape
        if inputs % choices:
            raise ValueError(
                f"architecture: got 'choices' with local observations of {inputs} numbers, want a multiple of "
                f"{choices}: equal parts, one per choice of the component with the most choices"
            )
        # To the shared network, a choice is a component.
        super().__init__(key, encoder, inputs // choices, (components * choices, 1), gain, settings, identity)

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """Map local observations ``(..., c, choices · f)`` to logits ``(..., c, choices)``."""
        return super().__call__(obs, local).reshape(*local.shape[:-1], -1)

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """Return the input of the last layer for every component, ``(..., c, choices · h)``."""
        return super().features(obs, local).reshape(*local.shape[:-1], -1)

    def _inputs(self, obs: jax.Array, local: Any) -> jax.Array:
        # The size of a part is that of the first layer, not a share of `local`: a policy may have been moved to
        # components with another number of choices.
        size = self.net.kernels[0].shape[0] - self.identity.shape[1]
        return with_identity(local.reshape(*local.shape[:-2], -1, size), self.identity)


class Independent(eqx.Module):
    """A separate network per component."""

    net: MLP
    """Its arrays have an axis of components in front."""
    encoder: Any
    components: int = eqx.field(static=True)

    def __init__(
        self, key: jax.Array, encoder: Any, inputs: int, shape: tuple[int, int], gain: float, settings: LayerSettings
    ):
        keys = jax.random.split(key, shape[0])
        self.net = eqx.filter_vmap(lambda k: MLP(k, (inputs, *settings.hidden, shape[1]), gain, settings))(keys)
        self.encoder, self.components = encoder, shape[0]

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """Map the observations of the components, ``(..., c, l)``, to ``(..., c, width)``."""
        return self._each(lambda net, x: net(x), obs, local)

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """Return the input of the last layer for each component, ``(..., c, h)``."""
        return self._each(lambda net, x: net.features(x), obs, local)

    def _each(self, apply: Any, obs: jax.Array, local: Any) -> jax.Array:
        mapped: Any = eqx.filter_vmap(apply, in_axes=(eqx.if_array(0), -2), out_axes=-2)
        return mapped(self.net, self.encoder.inputs(obs, local, self.components))
