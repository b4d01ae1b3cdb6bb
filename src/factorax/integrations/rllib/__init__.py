"""RLlib: any problem as a MultiAgentEnv, and factored PPO for its current API."""

from ..._lazy import lazy_imports

# Loaded lazily: RLlib is an extra and takes seconds to import.
with lazy_imports(__name__):
    from .algorithm import FactoredPPOAlgorithm as FactoredPPOAlgorithm
    from .algorithm import FactoredPPOConfig as FactoredPPOConfig
    from .multi_agent import JointEnv as JointEnv
    from .multi_agent import to_rllib as to_rllib
    from .target_advantages import TargetAdvantages as TargetAdvantages
    from .torch_learner import FactoredPPOLearner as FactoredPPOLearner
    from .torch_learner import TargetValuesModule as TargetValuesModule
