"""What to train on: bandits of known structure, small problems, and grids of traffic lights."""

from . import traffic as traffic
from .bandits import Bandit as Bandit
from .bandits import draw_centre as draw_centre
from .bandits import relu_bandit as relu_bandit
from .bandits import search_bandit as search_bandit
from .bandits import separable_bandit as separable_bandit
from .gymnasium_bandits import BanditEnv as BanditEnv
from .gymnasium_bandits import register
from .problem import Problem as Problem
from .problem import Step as Step
from .small import chain as chain
from .small import contextual_bandit as contextual_bandit
from .small import queues as queues

register()
