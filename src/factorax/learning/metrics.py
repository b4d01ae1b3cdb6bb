"""The metrics of an update as users get them: checked to be finite, with the time."""

from typing import Any

import numpy as np

from .config import Config

Metrics = dict[str, Any]
HISTORY = 10_000
"""Updates in the history of a model; older ones are dropped."""
_NUMBERS = 5_000_000
"""Numbers in it, if an update has many: then the history has fewer updates, though at least 100."""


def remember(history: list[Metrics], metrics: Metrics) -> None:
    """Add the metrics of an update to a history, and drop the oldest beyond its bounds."""
    history.append(metrics)
    kept = min(HISTORY, max(100, _NUMBERS // sum(np.size(value) for value in metrics.values())))
    del history[:-kept]


def copied(metrics: Metrics) -> Metrics:
    """Return metrics as numbers and arrays of their own: those of JAX hold buffers of the whole update."""
    arrays = {name: np.array(value) for name, value in metrics.items()}
    return {name: value if value.ndim else value[()] for name, value in arrays.items()}


def checked_metrics(metrics: Metrics, config: Config, before: int) -> Metrics:
    """Return the metrics of the update after `before` steps, with the time; raises at non-finite values."""
    _check_finite(metrics, before)
    step = config.rollout_steps
    metrics |= {"time/total_timesteps": before + step, "time/iterations": before // step + 1}
    if metrics["rollout/episodes"] > 0:
        return metrics
    return {name: value for name, value in metrics.items() if not name.startswith("rollout/ep_")}  # no episode ended


def _check_finite(metrics: Metrics, before: int) -> None:
    t, i, j = metrics.pop("rollout/not_finite", (-1, -1, -1))
    if t >= 0:
        what = f"target {j}" if j < len(metrics["rollout/ep_targets_mean"]) else "the observation"
        raise FloatingPointError(
            f"environment {i}, step {t} of the rollout after step {before}: {what} is not finite; the state before it "
            "is kept"
        )
    for name, value in metrics.items():
        if not np.isfinite(value).all():
            where = f"target {int(np.flatnonzero(~np.isfinite(value))[0])} of " if np.ndim(value) else ""
            raise FloatingPointError(
                f"{where}{name} is not finite in the update after step {before}; the state before it is kept. "
                "A smaller learning rate, normalize_reward or a look at the problem's targets may help"
            )
