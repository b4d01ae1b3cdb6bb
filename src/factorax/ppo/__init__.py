"""The algorithm: policies, per-target advantages, and PPO with one ratio and credit per factor. Needs JAX."""

from .._lazy import lazy_imports

# Loaded lazily: the command line reads all settings without JAX.
with lazy_imports(__name__):
    from ..networks.policies import Agent as Agent
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
    from .config import Config as Config
    from .config import Hyper as Hyper
    from .hints import ActionScaleWarning as ActionScaleWarning
    from .learner import Learner as Learner
    from .logger import Logger as Logger
    from .logger import configure as configure
    from .model import FactoredPPO as FactoredPPO
    from .named_networks import find_network as find_network
    from .program import Program as Program
    from .state import TrainState as TrainState
    from .update import Update as Update
