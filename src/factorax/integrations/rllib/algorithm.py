"""Factored PPO as an RLlib algorithm: a standard RLlib configuration with a network and weights."""

from typing import Any

import numpy as np

from ...structure.network import as_network, network_of
from ..views import FactorViews
from ._packages import PPO, PPOConfig, RLModuleSpec, need
from .multi_agent import JointEnv, find_problem_and_network
from .torch_learner import FactoredPPOLearner, TargetValuesModule


class FactoredPPOConfig(PPOConfig):
    """The settings of RLlib's PPO, with an influence network and weights.

    ``FactoredPPOConfig().problem("chain:4").training(lr=1e-3).build_algo()`` returns an RLlib algorithm with a method
    `train`.
    """

    def __init__(self, algo_class: Any = None):
        need("FactoredPPOConfig")
        super().__init__(algo_class=algo_class or FactoredPPOAlgorithm)
        self.network: Any = None
        self.weights: Any = None
        self.standardise_advantages = True

    def problem(self, problem: Any, network: Any = None, *, weights: Any = None) -> "FactoredPPOConfig":
        """Train on this problem with one policy that observes all of it.

        - `problem`, `network`, `weights`: as for `to_rllib`. The defaults are the network and weights of the problem.

        Alternatively use RLlib's ``environment(…)`` with an environment that returns ``info["vector_reward"]``, and
        ``training(network=…, weights=…)``.
        """
        source, net = find_problem_and_network(problem, network)
        factors = FactorViews(source, net, weights=weights, observe="global")
        settings = {"network": factors.network, "weights": tuple(factors.weights.tolist())}
        # `problem` rather than `source`: it is sent to every env runner, for which a name is better than a problem.
        return self.environment(JointEnv, env_config={"problem": problem} | settings).training(**settings)

    def training(
        self, *, network: Any = None, weights: Any = None, standardise_advantages: bool | None = None, **settings: Any
    ) -> "FactoredPPOConfig":
        """Set settings of RLlib's PPO and, in addition:

        - `network`: the influence network, with one row per component of the action, or per factor if it was created by
          ``net.factor(…)``.
        - `weights`: the weights λ, ``(m,)``; the default is ones.
        - `standardise_advantages`: whether to centre and scale the credits of a train batch, with one scale for all
          factors.
        """
        super().training(**settings)
        # No arrays among the settings: RLlib compares them with ==, which is elementwise for arrays.
        if network is not None:
            self.network = network_of(network, "network")
        if weights is not None:
            self.weights = tuple(weights.tolist()) if isinstance(weights, np.ndarray) else weights
        if standardise_advantages is not None:
            self.standardise_advantages = standardise_advantages
        return self

    @property
    def lam(self) -> np.ndarray:
        """The weights λ, ``(m,)``."""
        return np.ones(self.network.shape[1]) if self.weights is None else np.asarray(self.weights, np.float64)

    def get_default_learner_class(self) -> Any:
        """Return the learner with the factored loss."""
        return FactoredPPOLearner

    def get_default_rl_module_spec(self) -> Any:
        """Return the module with a vector critic."""
        return RLModuleSpec(module_class=TargetValuesModule)

    @property
    def _model_config_auto_includes(self) -> dict[str, Any]:
        # While a sweep is defined, `network` may be a Ray Tune search space instead of a network.
        n_targets = len(self.network.targets) if hasattr(self.network, "targets") else 1
        return super()._model_config_auto_includes | {"n_targets": n_targets}

    def validate(self) -> None:
        """Raise ValueError if settings are incompatible."""
        super().validate()
        hint = "use .problem(…) for that of the problem, or .training(network=fx.InfluenceNetwork(matrix))"
        m = as_network(self.network, "network", hint).shape[1]
        if np.shape(self.lam) != (m,) or not np.isfinite(self.lam).all():
            raise ValueError(f"weights: got {self.weights}, want {m} finite numbers, one λ per target")
        if not self.enable_rl_module_and_learner or not self.enable_env_runner_and_connector_v2:
            raise ValueError("api_stack: got the old API stack, want the new one, RLlib's default")
        # The learner replaces RLlib's connector for advantages, which is there only with these two.
        if not self.add_default_connectors_to_learner_pipeline or not self.use_critic:
            name = "use_critic" if not self.use_critic else "add_default_connectors_to_learner_pipeline"
            raise ValueError(f"{name}: got False, want True: the advantages of the targets require it")
        if self.is_multi_agent:
            raise ValueError(
                "multi_agent: got several agents or policies, want one, whose action has the factors; for one agent "
                "per factor use to_rllib with RLlib's own PPO"
            )
        if self.model_config.get("use_lstm"):
            raise ValueError("use_lstm: got True, want False: the advantages are of single steps, not of sequences")


class FactoredPPOAlgorithm(PPO):
    """PPO with one ratio and credit per factor, and one value and advantage per target."""

    @classmethod
    def get_default_config(cls) -> FactoredPPOConfig:
        """Return the default settings of the algorithm."""
        return FactoredPPOConfig()
