"""Defaults for arguments of `wrap` that are left out: attributes of the environment, λ, and the missing network."""

from typing import Any

import gymnasium as gym
import numpy as np

from .._checks import real_array, shown
from ..problems.vectors import OneOfMany, is_vector
from ..structure.labels import warn


def declared(env: Any, name: str) -> Any:
    """Return an attribute of an environment or of what it wraps; of a vector of environments, that of each; None if
    there is none."""
    if is_vector(env):
        vector: Any = env
        return getattr(OneOfMany(vector).unwrapped, name, None)
    return env.get_wrapper_attr(name) if isinstance(env, gym.Env) and env.has_wrapper_attr(name) else None


def weights_of(weights: Any, default: Any, m: int) -> np.ndarray:
    """λ ``(m,)``, checked: `weights`, or else the `default`, or else ones."""
    chosen = default if weights is None else weights
    lam = np.ones(m) if chosen is None else real_array("weights", chosen, finite=False).astype(float)
    if lam.shape != (m,) or not np.isfinite(lam).all():
        raise ValueError(f"weights: got {shown(lam.tolist())}, want {m} finite numbers, one λ for each target")
    return lam


def warn_if_complete(network: Any, m: int) -> None:
    """Warn that factoring gains nothing where no network is given."""
    if network is None and m == 1:
        warn(
            "the reward is one number, one target for all actions: factoring can do nothing, this is plain PPO. Say "
            "where its parts are with reward=…, or pass a network of one column if that is meant"
        )
    elif network is None:
        warn(
            f"network: none is given, so that every action is credited with all {m} targets, as in plain PPO. Say "
            "which influences which, or pass fx.InfluenceNetwork.complete(n, m) if that is meant"
        )
