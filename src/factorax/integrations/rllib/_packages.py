"""Imports from RLlib and PyTorch, with placeholders if missing, so that the package can be imported for
documentation."""

from typing import Any

from ..._lazy import import_quietly

# One file, so that the classes of the others can be defined, and described, where RLlib is not installed.
MISSING: ImportError | None = None
"""Why placeholders are used."""


def _of(module: str, name: str = "", stand_in: Any = None) -> Any:
    """Return a name from a module, or the module itself."""
    global MISSING
    try:
        imported = import_quietly(module)
        return getattr(imported, name) if name else imported
    except ImportError as error:
        MISSING = error  # raised by `need`, when somebody uses the package
        return stand_in


_PPO, _CORE = "ray.rllib.algorithms.ppo", "ray.rllib.core"
_DISTRIBUTIONS, _LEARNER = f"{_CORE}.distribution.torch.torch_distribution", f"{_CORE}.learner.learner"

PPO: Any = _of(_PPO, "PPO", object)
PPOConfig: Any = _of(_PPO, "PPOConfig", object)
PPOCatalog: Any = _of(f"{_PPO}.ppo_catalog", "PPOCatalog", object)
PPOTorchLearner: Any = _of(f"{_PPO}.torch.ppo_torch_learner", "PPOTorchLearner", object)
DefaultPPOTorchRLModule: Any = _of(f"{_PPO}.torch.default_ppo_torch_rl_module", "DefaultPPOTorchRLModule", object)
LEARNER_RESULTS_KL_KEY: Any = _of(f"{_PPO}.ppo", "LEARNER_RESULTS_KL_KEY")
LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY: Any = _of(f"{_PPO}.ppo", "LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY")
LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY: Any = _of(f"{_PPO}.ppo", "LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY")
ENTROPY_KEY: Any = _of(_LEARNER, "ENTROPY_KEY")
POLICY_LOSS_KEY: Any = _of(_LEARNER, "POLICY_LOSS_KEY")
VF_LOSS_KEY: Any = _of(_LEARNER, "VF_LOSS_KEY")
ConnectorV2: Any = _of("ray.rllib.connectors.connector_v2", "ConnectorV2", object)
GeneralAdvantageEstimation: Any = _of("ray.rllib.connectors.learner", "GeneralAdvantageEstimation")
DEFAULT_MODULE_ID: Any = _of(_CORE, "DEFAULT_MODULE_ID")
Columns: Any = _of(f"{_CORE}.columns", "Columns")
TorchMultiCategorical: Any = _of(_DISTRIBUTIONS, "TorchMultiCategorical")
TorchMultiDistribution: Any = _of(_DISTRIBUTIONS, "TorchMultiDistribution")
RLModuleSpec: Any = _of(f"{_CORE}.rl_module.rl_module", "RLModuleSpec")
MultiAgentEnv: Any = _of("ray.rllib.env.multi_agent_env", "MultiAgentEnv", object)
explained_variance: Any = _of("ray.rllib.utils.torch_utils", "explained_variance")
torch: Any = _of("torch")


def need(what: str) -> None:
    """Raise if RLlib or PyTorch is missing."""
    if MISSING is not None:
        raise ImportError(
            f"{what} needs RLlib and PyTorch ({MISSING}): pip install 'factorax[rllib]', in a separate environment, "
            "because RLlib needs an older Gymnasium"
        )
