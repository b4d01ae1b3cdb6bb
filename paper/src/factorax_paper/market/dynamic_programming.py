"""Optimal quotes for the discrete steps of the simulator, by exact dynamic programming.

With g(q′) the future earnings after a step that ends with inventory q′, minus the penalties of the step, and p the
probability of a fill,

    h(q) = max_δ  Σ_sides p(δ) δ + E[g(q′)],    p(δ) = 1 − exp(−x),  x = A Δ exp(−k δ).

Given all other quotes, the contribution of a quote is p(δ)(δ + D), where D is the change of E[g] by its fill. It has
one maximum, at δ + D = (eˣ − 1)/(k x); as Δ → 0 this becomes δ = 1/k − D, the quote in continuous time. Quotes are
improved in turn until none changes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from factorax._checks import Whole, check_type, checked, real_array

from .model import MarketModel

LARGEST_TABLE = 20_000
"""Maximum number of combinations of inventories for `optimum`."""
_SWEEPS = 200
_TOLERANCE = 1e-11


@dataclass(frozen=True, eq=False)
class Table:
    """Values and quotes of some assets for each step and each combination of their inventories."""

    assets: tuple[int, ...]
    values: np.ndarray
    """Future earnings before each step and after the last one, ``(horizon + 1, 2Q + 1, …)``."""
    quotes: np.ndarray
    """Distances of bid and ask, ``(horizon, 2Q + 1, …, assets, 2)``."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """The optimal policy of a dealer, in tables for groups of assets without a common penalty."""

    model: MarketModel
    tables: tuple[Table, ...]

    @cached_property
    def value(self) -> float:
        """Expected sum of all targets in an episode that starts without inventory."""
        return sum(float(table.values[0][(self.model.largest_inventory,) * len(table.assets)]) for table in self.tables)

    def rule(self, time: Any, inventory: Any) -> Any:
        """Return the optimal quotes ``(n, 2)`` for a step and inventories ``(n,)``, as JAX arrays: a rule for
        `play`."""
        import jax.numpy as jnp

        if len(self.tables) == 1:
            index = tuple(inventory + self.model.largest_inventory)
            return jnp.asarray(self.tables[0].quotes)[(time, *index)]
        quotes = jnp.asarray(self._stacked)[:, time]
        return quotes[jnp.arange(self.model.n), inventory + self.model.largest_inventory]

    @cached_property
    def _stacked(self) -> np.ndarray:
        """Quotes of all assets, ``(n, horizon, 2Q + 1, 2)``."""
        return np.stack([table.quotes[..., 0, :] for table in self.tables])


def optimum(model: MarketModel) -> Optimum:
    """Return the optimal quotes and their value, exact for the steps of the problem and the bounds of its quotes.

    Assets that are not coupled by a penalty are solved one by one. Coupled assets need a table of all their inventories
    together, (2Q + 1)ⁿ entries; `closed_form_quotes` approximates the quotes of many assets.

    >>> from factorax_paper.market import MarketModel
    >>> round(optimum(MarketModel()).value, 3)
    11.332
    """
    check_type("model", model, MarketModel, "a MarketModel, as `market(3).model`")
    if not model.is_independent:
        size = len(model.inventories) ** model.n
        if size > LARGEST_TABLE:
            raise ValueError(
                f"model: has {size:,} combinations of inventories coupled by a portfolio term, want at most "
                f"{LARGEST_TABLE:,}; `closed_form_quotes` approximates the optimal quotes"
            )
        return Optimum(model, (_solve(model, range(model.n)),))
    tables: dict[tuple[float, ...], Table] = {}
    of_each = []
    for i in range(model.n):
        same = (model.intensity[i], model.decay[i], model.penalty[i, i], model.terminal_penalty[i])
        table = tables.setdefault(same, tables.get(same) or _solve(model, [i]))
        of_each.append(Table((i,), table.values, table.quotes))
    return Optimum(model, tuple(of_each))


def value_of_quotes(model: MarketModel, quotes: Any, *, asset: int = 0) -> float:
    """Return the exact value of quotes that depend on the step and the asset's own inventory, ``(horizon, 2Q + 1, 2)``.

    Only for assets that are not coupled to others by a penalty.

    >>> model = MarketModel()
    >>> best = optimum(model)
    >>> bool(np.isclose(value_of_quotes(model, best.tables[0].quotes[..., 0, :]), best.value))
    True
    >>> round(value_of_quotes(model, np.full((50, 11, 2), 1.5)) / best.value, 3)  # the best constant quotes
    0.675
    """
    check_type("model", model, MarketModel, "a MarketModel, as `market(3).model`")
    if not model.is_independent:
        raise ValueError("model: its portfolio term couples the assets; want risk_aversion 0")
    if checked("asset", asset, Whole) >= model.n:
        raise ValueError(f"asset: got {asset}, want a number from 0 to {model.n - 1}")
    quotes = real_array("quotes", quotes).astype(float)
    want = (model.horizon, len(model.inventories), 2)
    if quotes.shape != want:
        raise ValueError(f"quotes: got shape {quotes.shape}, want {want}: step, inventory, and bid or ask")
    table = _solve(model, [asset], lambda t: quotes[t][:, None, :])
    return float(table.values[0][model.largest_inventory])


def _solve(model: MarketModel, assets: Sequence[int], fixed: Callable[[int], np.ndarray] | None = None) -> Table:
    """Return the table of some assets by backward induction, for the optimal quotes or for `fixed` ones ``(…,
    assets, 2)``."""
    assets = tuple(assets)
    grid = np.stack(np.meshgrid(*[model.inventories] * len(assets), indexing="ij"), axis=-1).astype(float)
    running = np.einsum("...i,ij,...j", grid, model.penalty[np.ix_(assets, assets)], grid) * model.step
    values = [-(grid**2) @ model.terminal_penalty[list(assets)]]
    quotes = []
    distance = np.full((*grid.shape, 2), 0.5 * (model.lowest_quote + model.highest_quote))
    for t in reversed(range(model.horizon)):
        step = _Stage(model, assets, grid, values[-1] - running)
        distance = step.best(distance) if fixed is None else fixed(t)
        quotes.append(distance)
        values.append(step.value(distance))
    return Table(assets, np.stack(values[::-1]), np.stack(quotes[::-1]))


class _Stage:
    """One step, with the future earnings after it."""

    def __init__(self, model: MarketModel, assets: tuple[int, ...], grid: np.ndarray, after: np.ndarray):
        self.model, self.assets, self.after = model, assets, after
        self.rate = model.intensity[list(assets)] * model.step
        self.decay = model.decay[list(assets)]
        largest = model.largest_inventory
        self.may_fill = np.stack([grid < largest, grid > -largest], axis=-1)
        padded = np.pad(after, 1, mode="edge")  # the padding is never reached
        self.moved = {
            shift: padded[tuple(slice(1 + d, 1 + d + after.shape[i]) for i, d in enumerate(shift))]
            for shift in product((-1, 0, 1), repeat=len(assets))
        }

    def probability(self, distance: np.ndarray) -> np.ndarray:
        """Return the probability of a fill, in the same shape ``(…, assets, 2)``."""
        return -np.expm1(-self.rate[:, None] * np.exp(-self.decay[:, None] * distance)) * self.may_fill

    def after_moves_of(self, asset: int, p: np.ndarray) -> dict[int, np.ndarray]:
        """Return the expected future earnings over the moves of the other assets, for each move of one."""
        weights = _moves(p)
        total = {move: np.zeros_like(self.after) for move in (-1, 0, 1)}
        for shift, after in self.moved.items():
            others = [weights[d][..., j] for j, d in enumerate(shift) if j != asset]
            total[shift[asset]] = total[shift[asset]] + after * np.prod(others, axis=0)
        return total

    def value(self, distance: np.ndarray) -> np.ndarray:
        """Return the earnings of quotes in this step plus the expected future earnings."""
        p = self.probability(distance)
        weights, after = _moves(p), self.after_moves_of(0, p)
        earned = np.where(p > 0, p * distance, 0.0).sum(axis=(-1, -2))
        return earned + sum(weights[move][..., 0] * after[move] for move in (-1, 0, 1))

    def best(self, distance: np.ndarray) -> np.ndarray:
        """Return quotes that no single change can improve, starting from `distance`."""
        for _ in range(_SWEEPS):
            before = distance.copy()
            for i in range(len(self.assets)):
                after = self.after_moves_of(i, self.probability(distance))
                for side, move in ((0, 1), (1, -1)):
                    other = self.probability(distance)[..., i, 1 - side]
                    change = (1 - other) * (after[move] - after[0]) + other * (after[0] - after[-move])
                    distance = distance.copy()
                    distance[..., i, side] = self.best_distance(i, change, distance[..., i, side])
            if np.abs(distance - before).max() < _TOLERANCE:
                break
        return distance

    def best_distance(self, asset: int, change: np.ndarray, distance: np.ndarray) -> np.ndarray:
        """Return the δ within its bounds that maximises p(δ)(δ + D), by Newton's method on a concave increasing
        function."""
        k, low, high = self.decay[asset], self.model.lowest_quote, self.model.highest_quote
        for _ in range(100):
            x = self.rate[asset] * np.exp(-k * distance)
            ratio = np.expm1(x) / x
            excess, slope = distance + change - ratio / k, 1 + np.exp(x) - ratio
            new = np.clip(distance - excess / slope, low, high)
            done = np.abs(new - distance).max() < _TOLERANCE / 10
            distance = new
            if done:
                break
        return distance


def _moves(p: np.ndarray) -> dict[int, np.ndarray]:
    """Return the probabilities that the inventory of an asset falls, stays and rises, each ``(…, assets)``.

    `p` are the probabilities of fills.
    """
    bid, ask = p[..., 0], p[..., 1]
    return {-1: ask * (1 - bid), 0: bid * ask + (1 - bid) * (1 - ask), 1: bid * (1 - ask)}
