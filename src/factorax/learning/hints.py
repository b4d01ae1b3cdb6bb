"""Warnings before training about settings that are valid but probably not intended."""

import math

from ..spec import Spec
from ..structure.labels import counted, some, warn
from .config import Config


def warn_if_dense(spec: Spec, config: Config) -> None:
    """Warn if the problem's own network has every edge, so that factoring has no effect.

    There is no warning if this is intended, as in a control experiment: if a network was passed, or created with
    `InfluenceNetwork.complete`.
    """
    network = spec.network.static
    n, m = network.shape
    if not spec.network_is_own or config.estimator != "factored" or min(n, m) < 2 or not spec.network.is_fixed:
        return
    if network.density == 1 and not network.is_soft and not network.made_complete:
        warn(
            f"network: that of the problem has an edge from each of {n} actions to each of {m} targets. Each action is "
            "credited with all targets, so factoring cannot reduce the variance; the only difference to plain PPO is "
            "the clipping of one ratio per factor. Try network='adaptive', which removes edges that add more variance "
            "than bias; for RDDL models reads='uncoupled'; or policies with local observations and a sparser network, "
            f"which fx.discover finds. Pass network=fx.InfluenceNetwork.complete({n}, {m}) if this is intended"
        )


def warn_if_open_loop(spec: Spec, config: Config) -> None:
    """Warn if K was discovered with replayed actions, but policies observe what others change and react to it."""
    network = spec.network.static
    if spec.local is None or config.estimator != "factored" or not spec.network.is_fixed:
        return
    if network.lacks_reactions and network.density < 1:
        warn(
            "network: was discovered in open loop, where other actors repeat their actions, but policies with local "
            "observations react to what others change. Edges through these reactions are missing, and the gradient is "
            "biased if there are any. Find them with fx.discover(..., policy=model), after some training of this model"
        )


def warn_if_short(config: Config, steps: int) -> None:
    """Warn if `steps` are fewer than one rollout, because training always makes whole rollouts."""
    if 0 < steps < config.rollout_steps:
        warn(
            f"total_timesteps: got {steps:,}, less than one rollout of n_envs × n_steps = {config.n_envs} × "
            f"{config.n_steps} = {config.rollout_steps:,} steps. Training makes one rollout of "
            f"{config.rollout_steps:,} steps and updates the policy once, in "
            f"{counted(config.passes, 'pass', 'passes')} over it. Lower n_steps or n_envs for shorter rollouts",
            UserWarning,
        )


class ActionScaleWarning(UserWarning):
    """Warns that actions are in raw units of the environment, because their Box has no bounds to scale them to."""


def warn_if_unscaled(spec: Spec, config: Config) -> None:
    """Warn if components of a Box lack a bound, unless the settings or the problem declare raw units as intended."""
    names = spec.unscaled
    if not names or config.bounded == "clip" or spec.raw_actions:
        return
    deviation = math.exp(config.initial_log_std or 0.0)
    warn(
        f"action space: {len(names)} of {len(spec.components)} components lack a lower or an upper bound, so they are "
        f"not scaled: {some(names)}. They are drawn in raw units, initially around 0 with standard deviation "
        f"exp(initial_log_std) = {deviation:.3g}. Add bounds to the environment, inside fx.wrap if you use it: "
        "gymnasium.wrappers.TransformAction(env, lambda action: action, gymnasium.spaces.Box(low, high, shape)), or "
        'bounds={"fluent": (low, high)} for RDDL. Or set bounded="clip" if raw units are intended',
        ActionScaleWarning,
    )
