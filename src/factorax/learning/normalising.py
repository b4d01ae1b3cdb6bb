"""Running means and scales of observations and returns."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Running(NamedTuple):
    """How many, mean and mean square deviation of what was seen."""

    size: jax.Array
    mean: jax.Array
    variance: jax.Array

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "Running":
        """Nothing seen yet: mean 0, variance 1."""
        return cls(jnp.float32(1e-4), jnp.zeros(shape), jnp.ones(shape))

    def seen(self, x: jax.Array) -> "Running":
        """With more, all axes in front of the shape being samples (Chan et al., 1983)."""
        axes = tuple(range(x.ndim - self.mean.ndim))
        new = float(np.prod([x.shape[axis] for axis in axes]))
        mean, variance = x.mean(axis=axes), x.var(axis=axes)
        total = self.size + new
        apart = mean - self.mean
        both = self.variance * self.size + variance * new + apart**2 * self.size * new / total
        return Running(total, self.mean + apart * new / total, both / total)

    def normalise(self, x: jax.Array, clip: float = 10.0) -> jax.Array:
        """Centred, scaled and cut."""
        return jnp.clip((x - self.mean) / jnp.sqrt(self.variance + 1e-8), -clip, clip)
