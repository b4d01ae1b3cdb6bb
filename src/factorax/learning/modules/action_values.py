"""A network that values what a factor does, given the state and what all other factors do."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .arrangements import SeenByFactors
from .mlp import ACTIVATIONS, MLP, LayerSettings, normalised


class ActionValues(eqx.Module):
    """The critic of COMA: one network for all factors, whose input is the state, the others' actions, what the factor
    observes itself, and which factor it is.

    The first layer is linear in these inputs, so that what all factors have in common is computed once,

        x_i = W_s s + Σ_c W_c a_c − Σ_{c ∈ i} W_c a_c + W_o o_i + e_i,

    with the actions aᶜ one-hot, and eᵢ learnt. Where there are no local observations oᵢ, that term is left out: the
    network then has to find the factor's part of the state by eᵢ alone, which takes far more samples. The outputs are
    values of all actions of the factor, or, if it is asked for the value of one, W_c a_c of that action is added, and
    there is one output.

    Values of several actions are v + u_b − Σ π_b u_b (Wang et al., 2016, with the policy's mean), so that an error that
    all actions of a state have in common changes v alone, on average over the actions that the policy takes. Otherwise
    an action that is taken more often follows the returns sooner than others, and the differences between actions,
    which are all that COMA uses, are those of how often they were taken.
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
    """The factor of every component."""
    by_factor: SeenByFactors | None
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
        by_factor: SeenByFactors | None = None,
        local: int = 0,
    ):
        """- `width`: numbers that encode an action of a component; `outputs`: values of a factor.
        - `local`: numbers of a component's local observation, if there are any."""
        first, second, third = jax.random.split(key, 3)
        sizes = (encoder.size, *settings.hidden, outputs + (outputs > 1))
        self.net = MLP(first, sizes, 1.0, settings)
        seen_size = 0 if by_factor is None else by_factor.seen_size(local)
        fan_in = encoder.size + len(factors) * width + seen_size
        self.others = jax.random.normal(second, (len(factors), width, sizes[1])) * np.sqrt(1 / fan_in)
        self.identity = 0.1 * jax.random.normal(third, (max(factors) + 1, sizes[1]))
        for_local = jax.random.fold_in(key, 3)
        of_local = jax.random.normal(for_local, (seen_size, sizes[1])) * np.sqrt(1 / fan_in)
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

        - `local`: what every component observes itself, ``(..., c, l)``; not looked at without `of_local`.
        - `own`: encoded actions ``(..., c, width)`` that factors are valued for, each with the others as they are.
        - `probabilities`: those of a factor's actions, ``(..., n, outputs)``; all the same without them.
        """
        shares = jnp.einsum("...cw,cwh->...ch", actions, self.others)
        mine = shares if own is None else shares - jnp.einsum("...cw,cwh->...ch", own, self.others)
        own_share = jnp.zeros((*mine.shape[:-2], *self.identity.shape)).at[..., np.array(self.factors), :].add(mine)
        x = self.encoder(obs) @ self.net.kernels[0] + shares.sum(axis=-2)
        x = x[..., None, :] - own_share + self.identity
        if self.by_factor is not None and self.of_local is not None:
            x = x + self.by_factor.seen(obs, local, len(self.identity)) @ self.of_local
        if len(self.net.kernels) == 1:
            return _joined(x + self.net.biases[0], probabilities)
        if self.net.scales:
            x = normalised(x) * self.net.scales[0]
        x = ACTIVATIONS[self.net.activation](x + self.net.biases[0])
        for i in range(1, len(self.net.kernels) - 1):
            x = self.net.layer(i, x)
        return _joined(x @ self.net.kernels[-1] + self.net.biases[-1], probabilities)


def _joined(x: jax.Array, probabilities: jax.Array | None) -> jax.Array:
    """Return values of actions from what they have in common, the first of the outputs, and what they differ by."""
    if x.shape[-1] == 1:
        return x
    common, differences = x[..., :1], x[..., 1:]
    weights = 1 / differences.shape[-1] if probabilities is None else probabilities
    return common + differences - (weights * differences).sum(axis=-1, keepdims=True)
