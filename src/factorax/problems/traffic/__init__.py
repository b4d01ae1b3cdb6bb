"""Grids of traffic lights: the paper's large problem, in SUMO and in an equivalent JAX simulator."""

from typing import TYPE_CHECKING

from ..._lazy import loaded_when_needed
from .grid import Grid as Grid
from .influence import influence as influence
from .influence import travel_times as travel_times
from .observations import Readings as Readings
from .observations import local_observations as local_observations
from .observations import observe as observe
from .observations import stop_line_detectors as stop_line_detectors
from .settings import Traffic as Traffic
from .signals import Signals as Signals
from .signals import switch as switch

if TYPE_CHECKING:
    from .episode import play as play
    from .episode import play_in_sumo as play_in_sumo
    from .lane_problem import LaneProblem as LaneProblem
    from .lane_problem import lanes as lanes
    from .lane_simulator import LaneSimulator as LaneSimulator

_HOMES = {
    "LaneProblem": "lane_problem",
    "lanes": "lane_problem",
    "LaneSimulator": "lane_simulator",
    "play": "episode",
    "play_in_sumo": "episode",
}

# Loaded lazily: workers that step SUMO do not need JAX.
__getattr__, __dir__ = loaded_when_needed(__name__, _HOMES)
