"""A critic on the policy's hidden layers."""

from typing import Any

import equinox as eqx
import jax

from ..._arrays import zeros
from .mlp import LayerSettings


class TrunkHead(eqx.Module):
    """Values as a linear function of the policy's features, which the value loss then also trains.

    If each component has its own features, the value of a target uses their mean over components, and the value of a
    factor those of its component.
    """

    kernel: jax.Array
    bias: jax.Array
    per_component: bool = eqx.field(static=True)

    def __init__(
        self, key: jax.Array, features: Any, values: int, *, per_component: bool, settings: LayerSettings | None = None
    ):
        """Create the layer; `features` is anything with the shape of the policy's features, ``(..., c or 1, h)``."""
        self.per_component = per_component and features.shape[-2] == values
        size = 1 if self.per_component else values
        settings = LayerSettings() if settings is None else settings
        self.kernel = settings.kernel(key, (features.shape[-1], size), 1.0)
        self.bias = zeros(values)

    def __call__(self, features: jax.Array) -> jax.Array:
        """Map features ``(..., c or 1, h)`` to values ``(..., v)``."""
        if self.per_component:
            return (features @ self.kernel)[..., 0] + self.bias
        return features.mean(axis=-2) @ self.kernel + self.bias
