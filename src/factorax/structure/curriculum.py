"""Curricula of networks: train with several networks in turn, from few edges to many (Sec. 4.1 of the paper)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from .._checks import Count, checked, listed
from .base_network import BaseNetwork, RolloutView
from .checks import as_network
from .labels import counted
from .network import InfluenceNetwork
from .schedule import Blend


class Curriculum(BaseNetwork):
    """A sequence of networks, each used for an equal share of training: low variance first, low bias later (Sec. 4.1).

    `NetworkSchedule` moves gradually between two networks; a curriculum switches abruptly, between any number of them.

    **Arguments**

    - `networks`: two or more networks over the same actions and targets, in the order of training.
    - `steps`: environment steps, divided equally among the networks. The last network stays in use after them.

    >>> start, end = InfluenceNetwork.identity(2), InfluenceNetwork.complete(2, 2)
    >>> curriculum = Curriculum([start, end], steps=100)
    >>> curriculum.present(None, 49) == start, curriculum.present(None, 50) == end
    (True, True)
    """

    def __init__(self, networks: Sequence[InfluenceNetwork], *, steps: int):
        stages = tuple(
            as_network(net, f"networks[{i}]")
            for i, net in enumerate(listed("networks", networks, "a list of two or more networks"))
        )
        if len(stages) < 2:
            raise ValueError(
                f"networks: got {len(stages)}, want two or more; for a single network, pass it to the learner directly"
            )
        for i, net in enumerate(stages):
            if (net.actions, net.targets) != (stages[0].actions, stages[0].targets):
                raise ValueError(
                    f"networks[{i}]: got {net!r} after {stages[0]!r}; want the same actions and targets, in the same "
                    "order (rename them with relabel())"
                )
        steps = checked("steps", int(steps) if isinstance(steps, float) and steps.is_integer() else steps, Count)
        if steps < len(stages):
            raise ValueError(f"steps: got {steps}, want at least one for each of the {len(stages)} networks")
        self.stages, self.steps = stages, steps

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The steps at which the second network, the third, and so on take over."""
        n = len(self.stages)
        return tuple(-(-i * self.steps // n) for i in range(1, n))

    def at(self, step: Any) -> Blend:
        """Return the network at a step (a number or a scalar array, traced or not) as a `Blend`, which `credit`
        accepts."""
        step = step if is_array_api_obj(step) else np.asarray(checked("step", step, float))
        if getattr(step, "ndim") != 0:  # noqa: B009
            raise ValueError(f"step: got shape {getattr(step, 'shape')}, want a number")  # noqa: B009
        xp = array_namespace(step)
        now: Any = self.stages[0]
        for boundary, network in zip(self.boundaries, self.stages[1:], strict=True):
            now = Blend(now, network, xp.astype(step >= boundary, xp.float32))
        return now

    @property
    def static(self) -> InfluenceNetwork:
        """The first network."""
        return self.stages[0]

    def for_rollout(self, state: Any, rollout: RolloutView) -> Blend:
        """Return the network at the first step of the rollout."""
        return self.at(rollout.timesteps)

    def present(self, state: Any, timesteps: int) -> InfluenceNetwork:
        """Return the network at this step."""
        return self.stages[sum(timesteps >= boundary for boundary in self.boundaries)]

    def __repr__(self) -> str:
        return f"Curriculum({' → '.join(map(repr, self.stages))}, {counted(self.steps, 'step')})"
