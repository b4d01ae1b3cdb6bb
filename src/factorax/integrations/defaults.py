"""Defaults of the arguments of `wrap`: attributes of the environment, λ, and the complete network."""

from typing import Any

import gymnasium as gym
import numpy as np

from .._checks import real_array, shown
from ..problems.vectors import OneOfMany, is_vector
from ..structure.labels import warn


def declared(env: Any, name: str) -> Any:
    """Return an attribute of an environment or of the environments that it wraps, or None.

    For a vector environment, the attribute is that of its sub-environments.
    """
    if is_vector(env):
        vector: Any = env
        return getattr(OneOfMany(vector).unwrapped, name, None)
    return env.get_wrapper_attr(name) if isinstance(env, gym.Env) and env.has_wrapper_attr(name) else None


def weights_of(weights: Any, default: Any, m: int) -> np.ndarray:
    """Return λ ``(m,)``, checked: `weights`, the `default`, or ones."""
    chosen = default if weights is None else weights
    lam = np.ones(m) if chosen is None else real_array("weights", chosen, finite=False).astype(float)
    if lam.shape != (m,) or not np.isfinite(lam).all():
        raise ValueError(f"weights: got {shown(lam.tolist())}, want {m} finite numbers, one λ per target")
    return lam


def warn_if_complete(network: Any, m: int) -> None:
    """Warn that factoring has no effect if no network is given."""
    if network is None and m == 1:
        warn(
            "reward: is one number, and thus one target for all actions, so factoring has no effect and this is plain "
            "PPO. Use reward=… to locate its parts, or pass a network with one column if this is intended"
        )
    elif network is None:
        warn(
            f"network: got none, so each action is credited with all {m} targets, as in plain PPO. Pass a network, "
            "or fx.InfluenceNetwork.complete(n, m) if this is intended"
        )
