"""The networks and the loss of factored PPO in RLlib, with one ratio and credit per factor.

    L = −E Σᵢ min(rᵢ Cᵢ, clip(rᵢ, 1 ± ε) Cᵢ),    rᵢ = πᵢ(aᵢ|s) / πᵢ_old(aᵢ|s),    C = [K(λ∘A)]

With one factor and one target it equals the loss of RLlib's PPO.
"""

from collections.abc import Iterable
from typing import Any

from gymnasium.spaces import Box, Discrete, MultiDiscrete, Tuple

from ...spec import Spec
from ._packages import (
    DEFAULT_MODULE_ID,
    ENTROPY_KEY,
    LEARNER_RESULTS_KL_KEY,
    LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY,
    LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY,
    POLICY_LOSS_KEY,
    VF_LOSS_KEY,
    Columns,
    DefaultPPOTorchRLModule,
    GeneralAdvantageEstimation,
    PPOCatalog,
    PPOTorchLearner,
    TorchMultiCategorical,
    TorchMultiDistribution,
    explained_variance,
    torch,
)
from .target_advantages import FACTOR_MASK, TargetAdvantages


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


class FactoredPPOLearner(PPOTorchLearner):
    """RLlib's PPO learner with `TargetAdvantages` in its pipeline and the factored loss."""

    def build(self) -> None:
        """Build the learner and replace its advantage connector."""
        if self._is_built:  # RLlib calls it more than once; the connector is replaced once
            return
        super().build()
        config, module = self.config, self.module[DEFAULT_MODULE_ID].unwrapped()
        action_space = _flat(module.action_space)
        # Here RLlib first knows the spaces: it is checked that the network has a row per component of the action.
        self._factors = Spec.of_spaces(module.observation_space, action_space, config.network).factors
        self._learner_connector.remove(GeneralAdvantageEstimation)
        self._learner_connector.append(
            TargetAdvantages(
                gamma=config.gamma,
                lambda_=config.lambda_,
                network=config.network,
                weights=config.lam,
                standardise=config.standardise_advantages,
            )
        )

    def _by_factor(self, by_component: Any) -> Any:
        """Return sums over the components of each factor, ``(N, c)`` → ``(N, n)``."""
        if self._factors is None:
            return by_component
        of = torch.as_tensor(self._factors, device=by_component.device)
        zeros = by_component.new_zeros(len(by_component), self.config.network.shape[0])
        return zeros.index_add(1, of, by_component)

    def compute_loss_for_module(self, *, module_id: Any, config: Any, batch: dict[str, Any], fwd_out: Any) -> Any:
        """Return the loss of a minibatch."""
        module = self.module[module_id].unwrapped()
        real = batch[Columns.LOSS_MASK].bool()  # without the step that RLlib appends to each episode

        def mean(each: Any) -> Any:
            return each[real].sum() / real.sum()

        new = module.get_train_action_dist_cls().from_logits(fwd_out[Columns.ACTION_DIST_INPUTS])
        old = module.get_exploration_action_dist_cls().from_logits(batch[Columns.ACTION_DIST_INPUTS])
        actions, credits, acted = batch[Columns.ACTIONS], batch["advantages"], batch.get(FACTOR_MASK, 1.0)
        # RLlib stores only the probability of the joint action, so those of the factors are computed again.
        log_ratio = self._by_factor(_log_prob(new, actions) - _log_prob(old, actions))
        ratio = torch.exp(log_ratio)
        clipped = torch.clamp(ratio, 1 - config.clip_param, 1 + config.clip_param)
        gain = (torch.min(ratio * credits, clipped * credits) * acted).sum(-1)
        entropy = (self._by_factor(_entropy(new)) * acted).sum(-1)
        kl = (self._by_factor(_kl(old, new)) * acted).sum(-1) if config.use_kl_loss else torch.zeros_like(gain)
        # With the embeddings of the policy, in case the critic shares its encoder.
        values = module.compute_values(batch, embeddings=fwd_out.get(Columns.EMBEDDINGS))
        error = (values - batch["value_targets"]) ** 2
        value_loss = torch.clamp(error, 0, config.vf_clip_param).mean(-1)
        ent_coef = self.entropy_coeff_schedulers_per_module[module_id].get_current_value()
        loss = mean(-gain + config.vf_loss_coeff * value_loss - ent_coef * entropy)
        if config.use_kl_loss:
            loss = loss + self.curr_kl_coeffs_per_module[module_id] * mean(kl)
        metrics = {
            POLICY_LOSS_KEY: -mean(gain),
            VF_LOSS_KEY: mean(value_loss),
            LEARNER_RESULTS_VF_LOSS_UNCLIPPED_KEY: mean(error.mean(-1)),
            LEARNER_RESULTS_VF_EXPLAINED_VAR_KEY: explained_variance(
                batch["value_targets"][real].ravel(), values[real].ravel()
            ),
            ENTROPY_KEY: mean(entropy),
            LEARNER_RESULTS_KL_KEY: mean(kl),
        }
        self.metrics.log_dict(metrics, key=module_id, window=1)
        return loss


def _flat(space: Any) -> Any:
    """Return the action space if RLlib keeps its parts in the order of our components; raise TypeError otherwise."""
    parts = space.spaces if isinstance(space, Tuple) else [space]
    if not all(isinstance(part, Box | Discrete | MultiDiscrete) and len(part.shape or ()) < 2 for part in parts):
        raise TypeError(
            f"action space: got {space}, want a Box or MultiDiscrete of one axis, a Discrete, or a Tuple of those; "
            "FactoredPPOConfig().problem(make) converts it"
        )
    return space


def _singles(dist: Any) -> list[Any]:
    """Return the PyTorch distributions whose product is an RLlib distribution, in the order of the action's parts."""
    if isinstance(dist, TorchMultiDistribution):
        return [single for child in dist._flat_child_distributions for single in _singles(child)]
    return [cat._dist for cat in dist._cats] if isinstance(dist, TorchMultiCategorical) else [dist._dist]


def _log_prob(dist: Any, action: Any) -> Any:
    """Return log π of each component, ``(N, c)``; RLlib itself returns only the sum."""
    return _join(one.log_prob(part) for one, part in zip(_singles(dist), _parts(dist, action), strict=True))


def _entropy(dist: Any) -> Any:
    """Return the entropy of each component, ``(N, c)``."""
    return _join(one.entropy() for one in _singles(dist))


def _kl(old: Any, new: Any) -> Any:
    """Return KL(old ‖ new) of each component, ``(N, c)``."""
    pairs = zip(_singles(old), _singles(new), strict=True)
    return _join(torch.distributions.kl_divergence(one, other) for one, other in pairs)


def _parts(dist: Any, action: Any) -> list[Any]:
    if isinstance(dist, TorchMultiDistribution):
        children = zip(dist._flat_child_distributions, action, strict=True)
        return [part for child, action_part in children for part in _parts(child, action_part)]
    return list(action.unbind(-1)) if isinstance(dist, TorchMultiCategorical) else [action]


def _join(parts: Iterable[Any]) -> Any:
    """Return one array of all components: a Gaussian has an axis of components, a choice is one component."""
    return torch.cat([part if part.ndim == 2 else part[:, None] for part in parts], dim=-1)
