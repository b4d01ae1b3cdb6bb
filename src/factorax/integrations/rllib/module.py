"""RLlib's PPO networks with one value per target, and its distributions per component."""

from collections.abc import Iterable
from typing import Any

from ._packages import (
    DefaultPPOTorchRLModule,
    PPOCatalog,
    TorchMultiCategorical,
    TorchMultiDistribution,
    torch,
)


class TargetValuesCatalog(PPOCatalog):
    """RLlib's catalog for PPO, with ``model_config["n_targets"]`` outputs of the critic instead of one."""

    def __init__(self, observation_space: Any, action_space: Any, model_config_dict: dict[str, Any]):
        super().__init__(observation_space, action_space, model_config_dict)
        self.vf_head_config.output_layer_dim = model_config_dict["n_targets"]


class TargetValuesModule(DefaultPPOTorchRLModule):
    """The policy of RLlib's PPO, configured by `model_config`, with a vector critic v(s) ∈ ℝᵐ."""

    def __init__(self, *args: Any, **kwargs: Any):
        kwargs["catalog_class"] = kwargs.get("catalog_class") or TargetValuesCatalog
        super().__init__(*args, **kwargs)

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        """Return the value of each target, ``(N, m)``."""
        values = super().compute_values(batch, embeddings)
        return values if values.ndim == 2 else values[:, None]  # RLlib drops an axis of length one


def singles(dist: Any) -> list[Any]:
    """Return the PyTorch distributions whose product is an RLlib distribution, in the order of the action's parts."""
    if isinstance(dist, TorchMultiDistribution):
        return [single for child in dist._flat_child_distributions for single in singles(child)]
    return [cat._dist for cat in dist._cats] if isinstance(dist, TorchMultiCategorical) else [dist._dist]


def log_prob(dist: Any, action: Any) -> Any:
    """Return log π of each component, ``(N, c)``; RLlib itself returns only the sum."""
    return _together(one.log_prob(part) for one, part in zip(singles(dist), _parts(dist, action), strict=True))


def entropy(dist: Any) -> Any:
    """Return the entropy of each component, ``(N, c)``."""
    return _together(one.entropy() for one in singles(dist))


def kl(old: Any, new: Any) -> Any:
    """Return KL(old ‖ new) of each component, ``(N, c)``."""
    pairs = zip(singles(old), singles(new), strict=True)
    return _together(torch.distributions.kl_divergence(one, other) for one, other in pairs)


def _parts(dist: Any, action: Any) -> list[Any]:
    if isinstance(dist, TorchMultiDistribution):
        children = zip(dist._flat_child_distributions, action, strict=True)
        return [part for child, action_part in children for part in _parts(child, action_part)]
    return list(action.unbind(-1)) if isinstance(dist, TorchMultiCategorical) else [action]


def _together(parts: Iterable[Any]) -> Any:
    """Return one array of all components: a Gaussian has an axis of components, a choice is one component."""
    return torch.cat([part if part.ndim == 2 else part[:, None] for part in parts], dim=-1)
