"""Rewards of traffic: delay and standstill, split into one target per street or per light."""

from typing import Any, Literal

import numpy as np

from .grid import EXIT, Grid
from .observations import Readings

STANDSTILL_PENALTY = 0.2
STANDSTILL_SPEED = 0.3
"""Speed at or below which a car stands; 0 is Flow's literal rule, which gives other counts in each SUMO version."""
CARS_PER_STREET = 1.25
"""Average number of cars under an untrained policy, on 3×3 and 2×6 grids."""

Norm = Literal["global", "fixed", "local"]
Kind = Literal["edges", "lights"]


def global_reward(readings: Readings, xp: Any = np) -> Any:
    """Return Flow's reward r = −Σᵥ (1 − v/35) / N − 0.2 · #{v : speed ≤ threshold}, over all N cars in the grid."""
    cars = xp.maximum(readings.cars.sum(axis=-1), 1)
    return -readings.delay.sum(axis=-1) / cars - STANDSTILL_PENALTY * readings.stopped.sum(axis=-1)


def edge_targets(readings: Readings, xp: Any = np, *, fixed: float | None = None) -> Any:
    """Return one target per street, ``(m,)``: ψₑ = −(1/N) Σ_{v on e} (1 − v/35) − 0.2 · #{v on e : v stands}.

    They add up to the global reward. They are coupled by N, which a distant light changes slightly; with `fixed`, a
    constant instead of N, each target depends only on its own street.
    """
    cars = xp.maximum(readings.cars.sum(axis=-1, keepdims=True), 1) if fixed is None else fixed
    return -readings.delay / cars - STANDSTILL_PENALTY * readings.stopped


def light_targets(grid: Grid, psi: Any, xp: Any = np) -> Any:
    """Return one target per light, ``(n,)``, from those of streets: the sum over its approaches and its streets out of
    the grid. Each street belongs to one light, so the total does not change."""
    leads_out = grid.lengths[grid.outgoing] == EXIT
    return psi[..., grid.incoming].sum(axis=-1) + xp.where(leads_out, psi[..., grid.outgoing], 0).sum(axis=-1)


def local_targets(grid: Grid, readings: Readings, xp: Any = np) -> Any:
    """Return minus the mean delay on the eight streets at each light minus 0.2 per standing car, ``(n,)``.

    For comparison only: the targets do not add up to the global reward, so their sum is another objective.
    """
    streets = np.concatenate([grid.incoming, grid.outgoing], axis=1)
    cars, delay, stopped = (
        each[..., streets].sum(axis=-1) for each in (readings.cars, readings.delay, readings.stopped)
    )
    return -delay / xp.maximum(cars, 1) - STANDSTILL_PENALTY * stopped


def usual_cars(grid: Grid) -> float:
    """Return the constant of ``norm="fixed"``: 60 for 3×3, 80 for 2×6."""
    return CARS_PER_STREET * grid.n_edges


def targets(grid: Grid, readings: Readings, xp: Any = np, *, norm: Norm = "global", kind: Kind = "edges") -> Any:
    """Return the targets ψ in one of their forms.

    - `norm`: ``"global"`` divides by the number of cars in the grid, and ψ adds up to `global_reward`; ``"fixed"``
      divides by a constant, so that no target depends on cars elsewhere; ``"local"`` is `local_targets`, one per
      light.
    - `kind`: one target per street, ``(m,)``, or per light, ``(n,)``.
    """
    if norm == "local":
        return local_targets(grid, readings, xp)
    psi = edge_targets(readings, xp, fixed=usual_cars(grid) if norm == "fixed" else None)
    return psi if kind == "edges" else light_targets(grid, psi, xp)
