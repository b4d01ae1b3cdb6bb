"""RLlib: any problem as a MultiAgentEnv, and factored PPO for its current API."""

from typing import TYPE_CHECKING

from ..._lazy import loaded_when_needed

if TYPE_CHECKING:
    from .algorithm import FactoredPPO as FactoredPPO
    from .algorithm import FactoredPPOConfig as FactoredPPOConfig
    from .joint import JointEnv as JointEnv
    from .module import TargetValuesModule as TargetValuesModule
    from .multi_agent import to_rllib as to_rllib
    from .target_advantages import TargetAdvantages as TargetAdvantages
    from .torch_learner import FactoredPPOLearner as FactoredPPOLearner

_HOMES = {
    "FactoredPPO": "algorithm",
    "FactoredPPOConfig": "algorithm",
    "FactoredPPOLearner": "torch_learner",
    "JointEnv": "joint",
    "TargetAdvantages": "target_advantages",
    "TargetValuesModule": "module",
    "to_rllib": "multi_agent",
}

# Loaded lazily: RLlib is an extra and takes seconds to import.
__getattr__, __dir__ = loaded_when_needed(__name__, _HOMES)
