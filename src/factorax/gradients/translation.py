"""The corrected corollary: a shift of the targets after which factoring never adds variance. A diagnostic."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import is_traced, real_array
from .inputs import shape_of


def nonnegative_translation(psi: Any, weights: Any = None, *, lower: Any = None, upper: Any = None) -> jax.Array:
    """Return targets shifted so that λⱼ ψⱼ ≥ 0 everywhere; then ΔVᵢ ≥ 0 for every factor (Cor. 4.1, corrected).

    The shift is ψⱼ − inf ψⱼ where λⱼ > 0, and ψⱼ − sup ψⱼ where λⱼ < 0. Constants do not bias the gradient, and with
    all kᵢ, bᵢ ≥ 0 the terms of ΔVᵢ = αᵢ E[bᵢ²] + 2 E[|zᵢ|² kᵢ bᵢ] cannot be negative. The two versions in the paper,
    in the statement and in the proof, do not hold.

    The inequality is strict for a factor that drops a target if αᵢ > 0 and ε sign(λⱼ) is added to each shifted target:
    ΔVᵢ ≥ αᵢ ε² (Σ |λⱼ| over the dropped j)². The paper's footnote overlooks factors that drop no target.

    The comparison is with the vanilla gradient *of the shifted targets*, which can have a thousand times the variance
    of the original one; a warning is issued. Use the shift to understand ΔV, not to train.

    **Arguments**

    - `psi`: targets, shape ``(..., n_targets)``.
    - `weights`: λ, shape ``(n_targets,)``.
    - `lower`, `upper`: inf and sup of each target, ``(n_targets,)``. The default is the range of the batch, which is
      correct only if the batch contains every joint action.
    """
    raw_psi, psi = psi, real_array("psi", psi, jnp)
    if psi.ndim == 0 or 0 in psi.shape:
        raise ValueError(f"psi: got {shape_of(raw_psi)}, want (..., n_targets) with at least one sample")
    m = psi.shape[-1]
    lam = jnp.ones(m) if weights is None else real_array("weights", weights, jnp)
    axes = tuple(range(psi.ndim - 1))
    lowest = psi.min(axis=axes) if lower is None else real_array("lower", lower, jnp)
    highest = psi.max(axis=axes) if upper is None else real_array("upper", upper, jnp)
    for name, bound in (("weights", lam), ("lower", lowest), ("upper", highest)):
        if bound.shape != (m,):
            raise ValueError(f"{name}: got {shape_of(bound)}, want ({m},), one per target")
    if not is_traced(lowest) and not is_traced(highest) and (np.asarray(lowest) > np.asarray(highest)).any():
        raise ValueError(f"lower, upper: got {lowest.tolist()} and {highest.tolist()}, want lower ≤ upper")
    warnings.warn(
        "ΔV is non-negative only relative to the vanilla gradient of the *shifted* targets, which can have far more "
        "variance than the original; use the translation as a diagnostic, not for training",
        stacklevel=2,
    )
    return psi - jnp.where(lam >= 0, lowest, highest)
