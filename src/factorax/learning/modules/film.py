"""A shared network with hidden layers that each component scales and shifts (FiLM: Perez et al., 2018)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._arrays import zeros
from .arrangements import embedding
from .mlp import MLP, LayerSettings


class Film(eqx.Module):
    """One network applied to the observation of each component; in each hidden layer,

        x ← act(γᵢ ∘ (x W + b) + βᵢ),    (γᵢ − 1, βᵢ) = eᵢ V,

    with an embedding eᵢ per component i. An embedding at the input can only add to the first layer; this one also
    selects the features that a component uses. V is initially zero, so that all components start with the same
    network.
    """

    net: MLP
    identity: jax.Array
    modulations: list[jax.Array]
    """V of every hidden layer, ``(k, 2 h)``."""
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
        self.net = MLP(first, (inputs, *settings.hidden, shape[1]), gain, settings)
        # of order 1, since it is the only input of the identity
        self.identity = 10 * embedding(second, shape[0], identity)
        self.modulations = [zeros((identity, 2 * size)) for size in settings.hidden]
        self.encoder = encoder

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """Map the observations of the components, ``(..., c, l)``, to ``(..., c, width)``."""
        return self.features(obs, local) @ self.net.kernels[-1] + self.net.biases[-1]

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """Return the input of the last layer for each component, ``(..., c, h)``."""
        x = self.encoder.seen(obs, local, len(self.identity))
        for i, modulation in enumerate(self.modulations):
            scale, shift = jnp.split(self.identity @ modulation, 2, axis=-1)
            x = self.net.layer(i, x, 1 + scale, shift)
        return x
