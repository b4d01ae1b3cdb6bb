"""Messages about settings that are legal and probably not meant, given before training starts."""

import math

from ..spec import Spec
from ..structure.labels import counted, some, warn
from .config import Config


def warn_if_dense(spec: Spec, config: Config) -> None:
    """Warn that K has every edge, if it is the problem's own: nobody asked for a network that leaves nothing out.

    There is no warning where it is meant, as in a control: where a network is given, or made with
    `InfluenceNetwork.complete`.
    """
    network = spec.network.static
    n, m = network.shape
    if not spec.network_is_own or config.estimator != "factored" or min(n, m) < 2 or not spec.network.is_fixed:
        return
    if network.density == 1 and not network.is_soft and not network.made_complete:
        warn(
            f"network: the problem's own has an edge from each of {n} actions to each of {m} targets. Every action is "
            "credited with every target, so that factoring cannot reduce the variance; only the clipping of a ratio "
            "per factor differs from plain PPO. Try network='adaptive', which drops edges that add more noise than "
            "bias; for RDDL models reads='uncoupled'; or policies with local observations and a sparser network, which "
            f"fx.discover finds. Pass network=fx.InfluenceNetwork.complete({n}, {m}) if this is meant"
        )


def warn_if_short(config: Config, steps: int) -> None:
    """Warn that training for so few `steps` makes more of them: rollouts are whole."""
    if 0 < steps < config.rollout_steps:
        warn(
            f"total_timesteps: got {steps:,}, less than one rollout of n_envs × n_steps = {config.n_envs} × "
            f"{config.n_steps} = {config.rollout_steps:,} steps. One whole rollout of {config.rollout_steps:,} steps "
            f"is made, and the policy is updated once, in {counted(config.passes, 'pass', 'passes')} over it. Lower "
            "n_steps or n_envs for shorter rollouts",
            UserWarning,
        )


class ActionScaleWarning(UserWarning):
    """Actions are drawn in raw units of the environment, because their Box has no bounds to scale them to."""


def warn_if_unscaled(spec: Spec, config: Config) -> None:
    """Warn if components of a Box lack a bound, unless the settings or the problem say that raw units are meant."""
    names = spec.unscaled
    if not names or config.bounded == "clip" or spec.raw_actions:
        return
    deviation = math.exp(config.initial_log_std or 0.0)
    warn(
        f"action space: {len(names)} of {len(spec.components)} components lack a lower or an upper bound, so they are "
        f"not scaled: {some(names)}. They are drawn in raw units, at first around 0 with standard deviation "
        f"exp(initial_log_std) = {deviation:.3g}. Give the environment bounds, inside fx.wrap if you use it: "
        "gymnasium.wrappers.TransformAction(env, lambda action: action, gymnasium.spaces.Box(low, high, shape)), or "
        'bounds={"fluent": (low, high)} for RDDL. Or set bounded="clip" if raw units are meant',
        ActionScaleWarning,
    )
