"""Rewards of traffic: delay and standstill, taken apart into one target for every street or every light."""

from typing import Any, Literal

import numpy as np

from .grid import EXIT, Grid
from .observations import Readings

STANDSTILL_PENALTY = 0.2
STANDSTILL_SPEED = 0.3
"""Cars at this speed or below stand; 0 is Flow's literal rule, which counts otherwise in every version of SUMO."""
CARS_PER_STREET = 1.25
"""How many there are on average under a policy that has learnt nothing, on 3×3 and 2×6 grids."""

Norm = Literal["global", "fixed", "local"]
Kind = Literal["edges", "lights"]


def global_reward(readings: Readings, xp: Any = np) -> Any:
    """Flow's reward: r = −Σᵥ (1 − v/35) / N − 0.2 · #{v : speed ≤ threshold}, over all N cars in the grid."""
    cars = xp.maximum(readings.cars.sum(axis=-1), 1)
    return -readings.delay.sum(axis=-1) / cars - STANDSTILL_PENALTY * readings.stopped.sum(axis=-1)


def edge_targets(readings: Readings, xp: Any = np, *, fixed: float | None = None) -> Any:
    """Return one target for every street, ``(m,)``: ψₑ = −(1/N) Σ_{v on e} (1 − v/35) − 0.2 · #{v on e : v stands}.

    They add up to the global reward. N couples them, for a light far away changes it a little; `fixed`, a constant in
    its place, makes every target a matter of its own street.
    """
    cars = xp.maximum(readings.cars.sum(axis=-1, keepdims=True), 1) if fixed is None else fixed
    return -readings.delay / cars - STANDSTILL_PENALTY * readings.stopped


def light_targets(grid: Grid, psi: Any, xp: Any = np) -> Any:
    """Return one target for every light, ``(n,)``, from those of streets: the sum over its approaches and the streets
    that lead from it out of the grid. Every street belongs to one light, so that the sum stays the same."""
    leads_out = grid.lengths[grid.outgoing] == EXIT
    return psi[..., grid.incoming].sum(axis=-1) + xp.where(leads_out, psi[..., grid.outgoing], 0).sum(axis=-1)


def local_targets(grid: Grid, readings: Readings, xp: Any = np) -> Any:
    """For comparison only: minus the mean delay of the cars on the eight streets at a light, minus 0.2 for each of them
    that stands, ``(n,)``. It is no part of the global reward: the sum is another objective."""
    streets = np.concatenate([grid.incoming, grid.outgoing], axis=1)
    cars, delay, stopped = (
        each[..., streets].sum(axis=-1) for each in (readings.cars, readings.delay, readings.stopped)
    )
    return -delay / xp.maximum(cars, 1) - STANDSTILL_PENALTY * stopped


def usual_cars(grid: Grid) -> float:
    """Return the constant of ``norm="fixed"``: 60 for 3×3, 80 for 2×6."""
    return CARS_PER_STREET * grid.n_edges


def targets(grid: Grid, readings: Readings, xp: Any = np, *, norm: Norm = "global", kind: Kind = "edges") -> Any:
    """Return ψ in one of its forms.

    - `norm`: ``"global"`` divides by the cars in the grid, and ψ adds up to `global_reward`; ``"fixed"`` by a constant,
      so that no target depends on cars elsewhere; ``"local"`` is `local_targets`, one for every light.
    - `kind`: a target for every street, ``(m,)``, or for every light, ``(n,)``.
    """
    if norm == "local":
        return local_targets(grid, readings, xp)
    psi = edge_targets(readings, xp, fixed=usual_cars(grid) if norm == "fixed" else None)
    return psi if kind == "edges" else light_targets(grid, psi, xp)
