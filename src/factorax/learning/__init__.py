"""The algorithm: policies, per-target advantages, and PPO with one ratio and credit per factor. Needs JAX."""

from typing import TYPE_CHECKING

from .._lazy import loaded_when_needed
from .config import Config as Config
from .config import Hyper as Hyper

if TYPE_CHECKING:
    from .adaptive import AdaptiveNetwork as AdaptiveNetwork
    from .adaptive_state import AdaptiveStateNetwork as AdaptiveStateNetwork
    from .advantages import TrainingBatch as TrainingBatch
    from .advantages import gae as gae
    from .callbacks import Callback as Callback
    from .callbacks import CallbackList as CallbackList
    from .callbacks import CheckpointCallback as CheckpointCallback
    from .callbacks import EvalCallback as EvalCallback
    from .callbacks import ProgressBarCallback as ProgressBarCallback
    from .callbacks import StopTrainingOnRewardThreshold as StopTrainingOnRewardThreshold
    from .factored_ppo import FactoredPPO as FactoredPPO
    from .hints import ActionScaleWarning as ActionScaleWarning
    from .learner import Learner as Learner
    from .logger import Logger as Logger
    from .logger import configure as configure
    from .named_networks import find_network as find_network
    from .policies import Agent as Agent
    from .ppo import Update as Update
    from .program import Program as Program
    from .state import TrainState as TrainState

_HOMES = {
    "ActionScaleWarning": "hints",
    "AdaptiveNetwork": "adaptive",
    "AdaptiveStateNetwork": "adaptive_state",
    "Callback": "callbacks",
    "CallbackList": "callbacks",
    "CheckpointCallback": "callbacks",
    "EvalCallback": "callbacks",
    "ProgressBarCallback": "callbacks",
    "StopTrainingOnRewardThreshold": "callbacks",
    "FactoredPPO": "factored_ppo",
    "Logger": "logger",
    "configure": "logger",
    "TrainingBatch": "advantages",
    "gae": "advantages",
    "Learner": "learner",
    "Program": "program",
    "find_network": "named_networks",
    "Agent": "policies",
    "Update": "ppo",
    "TrainState": "state",
}

# Loaded lazily: the command line reads all settings without JAX.
__getattr__, __dir__ = loaded_when_needed(__name__, _HOMES)
