"""Continuum-armed bandits with many actions and known structure (Sec. 5.1 and App. D of the paper).

A bandit has one state, an action in ℝⁿ and a vector of targets, which is a pure function of the action. Its influence
network and its weights λ are attributes. The functions work with NumPy, JAX and PyTorch arrays, with batch axes in
front.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from array_api_compat import array_namespace, is_jax_array

from .._checks import NotNegative, Range, check_function, check_number, checked, real_array, shown
from .._credit import credit
from ..structure import InfluenceNetwork, gallery
from ..structure.network import as_network
from ..structure.partition import as_index
from .search_optimum import best_action

ROUNDING = 1e-5
"""How far a gap may be below 0 in single precision, relative to 1 + |reward of the best action|."""


@dataclass(frozen=True, eq=False)
class Bandit:
    """A bandit of n actions and m targets."""

    network: InfluenceNetwork
    """The influence network, ``(n, m)``."""
    weights: np.ndarray
    """The weights λ, shape ``(m,)``."""
    targets: Callable[[Any], Any]
    """Maps actions ``(..., n)`` to targets ψ, ``(..., m)``."""
    best: Any
    """An action that maximises the reward, shape ``(n,)``."""

    def __post_init__(self) -> None:
        network = as_network(self.network, "network")
        object.__setattr__(self, "network", network)
        check_function("targets", self.targets, "a function from actions (..., n) to targets (..., m)")
        for name, size in (("weights", network.shape[1]), ("best", network.shape[0])):
            if np.shape(real_array(name, getattr(self, name), finite=not is_jax_array(self.best))) != (size,):
                raise ValueError(f"{name}: got {shown(getattr(self, name))}, want {size} numbers, shape ({size},)")

    @property
    def n(self) -> int:
        """Number of actions."""
        return self.network.shape[0]

    def reward(self, action: Any) -> Any:
        """Return the scalar objective Σⱼ λⱼ ψⱼ of actions ``(..., n)``, shape ``(...)``."""
        if np.shape(action)[-1:] != (self.n,) or not hasattr(action, "dtype"):
            raise TypeError(f"action: got {shown(action)}, want an array of shape (..., {self.n})")
        if getattr(action.dtype, "kind", "f") in "cOSU":
            raise TypeError(f"action: got {action.dtype}, want real numbers")
        total = InfluenceNetwork.complete(1, self.network.shape[1])
        return credit(total, self.targets(action), self.weights)[..., 0]

    def gap(self, action: Any) -> Any:
        """Return the difference between the best reward and the reward of an action, shape ``(...)``.

        It is at least 0 up to rounding if `best` is correct: a gap below −`ROUNDING` (1 + |reward of `best`|) shows
        that it is not.
        """
        return self.reward(self.best) - self.reward(action)


def separable_bandit(terms: Callable[[Any], Any], best: Any) -> Bandit:
    """Return a bandit with one target per action: ψᵢ = fᵢ(aᵢ), K = I.

    **Arguments**

    - `terms`: maps actions ``(..., n)`` to f₁(a₁) … fₙ(aₙ), ``(..., n)``; each term depends only on its own action.
    - `best`: the action at which all terms are maximal, shape ``(n,)``.

    >>> quadratic = separable_bandit(lambda a: -((a - 1.0) ** 2), best=[1.0, 1.0])
    >>> quadratic.targets(np.array([0.0, 3.0]))
    array([-1., -4.])
    """
    check_function("terms", terms, "a function from actions (..., n) to targets (..., n)")
    best = _vector(best, "best")
    return Bandit(network=InfluenceNetwork.identity(len(best)), weights=np.ones(len(best)), targets=terms, best=best)


def search_bandit(
    centre: Any,
    *,
    k: int = 0,
    penalty: float = 0.0,
    norm: Literal[1, 2] = 1,
    zeta: Callable[[Any], Any] | None = None,
    best: Any = None,
    scale: float | None = None,
) -> Bandit:
    """Return the bandit of finding a point c in ℝⁿ: ψᵢ = −|aᵢ − cᵢ| / n, and a penalty −λ ζ(a₁ … a_k) / n.

    The penalty applies to the first k actions. The paper does not mention the division by n, but its step sizes diverge
    without it.

    **Arguments**

    - `centre`: c, shape ``(n,)``; or the number n, for c drawn uniformly from (−5, 5) with seed 0 (`draw_centre` draws
      others). It may be traced by JAX, so that one compiled program serves many centres.
    - `k`: the number of actions in the penalty; with 0 there is no penalty and no target for it.
    - `penalty`: its weight λ ≥ 0. Up to 1 the centre is the best action; above 1 actions are pulled towards zero
      (`factorax.problems.search_optimum`).
    - `norm`: p of the distance ‖a − c‖ₚ (App. D, "Implications for MDPs", has any p ≥ 1). With 2 the distance is one
      target of all actions, −‖a − c‖₂ / n, and nothing can be factored.
    - `zeta`: ζ, maps the first k actions ``(..., k)`` to ``(...)``; by default their Euclidean norm.
    - `best`: the action that maximises the reward, shape ``(n,)``. Required with a custom `zeta`, otherwise known.
    - `scale`: a factor on all targets instead of 1/n; 1 leaves them as printed in the paper.

    >>> bandit = search_bandit([1.0, -2.0], k=1, penalty=0.5)
    >>> bandit.network.to_dense().astype(int)
    array([[1, 0, 1],
           [0, 1, 0]])
    >>> bandit.targets(np.array([3.0, -2.0]))
    array([-1. , -0. , -1.5])
    >>> search_bandit([3.0, -4.0], norm=2, scale=1.0).targets(np.zeros(2))
    array([-5.])
    """
    c = draw_centre(as_index(centre, "centre", least=1)) if np.ndim(centre) == 0 else _vector(centre, "centre")
    if c.ndim != 1 or not (is_jax_array(c) or np.isfinite(c).all()):
        raise ValueError(f"centre: got shape {c.shape}, want (n,) finite numbers, or the number n")
    n, k = len(c), as_index(k, "k")
    if not 0 <= k <= n:
        raise ValueError(f"k: got {k}, want a number from 0 to n = {n}")
    check_number("penalty", penalty, NotNegative)
    check_number("scale", scale, float | None)
    if isinstance(norm, bool) or norm not in (1, 2):
        raise ValueError(f"norm: got {shown(norm)}, want 1 or 2")
    if zeta is not None:
        check_function("zeta", zeta, "a function of the first k actions")
    if (zeta is None) != (best is None):
        raise ValueError(
            f"best: got {shown(best)}, want the action that maximises the reward, shape ({n},), with a custom zeta, "
            "and None without"
        )
    factor = 1 / n if scale is None else scale
    length = lambda x: array_namespace(x).linalg.vector_norm(x, axis=-1)  # noqa: E731
    penalise = zeta or length

    def targets(action: Any) -> Any:
        xp = array_namespace(action)
        offset = action - xp.asarray(c, dtype=action.dtype)
        distance = -factor * (xp.abs(offset) if norm == 1 else length(offset)[..., None])
        if k == 0:
            return distance
        return xp.concat([distance, -factor * penalise(action[..., :k])[..., None]], axis=-1)

    network = gallery.search_bandit(n, k, norm)
    weights = np.ones(network.shape[1])
    if k:
        weights[-1] = penalty
    best = best_action(c, k=k, penalty=penalty, norm=norm) if best is None else _vector(best, "best")
    return Bandit(network=network, weights=weights, targets=targets, best=best)


def relu_bandit(signs: Any, *, scale: float = 1.0) -> Bandit:
    """Return the bandit of staying on one side of zero: ψᵢ = −max(eᵢ aᵢ, 0) with signs eᵢ = ±1, K = I.

    `signs` has shape ``(n,)``, or is the number n, for signs drawn with seed 0. `scale` multiplies all targets.

    >>> relu_bandit([1, -1]).targets(np.array([3.0, 3.0]))
    array([-3., -0.])
    """
    if np.ndim(signs) == 0:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], as_index(signs, "signs", least=1))
    e = _vector(signs, "signs")
    check_number("scale", scale, float)
    if e.ndim != 1 or not (is_jax_array(e) or np.isin(e, (-1, 1)).all()):
        raise ValueError(f"signs: got {e!r}, want a list of −1 and 1, or the number n")

    def targets(action: Any) -> Any:
        xp = array_namespace(action)
        return -scale * xp.clip(action * xp.asarray(e, dtype=action.dtype), 0.0, None)

    return separable_bandit(targets, -e)


def _vector(x: Any, argument: str) -> Any:
    """Return a NumPy array ``(n,)``, or a JAX array unchanged, since it may be traced."""
    array = x if is_jax_array(x) else real_array(argument, x).astype(np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{argument}: got {shown(x)}, shape {array.shape}, want (n,), one per action")
    return array


def draw_centre(n: int, seed: int | Sequence[int] = 0) -> np.ndarray:
    """Return the centre of a search bandit: n numbers drawn uniformly from (−5, 5)."""
    n = as_index(n, "n", least=1)
    try:
        checked("seed", [seed] if np.ndim(seed) == 0 else seed, tuple[Annotated[int, Range(0)], ...])
    except ValueError:
        raise ValueError(f"seed: got {shown(seed)}, want a whole number ≥ 0, or several") from None
    return np.random.default_rng(seed).uniform(-5, 5, n)
