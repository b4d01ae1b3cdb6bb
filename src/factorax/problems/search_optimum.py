"""The optimal action of a search bandit with an ℓ₂ penalty, in closed form, for every weight λ ≥ 0 (Sec. 5.1).

The paper allows any λ ≥ 0. Up to λ = 1 the centre is optimal; above it, the penalty pulls actions towards zero.
"""

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_jax_array


def best_action(centre: Any, *, k: int, penalty: float, norm: int = 1) -> Any:
    """Return the action that minimises ‖a − c‖ₚ + λ ‖(a₁ … a_k)‖₂ with p = `norm`, shape ``(n,)``.

    For p = 1 the first k actions are those of the centre, clipped to [−t, t]. An action inside the bounds must balance
    the slope 1 of its distance against that of the penalty, λ|aᵢ|/r ≤ 1 with r = ‖(a₁ … a_k)‖₂, so that t = r/λ:

        Σᵢ min(|cᵢ|, t)² = λ² t².

    With |c| in ascending order, Σᵢ min(|cᵢ|/t, 1)² decreases in t, so the number j of actions that stay at the centre
    can be counted; then t² = Σᵢ≤ⱼ cᵢ² / (λ² − (k − j)). All are zero if λ² exceeds the number of cᵢ ≠ 0.

    For p = 2 the first k actions are those of the centre up to λ = 1, and zero above.

    - `centre`: c, shape ``(n,)``, a NumPy array, or a JAX array, which may be traced.

    >>> best_action(np.array([3.0, -4.0, 5.0]), k=2, penalty=0.5)
    array([ 3., -4.,  5.])
    >>> best_action(np.array([3.0, -4.0, 5.0]), k=2, penalty=1.3).round(3)
    array([ 3.   , -3.612,  5.   ])
    >>> best_action(np.array([3.0, -4.0, 5.0]), k=2, penalty=2.0)
    array([0., 0., 5.])
    """
    xp = array_namespace(centre) if is_jax_array(centre) else np
    if k == 0 or penalty <= 1:
        return centre
    first, rest = centre[:k], centre[k:]
    if norm == 2:
        return xp.concatenate([xp.zeros_like(first), rest])
    squares = xp.sort(first**2)
    total = xp.cumsum(squares)
    clipped = xp.arange(k - 1, -1, -1)  # number of larger entries for each
    # At t = |cᵢ|; zeros stay at the centre for every t.
    level = xp.where(squares > 0, total / xp.where(squares > 0, squares, 1.0) + clipped, xp.inf)
    j = (level >= penalty**2).sum()
    kept = xp.where(j > 0, total[xp.maximum(j - 1, 0)], 0.0)
    excess = penalty**2 - (k - j)
    t = xp.sqrt(kept / xp.where(excess > 0, excess, 1.0))
    return xp.concatenate([xp.clip(first, -t, t) + 0.0, rest])  # adding 0 removes −0
