"""The product distribution over all components of an action, with one log-probability per component."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._checks import checked
from .base import KINDS, Distribution, GaussianChoice
from .covariance import Spread, colouring, mix, variance_ratio, whitening
from .functions import Array, namespace


class ComponentGroup(NamedTuple):
    """The components that have one kind of distribution."""

    distribution: Distribution
    components: np.ndarray
    """Indices of the components, ``(k,)``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Product:
    """Independent components, each with a distribution from `KINDS`.

    The policy network returns *parameters* ``(..., c, width)``; each component uses as many of them as its kind needs.
    The `Spread` of Gaussian components is a separate parameter. Gaussian components of one factor may have a full
    covariance (`covariance.py`); their log-probabilities and entropies are then those *given the earlier components of
    the factor*.

    Arrays may be from NumPy or JAX; sampling uses JAX. Actions are *raw*, ``(..., c)``; `within` converts them to the
    actions that an environment receives.
    """

    kinds: tuple[str, ...]
    """Name of the distribution of each component, a key of `KINDS`."""
    choices: np.ndarray
    """Number of choices of each component, ``(c,)``; 0 for continuous components."""
    low: np.ndarray
    high: np.ndarray
    """Bounds of each component, ``(c,)``; infinite if there are none."""
    blocks: np.ndarray | None = None
    """Gaussian components of each factor with a full covariance, ``(f, g)``, padded with c; None if there are none."""
    settings: GaussianChoice = field(default_factory=GaussianChoice)
    """Which log σ Gaussian components have, and its initial value."""

    def __post_init__(self) -> None:
        for name in self.kinds:
            if name not in KINDS:
                raise ValueError(f"kinds: got {name!r}, want one of {', '.join(KINDS)}; `register` adds a kind")

    def __getstate__(self) -> dict[str, Any]:
        # Without cached properties, which hold functions, and with the classes, because a worker may not have imported
        # the module in which a user's kind is registered.
        fields = {name: self.__dict__[name] for name in self.__dataclass_fields__}
        return fields | {"classes": {name: KINDS[name] for name in self.kinds}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, kind in state.pop("classes").items():
            KINDS.setdefault(name, kind)
        self.__dict__.update(state)

    def __len__(self) -> int:
        return len(self.kinds)

    @cached_property
    def groups(self) -> tuple[ComponentGroup, ...]:
        """The components by kind, in the order in which the kinds first occur."""
        names = np.array(self.kinds)
        groups = []
        for name in dict.fromkeys(self.kinds):
            index = np.flatnonzero(names == name)
            distribution = KINDS[name](low=self.low[index], high=self.high[index], choices=self.choices[index])
            groups.append(ComponentGroup(distribution, index))
        return tuple(groups)

    @cached_property
    def width(self) -> int:
        """The largest number of parameters of a component, plus one for log σ if that depends on the state."""
        return max(group.distribution.width for group in self.groups) + self.spread_of_state

    @cached_property
    def discrete(self) -> np.ndarray:
        """Which components are discrete, booleans ``(c,)``."""
        return np.array([KINDS[kind].discrete for kind in self.kinds])

    @cached_property
    def has_spread(self) -> np.ndarray:
        """Which components are Gaussian before clipping or squashing, booleans ``(c,)``."""
        return np.array([KINDS[kind].has_spread for kind in self.kinds])

    @cached_property
    def spread_of_state(self) -> bool:
        """Whether the last parameter of each component is added to its log σ, which then depends on the state."""
        return self.settings.std == "state" and bool(self.has_spread.any())

    def spread(self, log_std: float | None = None) -> Spread:
        """Return the initial spread of uncorrelated components, as JAX arrays.

        - `log_std`: log σ of all components; by default that of the settings, or else of their kinds.
        """
        log_std = self.settings.initial_log_std if checked("log_std", log_std, float | None) is None else log_std
        from .._arrays import on_device, zeros

        f, g = (0, 0) if self.blocks is None else self.blocks.shape
        initial = [KINDS[kind].initial_log_std if log_std is None else log_std for kind in self.kinds]
        if self.settings.std == "shared":
            initial = [next((x for x, has in zip(initial, self.has_spread, strict=True) if has), 0.0)]
        return Spread(on_device(initial, np.float32), zeros((f, g, g)))

    # ---- log-probability, entropy, divergence -------------------------------------------------------------------

    def log_prob(self, parameters: Array, spread: Spread, action: Array) -> Array:
        """Return log π of each component, ``(..., c)``."""
        if self.blocks is not None:  # with the mean of each component given the earlier ones of its factor
            residual = mix(self.blocks, whitening(spread.mixing), action - parameters[..., 0])
            parameters = self._with_mean(parameters, action - residual)
        log_std = self._log_std(parameters, spread)
        return self._by_kind(lambda kind, *arrays: kind.log_prob(*arrays), [parameters], action, log_std)

    def entropy(self, parameters: Array, spread: Spread) -> Array:
        """Return the entropy of each component, ``(..., c)``; for a squashed Gaussian, the entropy before the tanh."""
        log_std = self._log_std(parameters, spread)
        return self._by_kind(lambda kind, *arrays: kind.entropy(*arrays), [parameters], log_std)

    def kl(self, old: tuple[Array, Spread], new: tuple[Array, Spread]) -> Array:
        """Return KL(old ‖ new) of each component, ``(..., c)``; both are pairs of parameters and a spread."""
        (x, before), (y, after) = ((parameters, self._log_std(parameters, spread)) for parameters, spread in (old, new))

        def of_kind(kind: Distribution, x: Array, y: Array, before: Array, after: Array) -> Array:
            return kind.kl((x, before), (y, after))

        if self.blocks is None:
            return self._by_kind(of_kind, [x, y], before, after)
        # The divergence given the earlier components, on average over those: what they do not explain of the old mean
        # and variance under the new covariance. The logarithm of the variances is that of σ alone.
        x = self._with_mean(x, y[..., 0] + mix(self.blocks, whitening(new[1].mixing), x[..., 0] - y[..., 0]))
        unexplained = after + 0.5 * namespace(x).log(variance_ratio(self.blocks, old[1], new[1]))
        return self._by_kind(of_kind, [x, y], unexplained, after) + unexplained - before

    def mode(self, parameters: Array) -> Array:
        """Return the most probable raw actions, ``(..., c)``; for a squashed Gaussian, those before the tanh."""
        return self._by_kind(lambda kind, parameters: kind.mode(parameters), [parameters])

    def standardised(
        self, parameters: np.ndarray, spread: Spread, action: np.ndarray, between: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return scores of mean 0 and variance 1 given the state, and F(a|s), both ``(..., c)``, with NumPy.

        For choices, F is a point between F below a and F at a, at the fraction `between` ∈ [0, 1).
        """
        log_std = np.asarray(self._log_std(parameters, spread))
        of_kind = lambda kind, *arrays: np.stack(kind.standardised(*arrays))  # noqa: E731
        scores, uniforms = self._by_kind(of_kind, [parameters], action, between, log_std)
        return scores, uniforms

    @cached_property
    def directions(self) -> np.ndarray:
        """Directions in parameter space that shift the action of each component upwards, ``(c, width)``."""
        directions = np.zeros((len(self), self.width), np.float32)
        for distribution, index in self.groups:
            directions[index, : distribution.width] = distribution.direction
        return directions

    def neutral(self) -> tuple[Any, Spread]:
        """Return parameters ``(c, width)`` and the spread of a policy that explores independently of the state."""
        import jax.numpy as jnp

        parameters, deviation = np.zeros((len(self), self.width), np.float32), np.ones(len(self))
        for distribution, index in self.groups:
            parameters[index, : distribution.width], deviation[index] = distribution.neutral()
        log_std = jnp.log(jnp.asarray(deviation, jnp.float32))
        return jnp.asarray(parameters), self.spread(0.0)._replace(log_std=log_std)

    # ---- sampling ---------------------------------------------------------------------------------------------

    def sample(self, key: Any, parameters: Array, spread: Spread) -> Array:
        """Draw raw actions ``(..., c)`` with a JAX key."""
        import jax

        def of_kind(kind: Distribution, parameters: Array, log_std: Array) -> Array:
            nonlocal key
            key, part_key = jax.random.split(key)
            return kind.sample(part_key, parameters, log_std)

        drawn = self._by_kind(of_kind, [parameters], self._log_std(parameters, spread))
        if self.blocks is None:
            return drawn
        mean = jax.numpy.asarray(parameters)[..., 0]
        # Deviations are mixed, not actions, whose means are those of the network.
        mixed = mean + mix(self.blocks, colouring(spread.mixing), drawn - mean)
        return jax.numpy.where(self.has_spread, mixed, drawn)

    def noise(
        self, rng: np.random.Generator, n_steps: int, log_std: np.ndarray, mixing: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the random part of `n_steps` actions for `choose` with NumPy, float32 ``(T, c, width)``.

        `log_std` and `mixing` are those of a `Spread`; without a covariance, `mixing` is not needed.
        """
        noise = np.zeros((n_steps, len(self), self.width), np.float32)
        log_std = np.broadcast_to(log_std, len(self))
        for distribution, index in self.groups:
            noise[:, index, : distribution.width] = distribution.noise(rng, n_steps, log_std[index])
        if self.blocks is not None:
            noise[..., 0] = mix(self.blocks, colouring(mixing), noise[..., 0])
        return noise

    def choose(self, parameters: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return raw actions ``(..., c)`` from parameters and noise, both ``(..., c, width)``, with NumPy."""
        if self.spread_of_state:
            # `noise` was drawn before the state was known, with the rest of σ.
            wider = np.where(self.has_spread, np.exp(parameters[..., -1]), np.float32(1))
            noise = noise * wider[..., None]
        if len(self.groups) == 1:  # every step of an environment comes here
            return self.groups[0].distribution.choose(parameters, noise)
        return self._by_kind(lambda kind, *parts: kind.choose(*parts), [parameters, noise])

    def within(self, action: Array, xp: Any) -> Array:
        """Return the actions within the bounds of the space for raw actions ``(..., c)``."""
        if self._limits is None:
            return action
        low, high, rescaled = self._limits
        for kind, mask in rescaled:
            scaled = kind.rescale(action)
            action = scaled if mask is None else xp.where(mask, scaled, action)
        return xp.minimum(xp.maximum(action, low), high)

    @cached_property
    def _limits(self) -> tuple[np.ndarray, np.ndarray, list[tuple[Distribution, np.ndarray | None]]] | None:
        """Finite bounds of each component, ``(c,)``, and the kinds that rescale raw actions; None if all components are
        choices.

        Kinds are over all components, with a mask ``(c,)`` of those that have the kind, or None for all: in every step
        of an environment, a gather would take longer than to rescale too many.
        """
        if self.discrete.all():
            return None
        names, rescaled = np.array(self.kinds), []
        for name in (kind.name for kind, _ in self.groups if kind.rescales):
            mask = names == name
            low, high = np.where(mask, self.low, np.float32(-1)), np.where(mask, self.high, np.float32(1))
            over_all = KINDS[name](low=low, high=high, choices=self.choices)
            rescaled.append((over_all, None if mask.all() else mask))
        low = np.where(np.isfinite(self.low), self.low, np.float32(-1e30))
        return low, np.where(np.isfinite(self.high), self.high, np.float32(1e30)), rescaled

    # ---- components of a kind ---------------------------------------------------------------------------------

    def _log_std(self, parameters: Array, spread: Spread) -> Array:
        """Return log σ of each component, ``(c,)``, or ``(..., c)`` if it depends on the state."""
        log_std = spread.log_std
        if log_std.shape == (1,):  # shared by all
            log_std = namespace(log_std).broadcast_to(log_std, (len(self),))
        return log_std + parameters[..., -1] if self.spread_of_state else log_std

    def _with_mean(self, parameters: Array, mean: Array) -> Array:
        """Return parameters with another mean of the Gaussian components, ``(..., c)``."""
        xp = namespace(parameters, mean)
        first = xp.where(self.has_spread, mean, parameters[..., 0])[..., None]
        others = xp.broadcast_to(parameters[..., 1:], (*first.shape[:-1], self.width - 1))
        return xp.concatenate([first, others], axis=-1)

    def _by_kind(self, function: Callable[..., Array], parameters: list[Array], *arrays: Array) -> Array:
        """Return the results of a function of each kind, ``(..., k)``, in the order of the components, ``(..., c)``.

        Its arguments are the kind, its part of each array of `parameters`, ``(..., k, its width)``, and of each other
        array, ``(..., k)``.
        """
        if len(self.groups) == 1:  # without a gather
            kind = self.groups[0].distribution
            return function(kind, *(x[..., : kind.width] for x in parameters), *arrays)
        parts = [
            function(kind, *(x[..., index, : kind.width] for x in parameters), *(x[..., index] for x in arrays))
            for kind, index in self.groups
        ]
        order = np.argsort(np.concatenate([index for _, index in self.groups]))
        return namespace(*parts).concatenate(parts, axis=-1)[..., order]
