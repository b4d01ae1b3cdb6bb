"""Continuum-armed bandits with many actions and known structure (Sec. 5.1 and App. D of the paper).

A bandit has one state, an action in ℝⁿ and a vector of targets, which is a pure function of the action. Its influence
network and its weights λ are attributes. The functions work with NumPy, JAX and PyTorch arrays, with batch axes in
front.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import gymnasium as gym
import numpy as np
from array_api_compat import array_namespace, is_jax_array

from .._checks import NotNegative, Range, check_function, check_number, check_type, checked, real_array
from .._credit import credit
from .._text import shown
from ..structure import InfluenceNetwork, gallery
from ..structure.factorisation import as_index
from ..structure.network import as_network

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
        # By `credit`, the one place that multiplies K, λ and ψ.
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
      (`best_action`).
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
    # A JAX centre stays as it is: it may be traced, and one program then serves many centres.
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
    # The paper prints no 1/n, but its step sizes diverge without it.
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
    # With a ζ of the user, the optimum is not known.
    best = best_action(c, k=k, penalty=penalty, norm=norm) if best is None else _vector(best, "best")
    return Bandit(network=network, weights=weights, targets=targets, best=best)


def best_action(centre: Any, *, k: int, penalty: float, norm: int = 1) -> Any:
    """Return the action that minimises ‖a − c‖ₚ + λ ‖(a₁ … a_k)‖₂ with p = `norm` for any λ ≥ 0, shape ``(n,)``.

    It is the optimum of a search bandit (Sec. 5.1). Up to λ = 1 the centre is optimal; above, the penalty pulls actions
    towards zero.

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
    # A pull of at most 1 cannot outweigh the slope 1 of the distance.
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
    inside = xp.where(j > 0, total[xp.maximum(j - 1, 0)], 0.0)
    excess = penalty**2 - (k - j)
    t = xp.sqrt(inside / xp.where(excess > 0, excess, 1.0))
    return xp.concatenate([xp.clip(first, -t, t) + 0.0, rest])  # adding 0 removes −0


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


class BanditEnv(gym.Env[np.int64, np.ndarray]):
    """A bandit as a Gymnasium environment that works with all standard wrappers and vectorisers.

    - **Observation**: ``Discrete(1)``, always 0: there is one state.
    - **Action**: ``Box`` of shape ``(n,)``, unbounded, in raw units.
    - **Reward**: the scalar Σⱼ λⱼ ψⱼ. The vector ψ is in ``info["vector_reward"]``, and `reward_space` is its space,
      as in MO-Gymnasium. `weights` is λ and `network` the influence network.
    - **End**: every step is terminal.
    """

    metadata: dict[str, Any] = {"render_modes": [], "raw_actions": True}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, bandit: Bandit):
        check_type("bandit", bandit, Bandit, "a Bandit, such as search_bandit(4)")
        m = bandit.network.shape[1]
        self.bandit, self.network, self.weights = bandit, bandit.network, bandit.weights
        self.observation_space = gym.spaces.Discrete(1)
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (bandit.n,), np.float32)
        self.reward_space = gym.spaces.Box(-np.inf, 0.0, (m,), np.float32)
        self.reward_dim = m

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode. Nothing is random: the bandit does not change."""
        super().reset(seed=seed)
        return np.int64(0), {}

    def step(self, action: np.ndarray) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Step the environment with an action."""
        raw_action, action = action, real_array("action", action, finite=False).astype(np.float64)
        if action.shape != (self.bandit.n,):
            raise ValueError(f"action: got {shown(raw_action)}, shape {action.shape}, want ({self.bandit.n},)")
        # In double precision; Gymnasium wants float32 in spaces only.
        psi = self.bandit.targets(action)
        return np.int64(0), float(self.bandit.weights @ psi), True, False, {"vector_reward": psi.astype(np.float32)}


def make_search_bandit(
    n: int = 1000, k: int = 0, penalty: float = 0.0, seed: int = 0, norm: Literal[1, 2] = 1, scale: float | None = None
) -> BanditEnv:
    """Return a search bandit, for ``gymnasium.make("factorax/SearchBandit-v0", n=…, k=…, penalty=…, seed=…)``.

    `seed` draws the centre; the other arguments are as in `search_bandit`.
    """
    return BanditEnv(search_bandit(draw_centre(n, seed), k=k, penalty=penalty, norm=norm, scale=scale))


def make_relu_bandit(n: int = 1000, seed: int = 0) -> BanditEnv:
    """Return a ReLU bandit, for ``gymnasium.make("factorax/ReluBandit-v0", n=…, seed=…)``; `seed` draws the signs."""
    return BanditEnv(relu_bandit(np.random.default_rng(seed).choice([-1.0, 1.0], n)))
