"""The algorithm: policies, per-target advantages, and PPO with one ratio and credit per factor. Needs JAX."""

from .._lazy import lazy_imports

# Loaded lazily: the command line reads all settings without JAX.
with lazy_imports(__name__):
    from ..networks.policies import Agent as Agent
    from .adaptive import AdaptiveNetwork as AdaptiveNetwork
    from .adaptive_state import AdaptiveStateNetwork as AdaptiveStateNetwork
    from .callbacks import Callback as Callback
    from .callbacks import CallbackList as CallbackList
    from .callbacks import CheckpointCallback as CheckpointCallback
    from .callbacks import EvalCallback as EvalCallback
    from .callbacks import ProgressBarCallback as ProgressBarCallback
    from .callbacks import StopTrainingOnRewardThreshold as StopTrainingOnRewardThreshold
    from .compiled import Compiled as Compiled
    from .config import Config as Config
    from .config import Hyper as Hyper
    from .credits import Factor as Factor
    from .credits import NoCritic as NoCritic
    from .credits import Rollout as Rollout
    from .credits import Target as Target
    from .hints import ActionScaleWarning as ActionScaleWarning
    from .learner import Learner as Learner
    from .logger import Logger as Logger
    from .logger import configure as configure
    from .losses import gae as gae
    from .method import Method as Method
    from .methods import METHODS as METHODS
    from .model import FactoredPPO as FactoredPPO
    from .named_networks import find_network as find_network
    from .state import TrainState as TrainState
    from .update import Update as Update
