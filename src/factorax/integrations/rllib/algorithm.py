"""Factored PPO as an algorithm of RLlib: a configuration like all of RLlib's, with a network and weights."""

from typing import Any

import numpy as np

from ...structure.checks import as_network, network_of
from ..views import FactorViews
from ._packages import PPO, PPOConfig, RLModuleSpec, need
from .joint import JointEnv
from .module import TargetValuesModule
from .multi_agent import named
from .torch_learner import FactoredPPOLearner


class FactoredPPOConfig(PPOConfig):
    """The settings of RLlib's PPO, and what influences what.

    ``FactoredPPOConfig().problem("chain:4").training(lr=1e-3).build_algo()`` is an algorithm of RLlib; `train` it.
    """

    def __init__(self, algo_class: Any = None):
        need("FactoredPPOConfig")
        super().__init__(algo_class=algo_class or FactoredPPO)
        self.network: Any = None
        self.weights: Any = None
        self.standardise_advantages = True

    def problem(self, problem: Any, network: Any = None, *, weights: Any = None) -> "FactoredPPOConfig":
        """Train on this problem, with one policy that sees all of it.

        - `problem`, `network`, `weights`: as for `to_rllib`. The problem's own network and weights, if left out.

        RLlib's own way, ``environment(…)`` with an environment that has ``info["vector_reward"]``, does as well, with
        ``training(network=…, weights=…)``.
        """
        source, net = named(problem, network)
        factors = FactorViews(source, net, weights=weights, observe="global")
        settings = {"network": factors.network, "weights": tuple(factors.weights.tolist())}
        # The problem by name, where it has one: it is sent to every env runner.
        return self.environment(JointEnv, env_config={"problem": problem} | settings).training(**settings)

    def training(
        self, *, network: Any = None, weights: Any = None, standardise_advantages: bool | None = None, **settings: Any
    ) -> "FactoredPPOConfig":
        """Set settings of RLlib's PPO, and:

        - `network`: the influence network, with a row for every component of the action, or for every factor if it is
          made by ``net.factor(…)``.
        - `weights`: the weights λ, ``(m,)``; ones if left out.
        - `standardise_advantages`: centre and scale the credits of a train batch, all factors by one common scale.
        """
        super().training(**settings)
        if network is not None:
            # RLlib compares its settings with ==, which arrays answer entry by entry.
            self.network = network_of(network, "network")
        if weights is not None:
            # No array: RLlib compares its settings with ==.
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
        # While a sweep is described, `network` may be a search space of Ray Tune instead of a network.
        n_targets = len(self.network.targets) if hasattr(self.network, "targets") else 1
        return super()._model_config_auto_includes | {"n_targets": n_targets}

    def validate(self) -> None:
        """Raise at settings that do not fit together."""
        super().validate()
        hint = ".problem(…) takes that of the problem, .training(network=fx.InfluenceNetwork(matrix)) one of your own"
        m = as_network(self.network, "network", hint).shape[1]
        if np.shape(self.lam) != (m,) or not np.isfinite(self.lam).all():
            raise ValueError(f"weights: got {self.weights}, want {m} finite numbers, one λ for each target")
        if not self.enable_rl_module_and_learner or not self.enable_env_runner_and_connector_v2:
            raise ValueError("api_stack: got the old one, want the new, which is RLlib's default; leave it out")
        if not self.add_default_connectors_to_learner_pipeline or not self.use_critic:
            name = "use_critic" if not self.use_critic else "add_default_connectors_to_learner_pipeline"
            raise ValueError(f"{name}: got False, want True: the advantages of the targets come from it")
        if self.is_multi_agent:
            raise ValueError(
                "multi_agent: got several agents or policies, want one, whose action has the factors; for an agent "
                "for each factor use to_rllib with RLlib's own PPO"
            )
        if self.model_config.get("use_lstm"):
            raise ValueError("use_lstm: got True, want False: the advantages are of single steps, not of sequences")


class FactoredPPO(PPO):
    """PPO with a ratio and a credit for every factor, and a value and an advantage for every target."""

    @classmethod
    def get_default_config(cls) -> FactoredPPOConfig:
        """Return the default settings of the algorithm."""
        return FactoredPPOConfig()
