"""Warnings about settings that are valid but probably not intended."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .._text import counted, some, warn
from ..spec import Spec
from .config import Config

CLIPPED_UPDATES = 30
"""Number of updates after which training has stalled if all gradients were clipped and returns are no better."""
CLIPPED_FACTOR = 10
"""Multiple of `max_grad_norm` that the norms of these gradients exceed."""


def warn_if_dense(spec: Spec, config: Config) -> None:
    """Warn if the problem's own network has every edge, so that factoring has no effect.

    There is no warning if this is intended, as in a control experiment: if a network was passed, or created with
    `InfluenceNetwork.complete`.
    """
    network = spec.network.static
    n, m = network.shape
    if not spec.problem_defines_network or min(n, m) < 2 or not spec.network.is_fixed:  # nothing to factor
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
    if spec.local is None or not spec.network.is_fixed:
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
            f"{counted(config.method.passes(config), 'pass', 'passes')} over it. Lower n_steps or n_envs for shorter "
            "rollouts",
            UserWarning,
        )


def warn_if_clipped(config: Config, history: Sequence[Mapping[str, Any]]) -> None:
    """Warn after update 30 if all gradients were far beyond `max_grad_norm`, and the last ten returns are no better
    than the first ten.

    - `history`: the metrics of the last updates, the latest one last.
    """
    # Once, at this update: later ones of a converged policy may stall for good reasons.
    first, limit = list(history[-CLIPPED_UPDATES:]), config.max_grad_norm
    if limit is None or len(first) < CLIPPED_UPDATES or first[-1]["time/iterations"] != CLIPPED_UPDATES:
        return
    least = min(float(row["train/grad_norm"]) for row in first)
    third = CLIPPED_UPDATES // 3
    before, after = (
        [float(row["rollout/ep_rew_mean"]) for row in rows if "rollout/ep_rew_mean" in row]
        for rows in (first[:third], first[-third:])
    )
    stalled = before and after and sum(after) / len(after) <= sum(before) / len(before)
    # Where returns improve, such gradients are common and do no harm: Adam scales its steps.
    if stalled and least > CLIPPED_FACTOR * limit:
        scaled = "reward_scale" if config.normalize_reward else "normalize_reward=True, or reward_scale"
        warn(
            f"max_grad_norm: got {limit:g}, but the norm of the gradient (train/grad_norm) was at least {least:.3g} in "
            f"each of the first {CLIPPED_UPDATES} updates, and the return did not improve. Large rewards are the most "
            f"common reason; want {scaled}",
            UserWarning,
        )


class ActionScaleWarning(UserWarning):
    """Warns that actions are in raw units of the environment, because their Box has no bounds to scale them to."""


def warn_if_unscaled(spec: Spec, config: Config) -> None:
    """Warn if components of a Box lack a bound, unless the settings or the problem declare raw units as intended."""
    names = spec.unscaled
    # With `clip` or `raw_actions`, raw units are meant.
    if not names or config.distribution.name == "clip" or spec.raw_actions:
        return
    deviation = math.exp(getattr(config.distribution, "initial_log_std", None) or 0.0)
    warn(
        f"action space: {len(names)} of {len(spec.components)} components lack a lower or an upper bound, so they are "
        f"not scaled: {some(names)}. They are drawn in raw units, initially around 0 with standard deviation "
        f"exp(initial_log_std) = {deviation:.3g}. Add bounds to the environment, inside fx.wrap if you use it: "
        "gymnasium.wrappers.TransformAction(env, lambda action: action, gymnasium.spaces.Box(low, high, shape)), or "
        'bounds={"fluent": (low, high)} for RDDL. Or set distribution="clip" if raw units are intended',
        ActionScaleWarning,
    )
