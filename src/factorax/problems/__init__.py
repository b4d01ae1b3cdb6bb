"""Problems to train on: bandits of known structure, small problems, and the registry of families."""

from typing import TYPE_CHECKING

import gymnasium as gym

from .._lazy import loaded_when_needed
from .failures import EpisodeLost as EpisodeLost

if TYPE_CHECKING:
    from .bandits import Bandit as Bandit
    from .bandits import draw_centre as draw_centre
    from .bandits import relu_bandit as relu_bandit
    from .bandits import search_bandit as search_bandit
    from .bandits import separable_bandit as separable_bandit
    from .gymnasium_bandits import BanditEnv as BanditEnv
    from .problem import Problem as Problem
    from .problem import Step as Step
    from .registry import find_problem as find_problem
    from .registry import register as register
    from .toy_problems import chain as chain
    from .toy_problems import contextual_bandit as contextual_bandit
    from .toy_problems import queues as queues

_HOMES = {
    "Bandit": "bandits",
    "draw_centre": "bandits",
    "relu_bandit": "bandits",
    "search_bandit": "bandits",
    "separable_bandit": "bandits",
    "BanditEnv": "gymnasium_bandits",
    "Problem": "problem",
    "Step": "problem",
    "find_problem": "registry",
    "register": "registry",
    "chain": "toy_problems",
    "contextual_bandit": "toy_problems",
    "queues": "toy_problems",
}

# Loaded lazily: a worker that steps a Gymnasium environment does not need JAX.
__getattr__, __dir__ = loaded_when_needed(__name__, _HOMES)


for _name, _made_by in (
    ("SearchBandit", "gymnasium_bandits:make_search_bandit"),
    ("ReluBandit", "gymnasium_bandits:make_relu_bandit"),
):
    if f"factorax/{_name}-v0" not in gym.registry:
        gym.register(f"factorax/{_name}-v0", f"{__name__}.{_made_by}")
