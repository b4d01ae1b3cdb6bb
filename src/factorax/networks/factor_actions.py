"""Enumeration of the actions of each factor: their indices, and their probabilities under a policy."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..distributions import Spread
from ..spec import Spec

MAX_JOINT_ACTIONS = 1024
"""Maximum number of joint actions of a factor that are enumerated, since each is an output of the critic."""


@dataclass(frozen=True, eq=False)
class FactorActions:
    """The possible actions of each factor in a problem with discrete actions.

    A factor of several components has all combinations of their choices. The index of its action is

        b = Σ_c stride_c a_c   over its components c.

    >>> from factorax.problems import queues
    >>> actions = FactorActions.of(Spec.of(queues(2, 2)))
    >>> actions.sizes.tolist(), actions.number(jnp.array([0.0, 1.0, 1.0, 0.0])).tolist()
    ([2, 2, 2, 2], [0, 1, 1, 0])
    """

    spec: Spec
    sizes: np.ndarray
    """Number of actions of each factor, ``(n,)``."""
    strides: np.ndarray
    """Contribution of a choice of each component to the index of its factor's action, ``(c,)``."""

    @classmethod
    def of(cls, spec: Spec) -> "FactorActions":
        """Enumerate the actions of a problem; raise ValueError if that is not possible.

        All components must be discrete, and no factor may have more than `MAX_JOINT_ACTIONS` combinations.
        """
        components = spec.components
        if not components.discrete.all():
            first = int(np.flatnonzero(~components.discrete)[0])
            raise ValueError(
                "critic: got one that enumerates the actions of each factor, but component "
                f"{first} is continuous; want discrete actions, method='mappo', or a default_action to compare with"
            )
        strides = np.ones(len(components), np.int64)
        sizes = np.ones(spec.n_factors, np.int64)
        for i, group in enumerate(spec.groups):
            for component in group:
                strides[component] = sizes[i]
                # Saturated: for 64 switches, the product would overflow to 0 and pass the check below.
                sizes[i] = min(sizes[i] * components.choices[component], 2**31)
        if sizes.max() > MAX_JOINT_ACTIONS:
            raise ValueError(
                f"critic: got one that enumerates actions, but factor {sizes.argmax()} has {sizes.max():,} joint "
                f"actions of {len(spec.groups[sizes.argmax()])} components, want at most {MAX_JOINT_ACTIONS:,}; use a "
                "network with one row per component, or critic='target'"
            )
        return cls(spec, sizes, strides)

    @property
    def most(self) -> int:
        """The largest number of actions of a factor, B."""
        return int(self.sizes.max())

    def number(self, action: jax.Array) -> jax.Array:
        """Return the index of each factor's action, ``(..., c)`` → integers ``(..., n)``."""
        return self.spec.by_factor(action.astype(jnp.int32) * self.strides.astype(np.int32))

    def probabilities(self, parameters: jax.Array, spread: Spread) -> jax.Array:
        """Return πᵢ(b|s) from the output of a policy, ``(..., n, B)``; 0 beyond the number of actions of a factor."""
        components = self.spec.components
        width = int(components.choices.max())

        def of_choice(choice: jax.Array) -> jax.Array:
            # Beyond the choices of a component, use any valid one: no action of its factor refers to it.
            action = jnp.minimum(choice, components.choices - 1).astype(parameters.dtype)
            return components.log_prob(parameters, spread, jnp.broadcast_to(action, parameters.shape[:-1]))

        log_prob = jax.vmap(of_choice, out_axes=-1)(jnp.arange(width))  # (..., c, width)
        numbers = np.arange(self.most)
        digits = numbers // self.strides[:, None] % components.choices[:, None]  # of every number, (c, B)
        digits = np.broadcast_to(digits, (*log_prob.shape[:-1], self.most))
        by_component = jnp.swapaxes(jnp.take_along_axis(log_prob, digits, axis=-1), -1, -2)
        log_prob = jnp.swapaxes(self.spec.by_factor(by_component), -1, -2)
        return jnp.where(numbers < self.sizes[:, None], jnp.exp(log_prob), 0.0)


def encoded_actions(spec: Spec, action: Any, *, raw: bool = True) -> jax.Array:
    """Return actions as network inputs, ``(..., c)`` → ``(..., c, width)``.

    Choices are one-hot, bounded numbers are scaled so that the bounds are −1 and 1, and others are unchanged.

    - `raw`: whether they are raw actions of a policy rather than actions of the environment.
    """
    components = spec.components
    within = components.within(action, jnp) if raw else jnp.asarray(action)
    width = max(int(components.choices.max()), 1)
    bounded = np.isfinite(components.low) & np.isfinite(components.high) & ~components.discrete
    middle, half = (
        np.where(bounded, x, default)
        for x, default in (
            ((components.low + components.high) / 2, 0.0),
            # A space may have equal bounds, and its action is then always in the middle.
            (np.maximum((components.high - components.low) / 2, 1e-6), 1.0),
        )
    )
    number = ((within - middle) / half)[..., None] * np.eye(1, width)[0]
    # Continuous numbers are replaced first: a large one has no defined conversion to an integer.
    choice = jax.nn.one_hot(jnp.where(components.discrete, within, 0).astype(jnp.int32), width, dtype=number.dtype)
    return jnp.where(components.discrete[:, None], choice, number)


def default_actions(spec: Spec, default: tuple[float, ...]) -> np.ndarray:
    """Return the default action of each component, ``(c,)``, in units of the environment; raise ValueError if
    invalid."""
    components, count = spec.components, len(spec.components)
    if len(default) not in (1, count):
        raise ValueError(
            f"default_action: got {len(default)} numbers, want {count}, one per component of the action space, or a "
            "single one for all"
        )
    action = np.broadcast_to(np.asarray(default, np.float32), (count,))
    whole = (action == np.round(action)) & (action >= 0) & (action < components.choices)
    fits = np.where(components.discrete, whole, (action >= components.low) & (action <= components.high))
    if not fits.all():
        odd = int(np.flatnonzero(~fits)[0])
        want = (
            f"a whole number from 0 to {components.choices[odd] - 1}"
            if components.discrete[odd]
            else f"one from {components.low[odd]:g} to {components.high[odd]:g}"
        )
        raise ValueError(f"default_action: got {action[odd]:g} for component {odd}, want {want}")
    return action
