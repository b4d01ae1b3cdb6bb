"""The metrics of an update in their final form: checked to be finite, with times."""

from typing import Any

import numpy as np

from .config import Config

Metrics = dict[str, Any]
HISTORY = 10_000
"""Maximum number of updates in the history of a model; older ones are dropped."""
_NUMBERS = 5_000_000
"""Maximum count of numbers in the history, which then has fewer updates, but at least 100."""


def remember(history: list[Metrics], metrics: Metrics) -> None:
    """Append the metrics of an update to a history, and drop the oldest beyond its limits."""
    history.append(metrics)
    kept = min(HISTORY, max(100, _NUMBERS // sum(np.size(value) for value in metrics.values())))
    del history[:-kept]


def copied(metrics: Metrics) -> Metrics:
    """Return copies of metrics: views would keep the arrays of all updates of a program alive."""
    arrays = {name: np.array(value) for name, value in metrics.items()}
    return {name: value if value.ndim else value[()] for name, value in arrays.items()}


def checked_metrics(metrics: Metrics, config: Config, before: int) -> Metrics:
    """Return the metrics of the update after `before` steps, with times; raise FloatingPointError at non-finite
    values."""
    n_targets = len(metrics["rollout/ep_targets_mean"])
    if not metrics["rollout/episodes"]:  # their means are NaN
        metrics = {name: value for name, value in metrics.items() if not name.startswith("rollout/ep_")}
    _check_finite(metrics, before, n_targets)
    step = config.rollout_steps
    return metrics | {"time/total_timesteps": before + step, "time/iterations": before // step + 1}


def _check_finite(metrics: Metrics, before: int, n_targets: int) -> None:
    # First: a target that is not finite makes losses so as well, and only this says where it came from.
    t, i, j = metrics.pop("rollout/not_finite", (-1, -1, -1))
    if t >= 0:
        what = f"target {j}" if j < n_targets else "the observation"
        raise FloatingPointError(
            f"environment {i}, step {t} of the rollout after step {before}: {what} is not finite; the previous state "
            "is kept"
        )
    for name, value in metrics.items():
        if not np.isfinite(value).all():
            where = f"target {int(np.flatnonzero(~np.isfinite(value))[0])} of " if np.ndim(value) else ""
            raise FloatingPointError(
                f"{where}{name} is not finite in the update after step {before}; the previous state is kept. "
                "Try a smaller learning rate or normalize_reward, and check the problem's targets"
            )
