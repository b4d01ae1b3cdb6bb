"""Grids of traffic lights: the paper's large problem, in SUMO and in an equivalent JAX simulator; and real cities."""

from factorax._lazy import lazy_imports

# Loaded lazily: plug-ins are registered when a command prints its help, and workers that step SUMO do not need JAX.
with lazy_imports(__name__):
    from .episode import play as play
    from .episode import play_in_sumo as play_in_sumo
    from .grid import Grid as Grid
    from .lane_problem import LaneProblem as LaneProblem
    from .lane_problem import lanes as lanes
    from .lane_simulator import LaneSimulator as LaneSimulator
    from .networks import influence as influence
    from .networks import travel_times as travel_times
    from .observations import Readings as Readings
    from .observations import local_observations as local_observations
    from .observations import observe as observe
    from .observations import stop_line_detectors as stop_line_detectors
    from .settings import Traffic as Traffic
    from .signals import Signals as Signals
    from .signals import switch as switch
