"""`Problem`: a pure-JAX environment with a vector of targets and its influence network."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import numpy as np

from .._checks import check_function, check_type, checked, real_array
from .._text import shown
from ..structure import BaseNetwork, InfluenceNetwork
from ..structure.network import network_of


class Step(NamedTuple):
    """The result of one step of a problem."""

    state: Any
    """A pytree of arrays with constant shapes."""
    obs: Any
    """The observation, an array; a dict or tuple of arrays if the observation space is a Dict or Tuple."""
    psi: jax.Array
    """The targets, ``(m,)``."""
    terminated: jax.Array
    """Whether the episode has ended for good: the value after this step is 0."""
    truncated: jax.Array
    """Whether the episode was cut off by a time limit, so that its value is bootstrapped."""
    factor_mask: jax.Array | None = None
    """Which factors acted in this step, ``(n,)``; None if all did."""
    target_terminated: jax.Array | None = None
    """Which targets have ended with this step, ``(m,)``; by default as `terminated`."""


# Compared by identity: equal arrays have no single truth value, and functions no equality.
@dataclass(frozen=True, eq=False)
class Problem:
    """An environment as two pure functions of one episode, which the learner vectorises.

    >>> from factorax.problems import contextual_bandit
    >>> contextual_bandit(4).network
    InfluenceNetwork(4 actions → 4 targets, 4 edges, density 0.25)
    """

    name: str
    reset: Callable[[jax.Array], tuple[Any, Any]]
    """Maps a key to a state and an observation."""
    step: Callable[[jax.Array, Any, Any], Step]
    """Maps a key, a state and an action (an element of the action space, as JAX arrays) to a `Step`."""
    observation_space: gym.Space
    """Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or Tuple of those. A Dict may have a MultiBinary
    ``action_mask``, with one number per choice of the action, 0 if it is not valid."""
    action_space: gym.Space
    network: InfluenceNetwork
    """The network of returns: which factor influences which target, now *or later*."""
    weights: np.ndarray
    """The weights λ, ``(m,)``."""
    local: Callable[[Any], jax.Array] | None = None
    """Maps observations, arrays ``(..., d)`` or dicts or tuples of them, to local observations of each factor,
    ``(..., n, l)``, or of each component of an action, ``(..., c, l)``, for shared and independent policies."""

    def __post_init__(self) -> None:
        checked("name", self.name, str)
        check_function("reset", self.reset, "a function of a JAX key that returns a state and an observation")
        check_function("step", self.step, "a function of a JAX key, a state and an action that returns a Step")
        for name in ("observation_space", "action_space"):
            check_type(name, getattr(self, name), gym.Space, "a Gymnasium space, such as a Box")
        network = network_of(self.network, "network")
        check_type("network", network, BaseNetwork, "an InfluenceNetwork, or its matrix")
        object.__setattr__(self, "network", network)
        # `static`: a network may vary during training, but its shape does not.
        m = network.static.shape[1]
        # λ of a wrong length would broadcast if it has one entry.
        if real_array("weights", self.weights).shape != (m,):
            raise ValueError(f"weights: got {shown(self.weights)}, want ({m},), one λ per target")
        if self.local is not None:
            check_function("local", self.local, "a function from observations to those of each factor, or None")
