"""What a traffic problem is: its size, its demand, its rewards. Both simulators read it."""

from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from ..._checks import Count, NotNegative, checked
from .grid import Grid
from .influence import influence, travel_times
from .observations import local_observations, observation_size
from .targets import STANDSTILL_SPEED, Kind, Norm, targets

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
    """The benchmark on an R × C grid; the defaults are those of the paper, where Flow's defects are not.

    >>> Traffic(3, 3).observation_space.shape, Traffic(2, 6).observation_space.shape
    ((339,), (452,))
    """

    rows: int = 3
    columns: int = 3
    horizon: int = 400
    """Steps of an episode, a second each; it ends as truncated."""
    period: int = 12
    """Seconds between two cars on a street into the grid: 300 cars per hour."""
    initial: Literal["entries", "everywhere"] = "entries"
    """The first cars stand on the streets into the grid; or between lights, too, so that a large grid is not empty."""
    action: Literal["bits", "gaussian"] = "bits"
    """bits: ``MultiBinary(n)``, 1 asks to switch. gaussian: ``Box(−1, 1)``, a number above 0 does, as in Flow."""
    kind: Kind = "edges"
    """A target for every street, or for every light."""
    norm: Norm = "global"
    """What delays are divided by; see `targets`."""
    standstill: float = STANDSTILL_SPEED
    """Cars at this speed or below stand; 0 is Flow's literal rule."""
    speed_deviation: float = 0.1
    """Standard deviation of the factor by which the first cars exceed the speed limit."""
    flow_inflows: bool = False
    """A defect of Flow: northbound cars enter the first R columns only."""
    flow_order: bool = False
    """A defect of Flow, from eleven lights on: a light sees the cars of another."""
    grid: Grid = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", Grid(self.rows, self.columns))
        for name, kind in _KINDS.items():
            checked(name, getattr(self, name), kind)
        if self.norm == "local" and self.kind != "lights":
            raise ValueError(
                "norm: got 'local' with a target for every street; want kind='lights', one for every light"
            )

    @property
    def observation_space(self) -> gym.spaces.Box:
        """Space of joint observations."""
        return gym.spaces.Box(0.0, 3.0, (observation_size(self.grid),), np.float32)

    @property
    def action_space(self) -> gym.Space:
        """One component for every light."""
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

    def influence(self, preset: Any = "incident", **options: Any) -> Any:
        """Return a network of `factorax.problems.traffic.influence`, for the targets of this problem; or by lag,
        ``"travel"``, that of `travel_times`."""
        if preset == "travel":
            return travel_times(self.grid, kind=self.kind)
        return influence(self.grid, preset, kind=self.kind, **options)

    def targets(self, readings: Any, xp: Any = np) -> Any:
        """Return ψ in the form that was asked for."""
        return targets(self.grid, readings, xp, norm=self.norm, kind=self.kind)

    def local(self, obs: Any) -> Any:
        """Return what every light sees, ``(..., n, 42)``, from joint observations."""
        return local_observations(self.grid, obs, by_name=self.flow_order)

    @property
    def inflows(self) -> np.ndarray:
        """Which routes cars enter during the episode, booleans ``(L,)``."""
        enters = np.ones(self.grid.n_routes, bool)
        if self.flow_inflows:
            enters[2 * self.rows : 2 * self.columns : 2] = False
        return enters
