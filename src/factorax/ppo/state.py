"""`TrainState`: everything that changes during training."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arrays import ones, zeros
from ..networks import Agent
from .config import Hyper
from .missing_edges import MissingEdges


class RunningMoments(NamedTuple):
    """Count, mean and variance of all samples so far."""

    size: jax.Array
    mean: jax.Array
    variance: jax.Array

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "RunningMoments":
        """Return the moments of no samples: mean 0, variance 1."""
        return cls(jnp.float32(1e-4), zeros(shape), ones(shape))  # almost no weight, as in Stable-Baselines3

    def updated(self, x: jax.Array) -> "RunningMoments":
        """Return the moments with more samples, along all axes in front of the shape (Chan et al., 1983)."""
        axes = tuple(range(x.ndim - self.mean.ndim))
        new = float(np.prod([x.shape[axis] for axis in axes]))
        mean, variance = x.mean(axis=axes), x.var(axis=axes)
        total = self.size + new
        apart = mean - self.mean
        # Combined from moments: sums of squares would cancel in single precision.
        both = self.variance * self.size + variance * new + apart**2 * self.size * new / total
        return RunningMoments(total, self.mean + apart * new / total, both / total)

    def normalised(self, rows: jax.Array, measured: np.ndarray | None) -> jax.Array:
        """Return rows of observations centred, scaled and clipped to ±10; only the measured columns if not all are."""
        # The limits of VecNormalize in Stable-Baselines3. Numbers of choices are names, which have no scale.
        scaled = jnp.clip((rows - self.mean) / jnp.sqrt(self.variance + 1e-8), -10.0, 10.0)
        return scaled if measured is None else jnp.where(measured, scaled, rows)


class TrainState(NamedTuple):
    """Everything that changes during training: a pytree of arrays that can be saved."""

    agent: Agent
    optimiser: Any
    method: Any
    """What the method carries from update to update; None for most."""
    obs: RunningMoments
    """Running moments of observations."""
    reward: RunningMoments
    """Running moments of discounted returns."""
    discounted: jax.Array
    """The discounted return so far of each episode, ``(B,)``."""
    environments: Any
    """State of the environments of a JAX problem; None for others, which store their own."""
    key: jax.Array
    timesteps: jax.Array
    hyper: Hyper
    """Settings that may differ between states of one compiled program."""
    network: Any
    """State of the network (`BaseNetwork.init_state`); None for most."""
    missing_edges: MissingEdges | None
    """Sums of the missing-edge test; None if there is no test."""
    critic_memory: jax.Array | None = None
    """Memory of a recurrent critic for each episode, ``(B, h)``; None if it has no memory of its own."""
