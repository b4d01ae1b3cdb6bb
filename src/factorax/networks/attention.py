"""Attention between neighbouring components of a graph (Veličković et al., 2018)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .arrangements import embedding, with_identity
from .mlp import MLP, LayerSettings, matmul

HEADS = 4


class AttentionNetwork(eqx.Module):
    """One network shared by all components, in which each attends to itself and its neighbours:

        hᵢ = MLP(what i sees, eᵢ),    hᵢ ← hᵢ + Σⱼ αᵢⱼ V hⱼ,    αᵢ = softmaxⱼ(qᵢ · kⱼ / √d) over j ∈ N(i) ∪ {i},

    with several heads, once per round, before the last layer. After r rounds a component has information from r edges
    away.
    """

    net: MLP
    identity: jax.Array
    queries: list[jax.Array]
    """Query weights of every round, ``(h, heads, h / heads)``; keys and values have the same shape."""
    keys: list[jax.Array]
    values: list[jax.Array]
    encoder: Any
    neighbours: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    """Neighbours of every component, including itself."""

    def __init__(
        self,
        key: jax.Array,
        encoder: Any,
        inputs: int,
        shape: tuple[int, int],
        gain: float,
        settings: LayerSettings,
        identity: int,
        graph: np.ndarray,
        rounds: int = 1,
    ):
        first, second, third = jax.random.split(key, 3)
        self.net = MLP(first, (inputs + identity, *settings.hidden, shape[1]), gain, settings)
        self.identity = embedding(second, shape[0], identity)
        self.encoder = encoder
        # A component without neighbours attends to itself: a softmax over nothing would be NaN.
        self.neighbours = tuple(tuple(map(int, np.flatnonzero(row))) for row in graph | np.eye(len(graph), dtype=bool))
        h = settings.hidden[-1]
        if h % HEADS:
            raise ValueError(f"hidden: got a last layer of {h} for attention, want a multiple of {HEADS}, its heads")
        keys = jax.random.split(third, 3 * rounds).reshape(rounds, 3)
        # Drawn for all heads together, so that fan-in and orthogonality are those of one layer of h units.
        make = lambda k, gain: settings.kernel(k, (h, h), gain).reshape(h, HEADS, h // HEADS)  # noqa: E731
        self.queries = [make(k[0], 1.0) for k in keys]
        self.keys = [make(k[1], 1.0) for k in keys]
        self.values = [make(k[2], 1.0) for k in keys]

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """Map the observations of the components, ``(..., c, l)``, to ``(..., c, width)``."""
        return matmul(self.features(obs, local), self.net.kernels[-1]) + self.net.biases[-1]

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """Return the input of the last layer for each component, ``(..., c, h)``."""
        inputs = self.encoder.inputs(obs, local, len(self.neighbours))
        x = self.net.features(with_identity(inputs, self.identity))
        most = max(map(len, self.neighbours))
        # Neighbours are gathered by index: with a matrix of all pairs, memory would grow with the square of components.
        index = np.array([row + (0,) * (most - len(row)) for row in self.neighbours])
        there = np.arange(most) < np.array([[len(row)] for row in self.neighbours])
        for query, key, value in zip(self.queries, self.keys, self.values, strict=True):
            q, k, v = (jnp.einsum("...ch,had->...cad", x, matrix) for matrix in (query, key, value))
            k, v = k[..., index, :, :], v[..., index, :, :]  # (..., c, neighbours, heads, d)
            scores = jnp.einsum("...cad,...cnad->...can", q, k) / q.shape[-1] ** 0.5
            # Rows are padded with component 0, which must not be heard for that reason.
            weights = jax.nn.softmax(jnp.where(there[:, None, :], scores, -jnp.inf), axis=-1)
            heard = jnp.einsum("...can,...cnad->...cad", weights, v)
            x = x + heard.reshape(x.shape)
        return x
