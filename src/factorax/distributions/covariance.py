"""Full covariances of the Gaussian components that belong to one factor.

Each component has its distribution *given the earlier components of the factor*, so that the log-probabilities,
entropies and KL divergences of the components of a factor add up to those of the factor:

    a_k = μ_k + Σ_{l<k} W_kl (a_l − μ_l) + σ_k ε_k,    Σ⁻¹ = (I − W)ᵀ diag(σ⁻²) (I − W).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .functions import Array, namespace


class Spread(NamedTuple):
    """Spread of Gaussian components: policy parameters that do not depend on the state."""

    log_std: Any
    """log σ of each component given the earlier ones of its factor, ``(c,)``."""
    mixing: Any
    """W of each factor with a covariance, ``(f, g, g)``; only the part below the diagonal is used."""


def blocks_of(has_spread: np.ndarray, factor_of: np.ndarray) -> np.ndarray | None:
    """Return the Gaussian components of each factor that has several, ``(f, g)``, padded with c; None if there are
    none.

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
    """Return ``(..., c)`` with the components of each block multiplied by its matrix, and the others unchanged.

    - `matrices`: ``(f, g, g)``; for NumPy also a sequence of f square arrays.
    """
    if isinstance(x, np.ndarray):
        mixed = x.copy()
        for block, matrix in zip(blocks, matrices, strict=True):
            group = block[block < x.shape[-1]]
            # Blocks and matrices are padded to the size of the largest factor.
            mixed[..., group] = x[..., group] @ matrix[: len(group), : len(group)].T
        return mixed
    xp = namespace(x)
    # the padding c is no component: it is read as 0, and dropped when written
    parts = xp.take(x, blocks, axis=-1, mode="fill", fill_value=0.0)
    return x.at[..., blocks].set(xp.einsum("fij,...fj->...fi", matrices, parts), mode="drop")


def whitening(mixing: Array) -> Array:
    """Return I − W, which maps a − μ to σ ε: the part not explained by the earlier components."""
    xp = namespace(mixing)
    # With ones on the diagonal its determinant is 1, so that log-densities need no term for W.
    return xp.eye(mixing.shape[-1], dtype=mixing.dtype) - xp.tril(mixing, -1)


def colouring(mixing: Array) -> Array:
    """Return (I − W)⁻¹, which maps σ ε to a − μ."""
    whiten = whitening(mixing)
    if isinstance(whiten, np.ndarray):
        return np.linalg.inv(whiten) if whiten.size else whiten
    # JAX's inverse would be a general one, by a pivoted decomposition
    from jax.scipy.linalg import solve_triangular

    xp = namespace(mixing)
    identity = xp.broadcast_to(xp.eye(mixing.shape[-1]), mixing.shape)
    return solve_triangular(whiten, identity, lower=True, unit_diagonal=True)


def variance_ratio(blocks: np.ndarray | None, old: Spread, new: Spread) -> Array:
    """Return the variance of each component's new ε under the old distribution, ``(c,)``; with blocks, uses JAX."""
    ratio = namespace(old.log_std, new.log_std).exp(2 * (old.log_std - new.log_std))
    if blocks is None:
        return ratio
    import jax.numpy as jnp

    deviation = jnp.take(jnp.exp(old.log_std), blocks, mode="fill", fill_value=0.0)
    rows = (whitening(new.mixing) @ colouring(old.mixing)) * deviation[:, None, :]
    precision = jnp.take(jnp.exp(-2 * new.log_std), blocks, mode="fill", fill_value=0.0)
    return jnp.asarray(ratio).at[blocks].set((rows**2).sum(axis=-1) * precision, mode="drop")
