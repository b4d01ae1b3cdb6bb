"""Baselines of minimum variance: the baseline of Wu et al., and exact baselines for shared parameters.

The paper leaves the second case open, as "a system of polynomial equations" with up to 2ⁿ solutions. The variance is,
however, a convex *quadratic* function of the baselines, so its stationary points solve a *linear* system.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arrays import on_device
from .._checks import Count, NotNegative, checked, real_array
from .._credit import credit
from .._text import shown
from ..structure.network import as_network
from .expectations import check_probabilities
from .inputs import check_samples
from .scores import LogProb, score_matrix


class FittedBaseline(NamedTuple):
    """A baseline bᵢ(s, āᵢ) = φᵢ(s, āᵢ)·wᵢ fitted to a batch."""

    weights: jax.Array
    """The coefficients w, shape ``(n, n_features)``."""
    values: jax.Array
    """The baseline of each sample and factor of the batch, ``(samples, n)``."""

    def __call__(self, features: Any) -> jax.Array:
        """Return the baseline of other samples, ``(..., n)``, given their features ``(..., n, n_features)``."""
        return jnp.einsum("...if,if->...i", jnp.asarray(features), self.weights)


def wu_baseline(
    log_prob: LogProb,
    params: Any,
    *,
    actions: Any,
    psi: Any,
    net: Any,
    features: Any,
    weights: Any = None,
    obs: Any = None,
    probabilities: Any = None,
    ridge: float = 1e-9,
) -> FittedBaseline:
    """Return the action-dependent baseline of Wu et al. (2018), which minimises E[|zᵢ|² (kᵢ − bᵢ)²] for each factor.

    The optimum is bᵢ*(s, āᵢ) = E_{aᵢ}[|zᵢ|² kᵢ | āᵢ] / E|zᵢ|², if the features can represent it (`tabular_features`
    can). It minimises the variance of the gradient if factors share no parameters. Arguments are as in
    `least_squares_baseline`.
    """
    return least_squares_baseline(
        log_prob,
        params,
        actions=actions,
        psi=psi,
        net=net,
        features=features,
        weights=weights,
        obs=obs,
        probabilities=probabilities,
        ridge=ridge,
        separately=True,
    )


def least_squares_baseline(
    log_prob: LogProb,
    params: Any,
    *,
    actions: Any,
    psi: Any,
    net: Any,
    features: Any,
    weights: Any = None,
    obs: Any = None,
    probabilities: Any = None,
    ridge: float = 1e-9,
    separately: bool = False,
) -> FittedBaseline:
    """Return the baselines that minimise V[Σᵢ zᵢ (kᵢ − bᵢ)], the variance of the *whole* gradient.

    This also holds if factors share parameters. The coefficients solve one linear system:
    Σₗ E[⟨zᵢ, zₗ⟩ φᵢ φₗᵀ] wₗ = E[⟨zᵢ, Σₗ zₗ kₗ⟩ φᵢ] for every i.

    **Arguments**

    - `actions`, `psi`, `net`, `weights`, `obs`, `probabilities`: as in `variance_report`, for one state:
      ``(samples, ...)``.
    - `features`: φᵢ(s, āᵢ), shape ``(samples, n, n_features)``. The features of factor i must not depend on its own
      action, or the gradient is biased. Use a fitted baseline on *other* samples: on its own batch it is slightly
      biased.
    - `ridge`: added to the diagonal, which is scaled to 1: the system is singular if the baselines are not unique.
    - `separately`: if true, minimise the variance of each factor's term instead, as `wu_baseline` does.
    """
    net = as_network(net, "net")
    checked("ridge", ridge, NotNegative)
    psi = check_samples(log_prob, params, actions=actions, psi=psi, obs=obs)
    if psi.ndim != 2:
        raise ValueError(f"psi: got shape {psi.shape}, want (samples, n_targets)")
    phi = real_array("features", features, jnp)
    if phi.ndim != 3 or phi.shape[:2] != (psi.shape[0], net.shape[0]):
        raise ValueError(f"features: got shape {phi.shape}, want ({psi.shape[0]}, {net.shape[0]}, n_features)")
    p = check_probabilities(probabilities, psi.shape[:1])
    p = jnp.full(psi.shape[0], 1 / psi.shape[0]) if p is None else p
    z = score_matrix(log_prob, params, actions=actions, obs=obs)  # (samples, |θ|, n)
    k, overlap = credit(net, psi, weights), jnp.einsum("sti,stl->sil", z, z)  # ⟨zᵢ, zₗ⟩ of each sample
    # Without the overlap of different factors, the variance is the sum of those of the terms.
    overlap = overlap * jnp.eye(net.shape[0]) if separately else overlap
    n, f = phi.shape[1:]
    system = jnp.einsum("s,sil,sif,slg->iflg", p, overlap, phi, phi, optimize="optimal").reshape(n * f, n * f)
    right = jnp.einsum("s,sil,sl,sif->if", p, overlap, k, phi).reshape(n * f)
    size = jnp.sqrt(jnp.diag(system))
    # Rare contexts and small features get equal weight in the ridge.
    unit = jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1), 0)
    scaled = system * unit[:, None] * unit + ridge * jnp.eye(n * f)
    # Not `solve`: in 32 bits, 1 + 1e-9 is 1, and the system stays singular where the baselines are not unique.
    w = (unit * jnp.linalg.lstsq(scaled, unit * right)[0]).reshape(n, f)
    fitted = FittedBaseline(w, jnp.zeros(0))
    return fitted._replace(values=fitted(phi))


def tabular_features(actions: Any, sizes: list[int] | tuple[int, ...]) -> jax.Array:
    """Return one indicator feature per joint action āᵢ of the *other* factors.

    The shape is ``(samples, n, max ∏_{l≠i} sizes)``. A baseline fitted with these features can be any function of āᵢ,
    which is practical for few factors with few choices.

    >>> tabular_features(jnp.array([[0, 1]]), (2, 2)).tolist()
    [[[0.0, 1.0], [1.0, 0.0]]]
    """
    actions, counts = real_array("actions", actions), np.array(checked("sizes", sizes, tuple[Count, ...]))
    if not counts.size:
        raise ValueError(f"sizes: got {shown(sizes)}, want at least one factor")
    if actions.dtype.kind not in "iu":
        raise TypeError(f"actions: got {actions.dtype}, want whole numbers")
    if actions.ndim != 2 or actions.shape[1] != len(counts):
        raise ValueError(
            f"actions: got shape {actions.shape}, want (samples, {len(counts)}), one column per entry of sizes"
        )
    if (actions < 0).any() or (actions >= counts).any():
        odd = actions[(actions < 0) | (actions >= counts)][0]
        raise ValueError(
            f"actions: got {odd}, want numbers from 0 to the size of the factor minus 1, with sizes {tuple(sizes)}"
        )
    width = int(max(np.prod(counts) // c for c in counts))
    # A single factor has one feature, which is constant.
    others = np.zeros(actions.shape, int)
    for i in range(len(counts) if len(counts) > 1 else 0):
        rest = np.delete(np.arange(len(counts)), i)
        others[:, i] = np.ravel_multi_index(actions[:, rest].T, tuple(counts[rest]))
    return on_device(others[..., None] == np.arange(width), float)
