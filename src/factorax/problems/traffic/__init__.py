"""Grids of traffic lights: the paper's large problem, in SUMO and as an exact JAX twin of it."""

import gymnasium as gym

from .grid import Grid as Grid
from .influence import influence as influence
from .lane_problem import LaneProblem as LaneProblem
from .lane_problem import lanes as lanes
from .lane_simulator import LaneSimulator as LaneSimulator
from .observations import Readings as Readings
from .observations import local_observations as local_observations
from .observations import observe as observe
from .playing import play as play
from .playing import play_in_sumo as play_in_sumo
from .settings import Traffic as Traffic
from .signals import Signals as Signals
from .signals import switch as switch

if "factorax/Traffic-v0" not in gym.registry:
    gym.register("factorax/Traffic-v0", f"{__name__}.sumo:make_traffic")  # SUMO is needed when one is made
