"""Callbacks of `FactoredPPO.learn`: `base` defines the interface, `ready` has ready-made callbacks."""

from ..._lazy import lazy_imports

with lazy_imports(__name__):
    from .base import Callback as Callback
    from .base import CallbackList as CallbackList
    from .base import as_callback as as_callback
    from .ready import CheckpointCallback as CheckpointCallback
    from .ready import EvalCallback as EvalCallback
    from .ready import ProgressBarCallback as ProgressBarCallback
    from .ready import StopTrainingOnRewardThreshold as StopTrainingOnRewardThreshold
