"""Learning with factor baselines: policies, critics, advantages by target, PPO. JAX."""

from typing import TYPE_CHECKING

from .._lazy import loaded_when_needed
from .config import Config as Config
from .config import Hyper as Hyper

if TYPE_CHECKING:
    from .actions import ActionSpace as ActionSpace
    from .adaptive import AdaptiveNetwork as AdaptiveNetwork
    from .advantages import gae as gae
    from .checking import ProblemError as ProblemError
    from .checking import check_problem as check_problem
    from .factored_ppo import FactoredPPO as FactoredPPO
    from .learner import Learner as Learner
    from .ppo import Agent as Agent
    from .ppo import Batch as Batch
    from .ppo import Update as Update
    from .state import TrainState as TrainState

_HOMES = {
    "ActionSpace": "actions",
    "AdaptiveNetwork": "adaptive",
    "gae": "advantages",
    "FactoredPPO": "factored_ppo",
    "ProblemError": "checking",
    "check_problem": "checking",
    "Learner": "learner",
    "Agent": "ppo",
    "Batch": "ppo",
    "Update": "ppo",
    "TrainState": "state",
}

# Loaded when needed: the command line knows all settings without JAX.
__getattr__ = loaded_when_needed(__name__, _HOMES)
