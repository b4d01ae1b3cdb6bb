"""Networks that depend on the state: an empty charger influences nothing, and wakes turn with the wind."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .._checks import check_type
from .._text import shown
from .base_network import BaseNetwork, KArray, RolloutView, refuse_critic_of_factors
from .network import InfluenceNetwork, as_network


class StateNetwork(BaseNetwork):
    """K(observation, info): which action influences which target, *given the state in which it is taken*.

    An edge i → j may be left out in a state s iff the action aᵢ in s cannot change any later reward j, whatever
    follows. Then E[zᵢ ψⱼ | s] = 0 for the return ψⱼ from s on, and the gradient is unbiased. K may depend on anything
    known *before* the action is drawn, but not on the action itself or its consequences.

    **Arguments**

    - `function`: maps observations ``(..., d)``, as the environment returns them, and a mapping to influence matrices
      ``(..., n, m)`` with entries between 0 and 1. The mapping has ``"factor_mask"`` ``(..., n)`` if the environment
      tells which factors can act, and the entries of the environment's `info` named in ``fx.wrap(…, observe=[…])``.
      Write it with `jax.numpy`, because JAX must be able to trace it; `FactoredPPO` checks this once.
    - `support`: the network of all edges that can ever exist. It defines labels and shapes and is used in checks.

    >>> import jax.numpy as jnp
    >>> plugged = lambda obs, info: (obs > 0)[..., :, None] * jnp.ones(2)
    >>> net = StateNetwork(plugged, support=InfluenceNetwork.complete(3, 2))
    >>> net.at(jnp.array([1.0, 0.0, 1.0]), {}).matrix
    Array([[1., 1.],
           [0., 0.],
           [1., 1.]], dtype=float32)
    """

    for_credit = "the K of the states in which psi was observed: net.at(obs, info)"

    def __init__(self, function: Callable[[Any, Mapping[str, Any]], Any], support: InfluenceNetwork):
        if not callable(function):
            raise TypeError(
                f"function: got {type(function).__name__}, want a function of observations and info that returns "
                "influence matrices (..., n, m)"
            )
        _check_arguments(function)
        self.function, self.support = function, as_network(support, "support")

    def at(self, obs: Any, info: Mapping[str, Any]) -> KArray:
        """Return the influence matrices of these states, ``(..., n, m)``."""
        if not hasattr(obs, "shape"):
            raise TypeError(f"obs: got {shown(obs)}, want an array of observations (..., d)")
        check_type("info", info, Mapping, "a dictionary, such as {}")
        try:
            matrix = self.function(obs, info)
        except Exception as error:
            if type(error).__module__ != "jax.errors":  # raised if a function needs the values of a traced array
                raise
            name = getattr(self.function, "__qualname__", repr(self.function))
            raise TypeError(
                f"function: {name} cannot be traced by JAX ({type(error).__name__}); training compiles it and passes "
                "arrays without values. Write it with jax.numpy: jnp.where and jnp.asarray instead of np.where "
                "and np.asarray, and jnp.where instead of if"
            ) from error
        # A matrix of a wrong shape would broadcast and give credit silently.
        want = (*obs.shape[:-1], *self.support.shape)
        if tuple(matrix.shape) != want:
            raise ValueError(
                f"function: returned shape {tuple(matrix.shape)} for observations of shape {tuple(obs.shape)}, want "
                f"{want}: one matrix per observation"
            )
        return KArray(matrix)

    @property
    def static(self) -> InfluenceNetwork:
        """The network of all edges that can ever exist."""
        return self.support

    def check_settings(self, config: Any) -> None:
        """Raise for a critic of factors: it predicts credits, which change with the state."""
        refuse_critic_of_factors(self, config)

    def check_observations(self, obs: Any, info: Mapping[str, Any]) -> None:
        """Raise if JAX cannot trace the function."""
        self.at(obs, info)

    def for_rollout(self, state: Any, rollout: RolloutView) -> KArray:
        """Return K for every observation of the rollout, ``[T, B, n, m]``."""
        return self.at(rollout.obs, rollout.info)

    def __repr__(self) -> str:
        return f"StateNetwork(within {self.support!r})"


def _check_arguments(function: Callable[..., Any]) -> None:
    """Raise TypeError unless a function takes two positional arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return
    try:
        signature.bind(None, None)
    except TypeError:
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(
            f"function: got {name}{signature}, want a function of two arguments, observations and info, as in "
            "lambda obs, info: …"
        ) from None
