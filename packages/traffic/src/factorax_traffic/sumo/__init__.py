"""The benchmark in SUMO; needs ``pip install 'factorax-traffic[sumo]'``."""

import gymnasium as gym

from factorax._lazy import lazy_imports

with lazy_imports(__name__):
    from .env import TrafficEnv as TrafficEnv
    from .env import make_traffic as make_traffic
    from .simulation import SecondSimulation as SecondSimulation
    from .simulation import Simulation as Simulation
    from .simulation import version as version

if "factorax/Traffic-v0" not in gym.registry:  # gym.make("factorax_traffic.sumo:factorax/Traffic-v0")
    gym.register("factorax/Traffic-v0", f"{__name__}:make_traffic")
