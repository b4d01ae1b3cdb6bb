"""A user's own module as the network of a policy or a critic."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._text import shown
from ..observations import ObservationSpace
from ..spec import Spec

CONTRACT = (
    "called with one observation (in the structure of the observation space) and the local observations (c, l), a "
    "module returns"
)


class Custom(eqx.Module):
    """A module ``module(obs, local)`` of one observation, applied to rows with any axes in front.

    Its arrays are trained; everything else, such as activation functions, is part of the compiled program.
    """

    arrays: Any
    rest: Any = eqx.field(static=True)
    space: ObservationSpace = eqx.field(static=True)
    local_shape: tuple[int, int] | None = eqx.field(static=True)
    """Shape of the local observations, ``(c, l)``; None if the module receives None."""

    def __init__(self, module: Any, space: ObservationSpace, local_shape: tuple[int, int] | None):
        # What is no array is static: functions among the fields of a module cannot be leaves of a compiled program.
        self.arrays, self.rest = eqx.partition(module, eqx.is_array)
        self.space, self.local_shape = space, local_shape

    @property
    def module(self) -> Any:
        """The user's module with its current arrays."""
        return eqx.combine(self.arrays, self.rest)

    @property
    def memory(self) -> int:
        """Size of the memory of the module; 0 if it has no attribute `memory`."""
        return int(getattr(self.module, "memory", 0))

    @property
    def sequence_length(self) -> int:
        """Length of the sequences on which a recurrent module is trained: its attribute of this name, by default 16."""
        return int(getattr(self.module, "sequence_length", 16))

    @property
    def has_features(self) -> bool:
        """Whether the module has a method `features`, on which a critic with a shared trunk is built."""
        # `features(obs, local)` receives no memory, on which those of a recurrent module depend.
        return hasattr(self.module, "features") and not self.memory

    def __call__(self, obs: jax.Array, local: Any) -> jax.Array:
        """Map rows ``(..., d)`` to the outputs of the module, ``(..., *shape)``."""
        return self._mapped(self.module, obs, local)

    def step(self, obs: jax.Array, local: Any, memory: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the output of a recurrent module and its memory afterwards, given the memory ``(..., memory)``."""
        return self._mapped(self.module, obs, local, memory)

    def unroll(
        self, obs: jax.Array, local: Any, memory: jax.Array, starts: jax.Array
    ) -> tuple[jax.Array, None, jax.Array]:
        """Evaluate sequences as `Recurrent.unroll` does, step by step and without features."""

        def one(before: jax.Array, now: tuple[Any, ...]) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            out, after = self.step(now[0], now[1], jnp.where(now[2][:, None], 0.0, before))
            return after, (out, after)

        out, after = jax.lax.scan(one, memory, (obs, local, starts))[1]
        return out, None, after

    def features(self, obs: jax.Array, local: Any, memory: Any = None) -> jax.Array:
        """Return ``features(obs, local)`` of the module, ``(..., c or 1, h)``; the observation if it has no such
        method."""
        if not self.has_features:
            return obs[..., None, :]
        features = self._mapped(self.module.features, obs, local)
        return features[..., None, :] if features.ndim == obs.ndim else features

    def _mapped(self, function: Callable[..., Any], *rows: Any) -> Any:
        """Apply a function of one observation to arrays with any axes in front, the first of them rows."""
        lead = rows[0].shape[:-1]
        # With one axis in front, one vmap suffices.
        flat = [None if x is None else x.reshape(math.prod(lead), *x.shape[len(lead) :]) for x in rows]
        in_axes = tuple(None if x is None else 0 for x in flat)
        one = lambda row, *others: function(self.space.structured(row, jnp), *others)  # noqa: E731
        return jax.tree.map(lambda out: out.reshape(*lead, *out.shape[1:]), jax.vmap(one, in_axes)(*flat))


def custom_network(
    argument: str, module: Any, spec: Spec, key: jax.Array, shape: tuple[int, ...], meaning: str
) -> Custom:
    """Return the network that a user passed as `argument`: a module, or a function of a `Spec` and a key that returns
    one.

    `shape` is the required output shape for one observation, and `meaning` says what the outputs are, for messages.
    """
    # By class: a module can be called as well as a function that returns one.
    if not isinstance(module, eqx.Module):
        try:
            module = module(spec, key)
        except TypeError as error:
            raise TypeError(
                f"{argument}: {shown(module)} cannot be called with a Spec and a key ({error}), want a function "
                "(spec, key) → equinox.Module, or a module itself"
            ) from error
    if not isinstance(module, eqx.Module) or not callable(module):
        raise TypeError(
            f"{argument}: got {shown(module)}, want an equinox.Module with __call__(obs, local), or a function "
            "(spec, key) → such a module"
        )
    network = Custom(module, spec.observations, spec.local_shape)
    check_output(argument, network, spec, shape, meaning)
    return network


def check_output(argument: str, network: Custom, spec: Spec, want: tuple[int, ...], meaning: str) -> None:
    """Raise if a module fails on an observation, or does not return an array of the required shape."""
    name, wanted = type(network.module).__name__, f"floats of shape {want}: {meaning}"
    row = jax.ShapeDtypeStruct((1, spec.n_inputs), np.float32)
    local = None if network.local_shape is None else jax.ShapeDtypeStruct((1, *network.local_shape), np.float32)
    try:
        if network.memory:
            memory = jax.ShapeDtypeStruct((1, network.memory), np.float32)
            pair: Any = jax.eval_shape(network.step, row, local, memory)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(
                    f"{argument}: {name} has an attribute memory and returns {shown(pair)}, want a pair of its output "
                    "and its memory"
                )
            out, after = pair
            if after.shape != memory.shape:
                raise ValueError(
                    f"{argument}: {name} returns a memory of shape {after.shape[1:]}, want ({network.memory},), its "
                    "attribute memory"
                )
        else:
            out = jax.eval_shape(network, row, local)
    except Exception as error:
        # A note leaves the error and its traceback as they are, which lead to the line in the user's module.
        error.add_note(f"{argument}: in {name}, {CONTRACT} {wanted}")
        raise
    got, kind = getattr(out, "shape", (None,))[1:], getattr(out, "dtype", type(out).__name__)
    if got != want or not jnp.issubdtype(kind, jnp.floating):
        raise ValueError(f"{argument}: {name} returns shape {got} of {kind} for one observation, want {wanted}")
