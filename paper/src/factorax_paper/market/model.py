"""The parameters of a market in which one dealer quotes, checked and converted to arrays with one entry per asset."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from factorax._checks import Count, NotNegative, Positive, check_each, checked, real_array
from factorax._text import shown

_VOLATILITY = 0.5
_TOLERANCE = 1e-6
"""How far below zero the smallest eigenvalue of a covariance may be, relative to the largest."""


@dataclass(frozen=True, eq=False)
class MarketModel:
    """Parameters of the model of Avellaneda and Stoikov (2008) for n assets; all but the last five may vary by asset.

    A quote at distance δ from the mid price is filled with intensity Λᵢ(δ) = Aᵢ exp(−kᵢ δ). Mid prices are Brownian
    motions with covariance Σ. The dealer holds the inventory q, and

        maximises  E[ wealth at T − ∫ (Σᵢ φᵢ qᵢ² + ½ γ qᵀΣq) dt − Σᵢ αᵢ qᵢ(T)² ].

    >>> model = MarketModel(2, volatility=[0.2, 0.3], correlation=0.5)
    >>> model.covariance.round(3).tolist(), model.is_independent
    ([[0.04, 0.03], [0.03, 0.09]], True)
    """

    n: int = 1
    """Number of assets."""
    intensity: Any = 2.0
    """A: fills per unit of time of a quote at the mid price, on each side."""
    decay: Any = 1.0
    """k: a quote that is 1/k more distant is filled e times less often."""
    volatility: Any = None
    """σ of the mid price per unit of time; 0.5 if neither it nor `covariance` is given."""
    running_penalty: Any = 0.1
    """φ, per unit of squared inventory and of time."""
    terminal_penalty: Any = 0.2
    """α, per unit of squared inventory at the end."""
    correlation: float = 0.0
    """Correlation of the mid prices of any two assets."""
    covariance: Any = None
    """Σ of the mid prices, ``(n, n)``, instead of `volatility` and `correlation`."""
    risk_aversion: float = 0.0
    """γ, the weight of the portfolio's variance; there is no such target if it is 0."""
    largest_inventory: int = 5
    """Q: a dealer with Q units of an asset buys no more of it, and with −Q sells no more."""
    lowest_quote: float = -1.0
    highest_quote: float = 4.0
    """Bounds of the distances δ. A negative distance is a price beyond the mid price."""
    step: float = 0.2
    """Length of a step, in units of time."""
    horizon: int = 50
    """Steps in an episode."""
    _per_asset: tuple[str, ...] = field(
        default=("intensity", "decay", "running_penalty", "terminal_penalty"), init=False, repr=False
    )

    def __post_init__(self) -> None:
        check_each(dict.fromkeys(("n", "largest_inventory", "horizon"), Count), n=self.n,
                   largest_inventory=self.largest_inventory, horizon=self.horizon)  # fmt: skip
        check_each({"step": Positive, "risk_aversion": NotNegative}, step=self.step, risk_aversion=self.risk_aversion)
        for name in self._per_asset:
            self._set(name, self._of_each_asset(name, getattr(self, name), positive=name in ("intensity", "decay")))
        self._set("covariance", self._checked_covariance())
        self._set("volatility", np.sqrt(np.diag(self.covariance)))
        for name in ("lowest_quote", "highest_quote"):
            checked(name, getattr(self, name), float)
        if not self.lowest_quote < self.highest_quote:
            raise ValueError(
                f"lowest_quote, highest_quote: got {self.lowest_quote} and {self.highest_quote}, want the lowest below "
                "the highest"
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _of_each_asset(self, name: str, value: Any, *, positive: bool) -> np.ndarray:
        """Return one number for all assets, or one per asset, as an array ``(n,)``."""
        array = real_array(name, value).astype(float) if np.ndim(value) else np.array(checked(name, value, float))
        if array.shape not in ((), (self.n,)):
            raise ValueError(f"{name}: got {shown(value)}, want a number, or {self.n}, one per asset")
        if (array <= 0).any() if positive else (array < 0).any():
            want = "numbers above 0" if positive else "numbers ≥ 0"
            raise ValueError(f"{name}: got {shown(value)}, want {want}")
        return np.broadcast_to(array, (self.n,)).copy()

    def _checked_covariance(self) -> np.ndarray:
        rho = checked("correlation", self.correlation, float)
        if self.covariance is None:
            volatility = _VOLATILITY if self.volatility is None else self.volatility
            volatility = self._of_each_asset("volatility", volatility, positive=False)
            lowest = -1 / max(self.n - 1, 1)
            if not lowest <= rho <= 1:
                raise ValueError(
                    f"correlation: got {rho}, want a number from {lowest:.3g} to 1, the range for {self.n} assets"
                )
            return np.outer(volatility, volatility) * (rho + (1 - rho) * np.eye(self.n))
        if self.volatility is not None or rho != 0:
            raise ValueError(
                f"covariance: got {shown(self.covariance)} together with volatility or correlation; want either "
                "covariance or these two"
            )
        matrix = real_array("covariance", self.covariance).astype(float)
        if matrix.shape != (self.n, self.n):
            raise ValueError(
                f"covariance: got {shown(self.covariance)} of shape {matrix.shape}, want ({self.n}, {self.n}), one row "
                "per asset"
            )
        if not np.allclose(matrix, matrix.T, rtol=_TOLERANCE, atol=0):
            raise ValueError(f"covariance: got {shown(self.covariance)}, want a symmetric matrix")
        eigenvalues = np.linalg.eigvalsh(matrix)
        if eigenvalues[0] < -_TOLERANCE * max(eigenvalues[-1], 1e-300):
            raise ValueError(
                f"covariance: got {shown(self.covariance)}, with the smallest eigenvalue {eigenvalues[0]:.3g}; want a "
                "positive semi-definite matrix"
            )
        return matrix

    @property
    def has_portfolio_term(self) -> bool:
        """Whether the variance of the portfolio is a target."""
        return self.risk_aversion > 0

    @cached_property
    def is_independent(self) -> bool:
        """Whether no penalty couples the assets, so that the optimal quotes of each depend only on its own inventory.

        Correlated prices alone do not couple them: the dealer cannot predict prices, and their changes have mean zero.
        """
        off_diagonal = self.covariance - np.diag(np.diag(self.covariance))
        return self.risk_aversion == 0 or not off_diagonal.any()

    @cached_property
    def penalty(self) -> np.ndarray:
        """R ``(n, n)`` of the running penalty qᵀRq per unit of time: diag(φ) + ½ γ Σ."""
        return np.diag(self.running_penalty) + self.risk_aversion * self.covariance / 2

    @property
    def duration(self) -> float:
        """T, the length of an episode in units of time."""
        return self.step * self.horizon

    @property
    def inventories(self) -> np.ndarray:
        """−Q, …, Q, the possible inventories of an asset, ``(2Q + 1,)``."""
        return np.arange(-self.largest_inventory, self.largest_inventory + 1)
