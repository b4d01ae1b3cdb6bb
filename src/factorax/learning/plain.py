"""A policy as plain arrays, for the actor in NumPy."""

import jax
import numpy as np

from ..rollouts import Parameters
from .networks import Independent, Policy, Shared
from .normalising import Running


def plain(policy: Policy, seen: Running | None) -> Parameters:
    """The parameters of a policy, and of what normalises its observations, if they are."""
    net = policy.net.nets if isinstance(policy.net, Independent) else policy.net.net
    spread = jax.tree.map(np.asarray, policy.spread)
    whiten = np.eye(spread.mixing.shape[-1], dtype=np.float32) - np.tril(spread.mixing, -1)
    return Parameters(
        tuple(np.asarray(w) for w in net.weights),
        tuple(np.asarray(b) for b in net.biases),
        np.asarray(policy.net.identity) if isinstance(policy.net, Shared) else None,
        spread.log_std,
        np.linalg.inv(whiten) if whiten.size else whiten,
        None if seen is None else np.asarray(seen.mean),
        None if seen is None else np.sqrt(np.asarray(seen.variance) + np.float32(1e-8)),
    )
