"""Full covariances of the Gaussian components that belong to one factor.

Each component has its distribution *given the components before it in the factor*, so that the log-probabilities,
entropies and KL divergences of a factor's components add up to those of the factor:

    a_k = μ_k + Σ_{l<k} W_kl (a_l − μ_l) + σ_k ε_k,    Σ⁻¹ = (I − W)ᵀ diag(σ⁻²) (I − W).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .functions import Array, namespace


class Spread(NamedTuple):
    """Spread of Gaussian components: parameters of a policy that do not depend on the state."""

    log_std: Any
    """log σ, ``(c,)``: of a component given those before it in its factor."""
    mixing: Any
    """W of every factor with a covariance, ``(f, g, g)``, of which only the part below the diagonal is used."""


def blocks_of(has_spread: np.ndarray, factor_of: np.ndarray) -> np.ndarray | None:
    """Return the Gaussian components of every factor that has several, ``(f, g)``, padded with c; None without any.

    - `has_spread`: which components are Gaussian, booleans ``(c,)``;
    - `factor_of`: the factor of each component, ``(c,)``.

    >>> blocks_of(np.array([True, True, False, True, True]), np.array([0, 0, 0, 0, 1])).tolist()
    [[0, 1, 3]]
    """
    groups = [np.flatnonzero(has_spread & (factor_of == i)) for i in np.unique(factor_of)]
    groups = [group for group in groups if len(group) > 1]
    if not groups:
        return None
    blocks = np.full((len(groups), max(map(len, groups))), len(has_spread))
    for row, group in zip(blocks, groups, strict=True):
        row[: len(group)] = group
    return blocks


def mix(blocks: np.ndarray, matrices: Array | Sequence[np.ndarray], x: Array) -> Array:
    """Return ``(..., c)`` with the components of every block multiplied by its matrix; the others stay as they are.

    - `matrices`: ``(f, g, g)``; for NumPy also a sequence of f square arrays.
    """
    if isinstance(x, np.ndarray):
        mixed = x.copy()
        for block, matrix in zip(blocks, matrices, strict=True):
            group = block[block < x.shape[-1]]
            mixed[..., group] = x[..., group] @ matrix[: len(group), : len(group)].T
        return mixed
    xp = namespace(x)
    parts = xp.take(x, blocks, axis=-1, mode="fill", fill_value=0.0)
    return x.at[..., blocks].set(xp.einsum("fij,...fj->...fi", matrices, parts), mode="drop")


def whitening(mixing: Array) -> Array:
    """Return I − W: from a − μ to the part that the components before do not explain, σ ε."""
    xp = namespace(mixing)
    return xp.eye(mixing.shape[-1], dtype=mixing.dtype) - xp.tril(mixing, -1)


def colouring(mixing: Array) -> Array:
    """Return (I − W)⁻¹: from σ ε to a − μ."""
    whiten = whitening(mixing)
    if isinstance(whiten, np.ndarray):
        return np.linalg.inv(whiten) if whiten.size else whiten
    from jax.scipy.linalg import solve_triangular

    xp = namespace(mixing)
    identity = xp.broadcast_to(xp.eye(mixing.shape[-1]), mixing.shape)
    return solve_triangular(whiten, identity, lower=True, unit_diagonal=True)


def inverses(blocks: np.ndarray, matrices: np.ndarray, n_components: int) -> list[np.ndarray]:
    """Return the inverse of every block's matrix without its padding, with NumPy: whitening from colouring."""
    sizes = (blocks < n_components).sum(axis=1)
    return [np.linalg.inv(matrix[:size, :size]) for matrix, size in zip(matrices, sizes, strict=True)]


def variance_ratio(blocks: np.ndarray | None, old: Spread, new: Spread) -> Array:
    """Return the variance that every component's ε of `new` has under `old`, ``(c,)``; with blocks, by JAX."""
    ratio = namespace(old.log_std, new.log_std).exp(2 * (old.log_std - new.log_std))
    if blocks is None:
        return ratio
    import jax.numpy as jnp

    deviation = jnp.take(jnp.exp(old.log_std), blocks, mode="fill", fill_value=0.0)
    rows = (whitening(new.mixing) @ colouring(old.mixing)) * deviation[:, None, :]
    precision = jnp.take(jnp.exp(-2 * new.log_std), blocks, mode="fill", fill_value=0.0)
    return jnp.asarray(ratio).at[blocks].set((rows**2).sum(axis=-1) * precision, mode="drop")
