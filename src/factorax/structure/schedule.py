"""Networks that change gradually during training: the paper's curriculum from few edges to many."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from .._checks import Count, Share, Whole, checked, is_traced
from .base_network import BaseNetwork, RolloutView
from .checks import as_network
from .factorisation import Factorisation
from .labels import counted
from .network import InfluenceNetwork

RAMPS: dict[str, Callable[[Any, Any], Any]] = {
    "linear": lambda x, xp: x,
    "cosine": lambda x, xp: 0.5 - 0.5 * xp.cos(np.pi * x),
    "step": lambda x, xp: xp.astype(x >= 1, x.dtype),
}


@dataclass(frozen=True)
class Blend:
    """(1 − w) K₀ + w K₁: a point between two networks.

    `factorax.credit` accepts a `Blend` in place of a network. `w` may be a traced JAX scalar, so training with a
    schedule compiles only once. `start` may itself be a blend, as in a `Curriculum` of more than two networks.
    """

    start: "InfluenceNetwork | Blend"
    end: InfluenceNetwork
    w: Any

    def __post_init__(self) -> None:
        if not isinstance(self.start, InfluenceNetwork | Blend) or not isinstance(self.end, InfluenceNetwork):
            start = self.start if isinstance(self.start, Blend) else as_network(self.start, "start")
            object.__setattr__(self, "start", start)
            object.__setattr__(self, "end", as_network(self.end, "end"))
        if self.start.shape != self.end.shape:
            raise ValueError(f"start, end: got {self.start!r} and {self.end!r}; want the same actions and targets")
        if not is_traced(self.w) and not is_array_api_obj(self.w):
            checked("w", self.w, Share)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_actions, n_targets)``."""
        return self.start.shape

    @property
    def factorisation(self) -> Factorisation | None:
        """The actions that each row stands for, as in the two networks."""
        return self.start.factorisation

    def network(self) -> InfluenceNetwork:
        """Return this point as a (soft) network."""
        w, start = float(self.w), as_fixed(self.start, "start")
        mixed = (1 - w) * start.matrix.astype(np.float64) + w * self.end.matrix.astype(np.float64)
        mixed.data = np.clip(mixed.data, 0, 1)  # (1 − w) + w may round to a hair above 1
        return InfluenceNetwork(mixed, start.actions, start.targets)


def as_fixed(net: Any, argument: str) -> InfluenceNetwork:
    """Return the network that currently holds: a blend or a plain matrix is converted to a network."""
    return net.network() if isinstance(net, Blend) else as_network(net, argument)


class NetworkSchedule(BaseNetwork):
    """A gradual move from one network to another: low variance first, low bias later (Sec. 4.1 of the paper).

    **Arguments**

    - `start`, `end`: networks over the same actions and targets.
    - `steps`: environment steps that the move takes.
    - `delay`: environment steps before it begins.
    - `ramp`: ``"linear"``, ``"cosine"``, or ``"step"`` (abruptly, at the end of the move).

    >>> start, end = InfluenceNetwork.identity(2), InfluenceNetwork.complete(2, 2)
    >>> schedule = NetworkSchedule(start, end, steps=100)
    >>> schedule.at(25).network().to_dense()
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    def __init__(
        self,
        start: InfluenceNetwork,
        end: InfluenceNetwork,
        *,
        steps: int,
        delay: int = 0,
        ramp: str = "linear",
    ):
        start, end = as_network(start, "start"), as_network(end, "end")
        if (start.actions, start.targets) != (end.actions, end.targets):
            raise ValueError(
                f"start, end: got {start!r} and {end!r}; want the same actions and targets, in the same order "
                "(rename them with relabel())"
            )
        steps, delay = (int(x) if isinstance(x, float) and x.is_integer() else x for x in (steps, delay))
        steps, delay = checked("steps", steps, Count), checked("delay", delay, Whole)
        checked("ramp", ramp, Literal["linear", "cosine", "step"])
        self.start, self.end, self.steps, self.delay, self.ramp = start, end, steps, delay, ramp

    def at(self, step: Any) -> Blend:
        """Return the network at a step, a number or a scalar array (traced or not)."""
        step = step if is_array_api_obj(step) else np.asarray(checked("step", step, float))
        if getattr(step, "ndim") != 0:  # noqa: B009
            raise ValueError(f"step: got shape {getattr(step, 'shape')}, want a number")  # noqa: B009
        xp = array_namespace(step)
        progress = xp.clip((step - self.delay) / self.steps, 0.0, 1.0)
        return Blend(self.start, self.end, RAMPS[self.ramp](progress, xp))

    @property
    def static(self) -> InfluenceNetwork:
        """The network at the start."""
        return self.start

    def for_rollout(self, state: Any, rollout: RolloutView) -> Blend:
        """Return the network at the first step of the rollout."""
        return self.at(rollout.timesteps)

    def present(self, state: Any, timesteps: int) -> InfluenceNetwork:
        """Return the network at this step."""
        return self.at(timesteps).network()

    def __repr__(self) -> str:
        steps = counted(self.steps, "step")
        return f"NetworkSchedule({self.start!r} → {self.end!r}, {steps} after {self.delay}, {self.ramp})"
