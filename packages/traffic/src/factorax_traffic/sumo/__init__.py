"""The benchmark in SUMO; needs ``pip install 'factorax[sumo]'``."""

from .env import TrafficEnv as TrafficEnv
from .env import make_traffic as make_traffic
from .own import OwnTrafficEnv as OwnTrafficEnv
from .simulation import SecondSimulation as SecondSimulation
from .simulation import Simulation as Simulation
from .simulation import version as version
