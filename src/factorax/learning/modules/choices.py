"""One network that scores each choice of each component, so that components may have different numbers of choices."""

from typing import Any

import jax

from .arrangements import Shared, with_identity
from .mlp import LayerSettings


class Choices(Shared):
    """A network from a component's observation of one of its choices to the logit of that choice,

        π_i(k) ∝ exp f(o_ik, e_ik),

    with the same f for all components i and choices k. The local observation of a component consists of equal parts,
    one per choice of the component with the most choices; parts of missing choices are ignored. The policy can
    therefore be moved to components with other numbers of choices. FRAP (Zheng et al., 2019) has this form for phases
    of traffic lights.
    """

    def __init__(
        self,
        key: jax.Array,
        encoder: Any,
        inputs: int,
        shape: tuple[int, int],
        gain: float,
        settings: LayerSettings,
        identity: int,
    ):
        components, choices = shape
        if inputs % choices:
            raise ValueError(
                f"architecture: got 'choices' with local observations of {inputs} numbers, want a multiple of "
                f"{choices}: equal parts, one per choice of the component with the most choices"
            )
        super().__init__(key, encoder, inputs // choices, (components * choices, 1), gain, settings, identity)

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """Map local observations ``(..., c, choices · f)`` to logits ``(..., c, choices)``."""
        return super().__call__(obs, local).reshape(*local.shape[:-1], -1)

    def features(self, obs: jax.Array, local: Any) -> jax.Array:
        """Return the input of the last layer for every component, ``(..., c, choices · h)``."""
        return super().features(obs, local).reshape(*local.shape[:-1], -1)

    def _inputs(self, obs: jax.Array, local: Any) -> jax.Array:
        size = self.net.kernels[0].shape[0] - self.identity.shape[1]
        return with_identity(local.reshape(*local.shape[:-2], -1, size), self.identity)
