"""Problems to train on: bandits of known structure, small problems, and the registry of families."""

import gymnasium as gym

from .._lazy import lazy_imports

# Loaded lazily: a worker that steps a Gymnasium environment does not need JAX.
with lazy_imports(__name__):
    from .bandits import Bandit as Bandit
    from .bandits import BanditEnv as BanditEnv
    from .bandits import draw_centre as draw_centre
    from .bandits import relu_bandit as relu_bandit
    from .bandits import search_bandit as search_bandit
    from .bandits import separable_bandit as separable_bandit
    from .failures import EpisodeLost as EpisodeLost
    from .problem import Problem as Problem
    from .problem import Step as Step
    from .registry import find_problem as find_problem
    from .registry import register as register
    from .toy_problems import chain as chain
    from .toy_problems import contextual_bandit as contextual_bandit
    from .toy_problems import queues as queues


for _name, _made_by in (
    ("SearchBandit", "bandits:make_search_bandit"),
    ("ReluBandit", "bandits:make_relu_bandit"),
):
    if f"factorax/{_name}-v0" not in gym.registry:
        gym.register(f"factorax/{_name}-v0", f"{__name__}.{_made_by}")
