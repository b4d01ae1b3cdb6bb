"""One of several networks, selected by the training state, so that one compiled program trains with each of them."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ..structure import BaseNetwork, InfluenceNetwork
from ..structure.base_network import KArray, RolloutView, TrainingSizes


class ChosenNetwork(BaseNetwork):
    """A network whose K is a constant part of the training state instead of the program.

    A program compiled for one network has its K built in, in the fastest form. With small kernels, one program for all
    networks of a study in parallel is still faster than one program after another.
    """

    def __init__(self, networks: Sequence[InfluenceNetwork]):
        self.networks = tuple(networks)
        shapes = {network.shape for network in self.networks}
        if len(shapes) != 1:
            raise ValueError(f"networks: got shapes {sorted(shapes)}, want the same for all")

    @property
    def static(self) -> InfluenceNetwork:
        """The first network, for labels and shape."""
        return self.networks[0]

    def init_state(self, sizes: TrainingSizes) -> Any:
        """Return K of the first network."""
        return self.matrix(0)

    def matrix(self, i: int) -> Any:
        """Return K of network i, ``(n, m)``."""
        return jnp.asarray(self.networks[i].to_dense(), jnp.float32)

    def for_rollout(self, state: Any, rollout: RolloutView) -> KArray:
        """Return the K of the state."""
        return KArray(state)
