"""RLlib: any problem as its MultiAgentEnv, and a factored PPO of its current API."""

from typing import TYPE_CHECKING

from ..._lazy import loaded_when_needed

if TYPE_CHECKING:
    from .advantages import TargetAdvantages as TargetAdvantages
    from .algorithm import FactoredPPO as FactoredPPO
    from .algorithm import FactoredPPOConfig as FactoredPPOConfig
    from .joint import JointEnv as JointEnv
    from .learner import FactoredPPOLearner as FactoredPPOLearner
    from .module import TargetValuesModule as TargetValuesModule
    from .multi_agent import to_rllib as to_rllib

_HOMES = {
    "FactoredPPO": "algorithm",
    "FactoredPPOConfig": "algorithm",
    "FactoredPPOLearner": "learner",
    "JointEnv": "joint",
    "TargetAdvantages": "advantages",
    "TargetValuesModule": "module",
    "to_rllib": "multi_agent",
}

# Loaded when needed: RLlib is an extra, and takes seconds to import.
__getattr__ = loaded_when_needed(__name__, _HOMES)
