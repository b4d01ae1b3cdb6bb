"""Networks that change during training on a schedule: the paper's curriculum from few edges to many."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from .._checks import Count, Share, Whole, checked, is_traced
from .._text import counted
from .base_network import BaseNetwork, RolloutView
from .factorisation import Factorisation, is_array, namespace
from .network import InfluenceNetwork, as_network

RAMPS: dict[str, Callable[[Any, Any], Any]] = {
    "linear": lambda x, xp: x,
    "cosine": lambda x, xp: 0.5 - 0.5 * xp.cos(np.pi * x),
    "step": lambda x, xp: xp.floor(x),
}


@dataclass(frozen=True)
class Blend:
    """(1 − w) K₀ + w K₁: a point between two networks.

    `factorax.credit` accepts a `Blend` in place of a network. `w` may be a traced JAX scalar, so training with a
    schedule compiles only once. `start` may itself be a blend, as in a `NetworkSchedule` of more than two networks.
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
        # A traced weight has no value; `NetworkSchedule.at` clips it to [0, 1].
        if not is_traced(self.w) and not is_array(self.w):
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
    """A move from one network to another, or through several: low variance first, low bias later (Sec. 4.1).

    **Arguments**

    - `networks`: two or more networks over the same actions and targets, in the order of training.
    - `steps`: environment steps that the whole move takes, in equal parts from each network to the next.
    - `delay`: environment steps before it begins.
    - `ramp`: ``"linear"``, ``"cosine"``, or ``"step"`` (abruptly, at the end of each part).

    >>> start, end = InfluenceNetwork.identity(2), InfluenceNetwork.complete(2, 2)
    >>> schedule = NetworkSchedule(start, end, steps=100)
    >>> schedule.at(25).network().to_dense()
    array([[1.  , 0.25],
           [0.25, 1.  ]])
    """

    def __init__(self, *networks: InfluenceNetwork, steps: int, delay: int = 0, ramp: str = "linear"):
        self.networks = tuple(as_network(net, f"networks[{i}]") for i, net in enumerate(networks))
        if len(self.networks) < 2:
            raise ValueError(f"networks: got {len(networks)}, want two or more")
        first = self.networks[0]
        for i, net in enumerate(self.networks):
            if (net.actions, net.targets) != (first.actions, first.targets):
                raise ValueError(
                    f"networks[{i}]: got {net!r} after {first!r}; want the same actions and targets, in the same order "
                    "(rename them with relabel())"
                )
        # Numbers of steps are often written as 1e6, a float.
        steps, delay = (int(x) if isinstance(x, float) and x.is_integer() else x for x in (steps, delay))
        self.steps, self.delay = checked("steps", steps, Count), checked("delay", delay, Whole)
        if steps < len(networks) - 1:
            raise ValueError(f"steps: got {steps}, want at least one for each of the {len(networks) - 1} parts")
        self.ramp = checked("ramp", ramp, Literal["linear", "cosine", "step"])

    for_credit = "an InfluenceNetwork; take a point of it with .at(step)"

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The steps at which the move begins, and at which it reaches the second network, the third, and so on."""
        parts = len(self.networks) - 1
        return tuple(self.delay + i * self.steps // parts for i in range(parts + 1))

    def at(self, step: Any) -> Blend:
        """Return the network at a step, a number or a scalar array (traced or not)."""
        step = step if is_array(step) else np.asarray(checked("step", step, float))
        if step.ndim != 0:
            raise ValueError(f"step: got shape {step.shape}, want a number")
        xp = namespace(step)
        # Parts that have ended weigh 1 and those to come 0, so that one compiled program serves all steps.
        blend: Any = self.networks[0]
        for net, (start, stop) in zip(self.networks[1:], pairwise(self.boundaries), strict=True):
            progress = xp.clip((step - start) / (stop - start), 0.0, 1.0)
            blend = Blend(blend, net, RAMPS[self.ramp](progress, xp))
        return blend

    @property
    def static(self) -> InfluenceNetwork:
        """The first network."""
        return self.networks[0]

    def for_rollout(self, state: Any, rollout: RolloutView) -> Blend:
        """Return the network at the first step of the rollout."""
        return self.at(rollout.timesteps)

    def present(self, state: Any, timesteps: int) -> InfluenceNetwork:
        """Return the network at this step."""
        return self.at(timesteps).network()

    def __repr__(self) -> str:
        steps = counted(self.steps, "step")
        return f"NetworkSchedule({' → '.join(map(repr, self.networks))}, {steps} after {self.delay}, {self.ramp})"
