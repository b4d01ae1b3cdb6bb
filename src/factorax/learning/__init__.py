"""The algorithm: policies, advantages of every target, PPO with a ratio and a credit for every factor. JAX."""

from typing import TYPE_CHECKING

from .._lazy import loaded_when_needed
from .config import Config as Config
from .config import Hyper as Hyper

if TYPE_CHECKING:
    from .adaptive import AdaptiveNetwork as AdaptiveNetwork
    from .advantages import TrainingBatch as TrainingBatch
    from .advantages import gae as gae
    from .factored_ppo import FactoredPPO as FactoredPPO
    from .learner import Learner as Learner
    from .learner import Program as Program
    from .policies import Agent as Agent
    from .ppo import Update as Update
    from .state import TrainState as TrainState

_HOMES = {
    "AdaptiveNetwork": "adaptive",
    "FactoredPPO": "factored_ppo",
    "TrainingBatch": "advantages",
    "gae": "advantages",
    "Learner": "learner",
    "Program": "learner",
    "Agent": "policies",
    "Update": "ppo",
    "TrainState": "state",
}

# Loaded when needed: the command line knows all settings without JAX.
__getattr__, __dir__ = loaded_when_needed(__name__, _HOMES)
