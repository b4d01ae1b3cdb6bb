"""Networks that depend on the state: an empty charger influences nothing, wakes turn with the wind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .network import InfluenceNetwork


@dataclass(frozen=True, eq=False)
class KArray:
    """An influence matrix as an array ``(..., n, m)``: one for all samples or one for each, JAX's traced or not.

    `factorax.credit` takes it in place of a network.

    >>> import factorax as fx, numpy as np
    >>> fx.credit(KArray(np.array([[[1.0, 1.0]], [[0.0, 1.0]]])), np.array([[10.0, 1.0], [10.0, 1.0]]))
    array([[11.],
           [ 1.]])
    """

    weights: Any

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_actions, n_targets)``."""
        return self.weights.shape[-2], self.weights.shape[-1]


class StateNetwork:
    """K(observation, info): which action influences which target, *given the state it is taken in*.

    An edge i → j may be left out in a state s iff the action aᵢ taken in s changes no reward j from then on, whatever
    follows. Then E[zᵢ ψⱼ | s] = 0 for the return ψⱼ from s on, and the gradient has no bias. K may depend on what was
    known *before* the action was drawn, and on nothing else: on the action itself, or on what came of it, it may not.

    **Arguments**

    - `function`: from observations ``(..., d)``, as the environment gives them, and a mapping, to weights ``(..., n,
      m)`` from 0 to 1. The mapping has ``"factor_mask"`` ``(..., n)`` where the environment says who can act, and what
      ``fx.wrap(…, observe=[…])`` names of the environment's `info`. JAX must be able to trace the function.
    - `start`: the network of all edges that there may ever be: for names and shapes, and for checks.

    >>> import jax.numpy as jnp
    >>> plugged = lambda obs, info: (obs > 0)[..., :, None] * jnp.ones(2)
    >>> net = StateNetwork(plugged, InfluenceNetwork.complete(3, 2))
    >>> net.at(jnp.array([1.0, 0.0, 1.0]), {}).weights
    Array([[1., 1.],
           [0., 0.],
           [1., 1.]], dtype=float32)
    """

    def __init__(self, function: Callable[[Any, Mapping[str, Any]], Any], start: InfluenceNetwork):
        if not callable(function):
            raise TypeError(
                f"function: got {type(function).__name__}, want one of observations and info that gives weights "
                "(..., n, m)"
            )
        if not isinstance(start, InfluenceNetwork):
            raise TypeError(f"start: got {type(start).__name__}, want an InfluenceNetwork of all edges that may be")
        self.function, self.start = function, start

    def at(self, obs: Any, info: Mapping[str, Any]) -> KArray:
        """The network of these states."""
        weights = self.function(obs, info)
        want = (*obs.shape[:-1], *self.start.shape)
        if tuple(weights.shape) != want:
            raise ValueError(
                f"function: gave shape {tuple(weights.shape)} for observations of shape {tuple(obs.shape)}, want "
                f"{want}: a matrix for each"
            )
        return KArray(weights)

    def __repr__(self) -> str:
        return f"StateNetwork(within {self.start!r})"
