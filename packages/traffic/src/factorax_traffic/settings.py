"""The settings of a traffic problem: size, demand and rewards. Both simulators use them."""

from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from factorax._checks import Count, NotNegative, checked

from .grid import Grid
from .networks import influence, travel_times
from .observations import LocalObservations, observation_size
from .targets import STANDSTILL_SPEED, Kind, Norm, targets

VALUES = {"n-level": "n", "decay": "alpha"}
"""Presets of networks whose name may have a value, with the argument of `influence` that it is."""
_KINDS = {
    "horizon": Count,
    "period": Count,
    "initial": Literal["entries", "everywhere"],
    "action": Literal["bits", "gaussian"],
    "kind": Kind,
    "norm": Norm,
    "standstill": NotNegative,
    "speed_deviation": NotNegative,
    "flow_inflows": bool,
    "flow_order": bool,
}


@dataclass(frozen=True)
class Traffic:
    """The benchmark on an R × C grid; the defaults are those of the paper, without Flow's defects.

    >>> Traffic(3, 3).observation_space.shape, Traffic(2, 6).observation_space.shape
    ((339,), (452,))
    """

    rows: int = 3
    columns: int = 3
    horizon: int = 400
    """Number of steps of an episode, one second each; it ends as truncated."""
    period: int = 12
    """Seconds between cars on each street into the grid: 300 cars per hour."""
    initial: Literal["entries", "everywhere"] = "entries"
    """Where the first cars stand: on streets into the grid, or also between lights, so that a large grid is not
    empty."""
    action: Literal["bits", "gaussian"] = "bits"
    """bits: ``MultiBinary(n)``, where 1 requests a switch. gaussian: ``Box(−1, 1)``, where a number above 0 does, as in
    Flow."""
    kind: Kind = "edges"
    """Whether there is one target per street or per light."""
    norm: Norm = "global"
    """Divisor of the delays; see `targets`."""
    standstill: float = STANDSTILL_SPEED
    """Speed at or below which a car counts as standing; 0 is Flow's literal rule."""
    speed_deviation: float = 0.1
    """Standard deviation of the factor by which the first cars exceed the speed limit."""
    flow_inflows: bool = False
    """Reproduce a defect of Flow: northbound cars enter only the first R columns."""
    flow_order: bool = False
    """Reproduce a defect of Flow, from eleven lights on: a light observes the cars of another."""
    grid: Grid = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", Grid(self.rows, self.columns))
        for name, kind in _KINDS.items():
            checked(name, getattr(self, name), kind)
        if self.norm == "local" and self.kind != "lights":
            raise ValueError("norm: got 'local' with one target per street; want kind='lights', one per light")

    @property
    def observation_space(self) -> gym.spaces.Box:
        """Space of joint observations."""
        return gym.spaces.Box(0.0, 3.0, (observation_size(self.grid),), np.float32)

    @property
    def action_space(self) -> gym.Space:
        """Action space, with one component per light."""
        n = self.grid.n_lights
        return gym.spaces.MultiBinary(n) if self.action == "bits" else gym.spaces.Box(-1.0, 1.0, (n,), np.float32)

    @property
    def n_targets(self) -> int:
        """Number of targets: m for streets, n for lights."""
        return self.grid.n_edges if self.kind == "edges" else self.grid.n_lights

    @property
    def weights(self) -> np.ndarray:
        """λ, all ones."""
        return np.ones(self.n_targets)

    def influence(self, preset: Any = "incident", value: Any = None, **options: Any) -> Any:
        """Return a network of `factorax_traffic.influence` for the targets of this problem.

        - `preset`: also ``"travel"``, the network by lag of `travel_times`, and ``"n-level-all-rows"``, which is
          ``"n-level"`` with windows that span all rows.
        - `value`: n of ``"n-level"``, or α of ``"decay"``, as in the names ``n-level:2`` and ``decay:0.5``.
        """
        if preset == "n-level-all-rows":
            preset, options = "n-level", options | {"rows": "both"}
        if value is not None:
            if preset not in VALUES:
                raise ValueError(f"network: got '{preset}:{value}', want a number only after n-level: or decay:")
            options = options | {VALUES[preset]: value}
        if preset == "travel":
            return travel_times(self.grid, kind=self.kind)
        return influence(self.grid, preset, kind=self.kind, **options)

    def targets(self, readings: Any, xp: Any = np) -> Any:
        """Return the targets ψ with this norm and kind."""
        return targets(self.grid, readings, xp, norm=self.norm, kind=self.kind)

    @property
    def local(self) -> LocalObservations:
        """Function that returns the local observation of each light, ``(..., n, 42)``, from joint observations."""
        return LocalObservations(self.grid, self.flow_order)

    @property
    def inflows(self) -> np.ndarray:
        """Which routes cars enter during the episode, booleans ``(L,)``."""
        enters = np.ones(self.grid.n_routes, bool)
        if self.flow_inflows:
            enters[2 * self.rows : 2 * self.columns : 2] = False
        return enters
