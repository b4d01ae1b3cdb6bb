"""A network of the value of a factor's action, given the state and the actions of all other factors."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .arrangements import Encoded
from .mlp import MLP, LayerSettings, matmul


class ActionValues(eqx.Module):
    """The critic of COMA: one network for all factors.

    Its inputs are the state, the other factors' actions, the factor's local observation, and the index of the factor.
    The first layer is linear in these inputs, so the part common to all factors is computed once,

        x_i = W_s s + Σ_c W_c a_c − Σ_{c ∈ i} W_c a_c + W_o o_i + e_i,

    with one-hot actions aᶜ and learned eᵢ. Without local observations oᵢ their term is omitted. The outputs are the
    values of all actions of the factor; or, for the value of one given action, W_c a_c of that action is added and
    there is one output.

    Values of several actions are v + u_b − Σ π_b u_b (Wang et al., 2016, with the policy's mean).
    """

    others: jax.Array
    """W_c, ``(c, width, h)``."""
    identity: jax.Array
    """e_i, ``(n, h)``."""
    of_local: jax.Array | None
    """W_o, ``(l, h)``; None without local observations."""
    net: MLP
    encoder: Any
    factors: tuple[int, ...] = eqx.field(static=True)
    """The factor of each component."""
    by_factor: Encoded | None
    """Joins the local observations of a factor's components; None without local observations."""

    def __init__(
        self,
        key: jax.Array,
        encoder: Any,
        *,
        factors: tuple[int, ...],
        width: int,
        outputs: int,
        settings: LayerSettings,
        by_factor: Encoded | None = None,
        local: int = 0,
    ):
        """Create the network.

        - `width`: size of the encoding of a component's action; `outputs`: number of values per factor.
        - `local`: size of a component's local observation, if there is one.
        """
        first, second, third = jax.random.split(key, 3)
        # Several values have one output more, v, from which `_joined` takes their differences.
        sizes = (encoder.size, *settings.hidden, outputs + (outputs > 1))
        self.net = MLP(first, sizes, 1.0, settings)
        input_size = 0 if by_factor is None else by_factor.input_size(local)
        # The terms have separate matrices, but add up to one layer: its fan-in is that of all together.
        fan_in = encoder.size + len(factors) * width + input_size
        self.others = jax.random.normal(second, (len(factors), width, sizes[1])) * np.sqrt(1 / fan_in)
        self.identity = 0.1 * jax.random.normal(third, (max(factors) + 1, sizes[1]))
        for_local = jax.random.fold_in(key, 3)
        of_local = jax.random.normal(for_local, (input_size, sizes[1])) * np.sqrt(1 / fan_in)
        # Without it, the network must find the factor's part of the state from e_i alone, which takes far more samples.
        self.of_local = None if by_factor is None else of_local
        self.encoder, self.factors, self.by_factor = encoder, factors, by_factor

    def __call__(
        self,
        obs: jax.Array,
        local: Any,
        actions: jax.Array,
        *,
        own: jax.Array | None = None,
        probabilities: jax.Array | None = None,
    ) -> jax.Array:
        """Return values ``(..., n, outputs)``, for observations ``(..., d)`` and encoded actions ``(..., c, width)``.

        - `local`: local observations of the components, ``(..., c, l)``; ignored without `of_local`.
        - `own`: encoded actions ``(..., c, width)`` to evaluate for each factor, with the others unchanged.
        - `probabilities`: those of a factor's actions, ``(..., n, outputs)``; uniform by default.
        """
        shares = jnp.einsum("...cw,cwh->...ch", actions, self.others)
        mine = shares if own is None else shares - jnp.einsum("...cw,cwh->...ch", own, self.others)
        # Its own actions are in the sum over all components, so they are subtracted again, once for each factor.
        own_share = jnp.zeros((*mine.shape[:-2], *self.identity.shape)).at[..., np.array(self.factors), :].add(mine)
        x = self.encoder(obs) @ self.net.kernels[0] + shares.sum(axis=-2)
        x = x[..., None, :] - own_share + self.identity
        if self.by_factor is not None and self.of_local is not None:
            x = x + matmul(self.by_factor.inputs(obs, local, len(self.identity)), self.of_local)
        last = len(self.net.kernels) - 1
        for i in range(last):
            # Layer 0 is the sum of the terms above: with a joint input, W_s s would be computed once per factor.
            x = self.net.layer(i, x) if i else self.net.activated(0, x)
        x = matmul(x, self.net.kernels[-1]) if last else x
        return _joined(x + self.net.biases[-1], probabilities)


def _joined(x: jax.Array, probabilities: jax.Array | None) -> jax.Array:
    """Return values of actions from their common part, the first output, and their differences."""
    if x.shape[-1] == 1:
        return x
    # An error common to all actions of a state then changes only v, on average over the policy. Otherwise frequent
    # actions would follow the returns sooner than others, and the differences between actions, which are all that COMA
    # uses, would reflect how often actions were taken.
    common, differences = x[..., :1], x[..., 1:]
    weights = 1 / differences.shape[-1] if probabilities is None else probabilities
    return common + differences - (weights * differences).sum(axis=-1, keepdims=True)
