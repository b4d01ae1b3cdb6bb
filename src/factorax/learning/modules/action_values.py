"""A network that values what a factor does, given the state and what all other factors do."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .mlp import ACTIVATIONS, MLP, LayerSettings, normalised


class ActionValues(eqx.Module):
    """The critic of COMA: one network for all factors, whose input is the state, the others' actions and the factor.

    The first layer is linear in these inputs, so that what all factors have in common is computed once,

        x_i = W_s s + Σ_c W_c a_c − Σ_{c ∈ i} W_c a_c + e_i,

    with the actions aᶜ one-hot, and eᵢ learnt. The outputs are values of all actions of the factor, or, if it is asked
    for the value of one, W_c a_c of that action is added, and there is one output.

    Values of several actions are v + u_b − mean u (Wang et al., 2016), so that every sample teaches what the actions of
    a state have in common. Otherwise an action that is taken more often follows the returns sooner than others, and
    the differences between actions, which are all that COMA uses, are those of how often they were taken.
    """

    others: jax.Array
    """W_c, ``(c, width, h)``."""
    identity: jax.Array
    """e_i, ``(n, h)``."""
    net: MLP
    encoder: Any
    factors: tuple[int, ...] = eqx.field(static=True)
    """The factor of every component."""

    def __init__(
        self,
        key: jax.Array,
        encoder: Any,
        *,
        factors: tuple[int, ...],
        width: int,
        outputs: int,
        settings: LayerSettings,
    ):
        """- `width`: numbers that encode an action of a component; `outputs`: values of a factor."""
        first, second, third = jax.random.split(key, 3)
        sizes = (encoder.size, *settings.hidden, outputs + (outputs > 1))
        self.net = MLP(first, sizes, 1.0, settings)
        fan_in = encoder.size + len(factors) * width
        self.others = jax.random.normal(second, (len(factors), width, sizes[1])) * np.sqrt(1 / fan_in)
        self.identity = 0.1 * jax.random.normal(third, (max(factors) + 1, sizes[1]))
        self.encoder, self.factors = encoder, factors

    def __call__(self, obs: jax.Array, actions: jax.Array, own: jax.Array | None = None) -> jax.Array:
        """Values ``(..., n, outputs)``, for observations ``(..., d)`` and encoded actions ``(..., c, width)``.

        - `own`: encoded actions ``(..., c, width)`` that factors are valued for, each with the others as they are.
        """
        shares = jnp.einsum("...cw,cwh->...ch", actions, self.others)
        mine = shares if own is None else shares - jnp.einsum("...cw,cwh->...ch", own, self.others)
        by_factor = jnp.zeros((*mine.shape[:-2], *self.identity.shape)).at[..., np.array(self.factors), :].add(mine)
        x = self.encoder(obs) @ self.net.kernels[0] + shares.sum(axis=-2)
        x = x[..., None, :] - by_factor + self.identity
        if len(self.net.kernels) == 1:
            return _joined(x + self.net.biases[0])
        if self.net.scales:
            x = normalised(x) * self.net.scales[0]
        x = ACTIVATIONS[self.net.activation](x + self.net.biases[0])
        for i in range(1, len(self.net.kernels) - 1):
            x = self.net.layer(i, x)
        return _joined(x @ self.net.kernels[-1] + self.net.biases[-1])


def _joined(x: jax.Array) -> jax.Array:
    """Values of actions from what they have in common, the first of the outputs, and what they differ by."""
    if x.shape[-1] == 1:
        return x
    return x[..., :1] + x[..., 1:] - x[..., 1:].mean(axis=-1, keepdims=True)
