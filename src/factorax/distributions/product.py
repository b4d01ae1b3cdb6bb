"""The product distribution over all components of an action, with one log-probability per component."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_type, checked, real_array, shown
from .base import KINDS, Distribution, GaussianChoice
from .covariance import Spread, colouring, mix, variance_ratio, whitening
from .functions import Array, namespace
from .gaussian import Gaussian

_NONE = object()


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
        check_type("kinds", self.kinds, tuple, "a tuple of names, one per component")
        for name in self.kinds:
            if name not in KINDS:
                raise ValueError(f"kinds: got {name!r}, want one of {', '.join(KINDS)}; `register` adds a kind")
        if not self.kinds:
            raise ValueError("kinds: got (), want at least one component")
        for name in ("choices", "low", "high"):
            array = real_array(name, getattr(self, name), finite=False)
            if array.shape != (len(self),) or np.isnan(array).any():
                raise ValueError(f"{name}: got {shown(array)}, want {len(self)} numbers, one per component")
        if np.asarray(self.choices).dtype.kind not in "iu" or np.min(self.choices) < 0:
            raise ValueError(f"choices: got {shown(self.choices)}, want whole numbers ≥ 0")
        if (np.asarray(self.low) > np.asarray(self.high)).any():
            raise ValueError(f"low, high: got {shown(self.low)} and {shown(self.high)}, want low ≤ high")
        check_type("settings", self.settings, GaussianChoice, "a GaussianChoice")
        if self.blocks is not None and np.ndim(self.blocks) != 2:
            raise ValueError(f"blocks: got {shown(self.blocks)}, want an array (f, g), or None")

    def __getstate__(self) -> dict[str, Any]:
        # Send workers only the fields: cached properties hold functions, which cannot be pickled. The classes go with
        # them, because a worker may not have imported the module in which a user's kind is registered.
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
    def _single(self) -> Distribution | None:
        """The distribution of all components if they have the same kind, otherwise None."""
        return self.groups[0].distribution if len(self.groups) == 1 else None

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

    def log_prob(self, parameters: Array, spread: Spread, action: Array, *, whiten: Any = None) -> Array:
        """Return log π of each component, ``(..., c)``.

        `whiten` is I − W of the spread's covariance, if it has already been computed.
        """
        self._check(parameters, spread=spread, action=action)
        spread = self._of_state(parameters, spread)
        residual = self._residual(action, parameters, spread, whiten)
        parts = []
        for distribution, index in self.groups:
            a, log_std = self._of_kind(action, index), self._of_kind(spread.log_std, index)
            if isinstance(distribution, Gaussian):
                parts.append(distribution.log_prob_of_residual(self._of_kind(residual, index), a, log_std))
            else:
                parts.append(distribution.log_prob(self._parameters(parameters, distribution, index), a, log_std))
        return self._in_order(parts)

    def _residual(self, action: Array, parameters: Array, spread: Spread, whiten: Any = None) -> Array:
        """Return ε of each Gaussian component, ``(..., c)``."""
        deviation = action - parameters[..., 0]
        if self.blocks is not None:
            deviation = mix(self.blocks, whitening(spread.mixing) if whiten is None else whiten, deviation)
        return deviation * namespace(spread.log_std).exp(-spread.log_std)

    def entropy(self, parameters: Array, spread: Spread) -> Array:
        """Return the entropy of each component, ``(..., c)``; for a squashed Gaussian, the entropy before the tanh."""
        self._check(parameters, spread=spread)
        spread = self._of_state(parameters, spread)
        return self._in_order(
            [
                kind.entropy(self._parameters(parameters, kind, index), self._of_kind(spread.log_std, index))
                for kind, index in self.groups
            ]
        )

    def kl(self, old: tuple[Array, Spread], new: tuple[Array, Spread]) -> Array:
        """Return KL(old ‖ new) of each component, ``(..., c)``; both are pairs of parameters and a spread."""
        for name, pair in (("old", old), ("new", new)):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"{name}: got {shown(pair)}, want a pair of parameters and spread")
            self._check(pair[0], spread=pair[1], name=name)
        old, new = ((parameters, self._of_state(parameters, spread)) for parameters, spread in (old, new))
        distance = self._residual(old[0][..., 0], *new) ** 2
        ratio, wider = variance_ratio(self.blocks, old[1], new[1]), new[1].log_std - old[1].log_std
        parts = []
        for distribution, index in self.groups:
            if isinstance(distribution, Gaussian):
                parts.append(
                    distribution.kl_of_residual(
                        self._of_kind(distance, index), self._of_kind(ratio, index), self._of_kind(wider, index)
                    )
                )
            else:
                pairs = [
                    (self._parameters(x, distribution, index), self._of_kind(s.log_std, index)) for x, s in (old, new)
                ]
                parts.append(distribution.kl(*pairs))
        return self._in_order(parts)

    def mode(self, parameters: Array) -> Array:
        """Return the most probable raw actions, ``(..., c)``; for a squashed Gaussian, those before the tanh."""
        self._check(parameters)
        return self._in_order([kind.mode(self._parameters(parameters, kind, index)) for kind, index in self.groups])

    def standardised(
        self, parameters: np.ndarray, spread: Spread, action: np.ndarray, between: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return scores of mean 0 and variance 1 given the state, and F(a|s), both ``(..., c)``, with NumPy.

        For choices, F is a point between F below a and F at a, at the fraction `between` ∈ [0, 1).
        """
        log_std = np.asarray(self._of_state(parameters, spread).log_std)
        pairs = [
            kind.standardised(
                self._parameters(parameters, kind, index),
                self._of_kind(action, index),
                self._of_kind(between, index),
                self._of_kind(log_std, index),
            )
            for kind, index in self.groups
        ]
        scores, uniforms = zip(*pairs, strict=True)
        return self._in_order(list(scores)), self._in_order(list(uniforms))

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
        self._check(parameters, spread=spread)
        if not hasattr(key, "dtype") or not (str(key.dtype).startswith("key<") or np.shape(key)[-1:] == (2,)):
            raise TypeError(f"key: got {shown(key)}, want a JAX random key, such as jax.random.key(0)")
        spread = self._of_state(parameters, spread)
        import jax

        parts = []
        for distribution, index in self.groups:
            key, part_key = jax.random.split(key)
            log_std = self._of_kind(spread.log_std, index)
            if isinstance(distribution, Gaussian):  # the mean is added below, after the deviations are mixed
                shape = (*parameters.shape[:-2], len(index))
                parts.append(distribution.deviation(part_key, shape, log_std))
            else:
                its_parameters = self._parameters(parameters, distribution, index)
                parts.append(distribution.sample(part_key, its_parameters, log_std))
        drawn = self._in_order(parts)
        if not self.has_spread.any():
            return drawn
        deviation = drawn if self.blocks is None else mix(self.blocks, colouring(spread.mixing), drawn)
        return jax.numpy.where(self.has_spread, deviation + parameters[..., 0], drawn)

    def noise(
        self, rng: np.random.Generator, n_steps: int, log_std: np.ndarray, colour: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw the random part of `n_steps` actions for `choose` with NumPy, float32 ``(T, c, width)``.

        `colour` is (I − W)⁻¹ of each factor with a covariance, ``(f, g, g)``.
        """
        noise, log_std = np.zeros((n_steps, len(self), self.width), np.float32), self._of_each(log_std)
        for distribution, index in self.groups:
            noise[:, index, : distribution.width] = distribution.noise(rng, n_steps, log_std[index])
        if self.blocks is not None:
            assert colour is not None
            noise[..., 0] = mix(self.blocks, colour, noise[..., 0])
        return noise

    def choose(self, parameters: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return raw actions ``(..., c)`` from parameters and noise, both ``(..., c, width)``, with NumPy."""
        if self.spread_of_state:
            wider = np.where(self.has_spread, np.exp(parameters[..., -1]), np.float32(1))
            noise = noise * wider[..., None]
        if self._single is not None:
            return self._single.choose(parameters, noise)
        perturbed = parameters + noise
        actions = np.empty(perturbed.shape[:-1], np.float32)
        for distribution, components, columns in self._choosing:
            if distribution.additive:
                actions[components] = distribution.pick(perturbed[columns])
            else:
                actions[components] = distribution.choose(parameters[columns], noise[columns])
        return actions

    @cached_property
    def _choosing(self) -> list[tuple[Distribution, Any, Any]]:
        """Each kind with the indices of its actions and of its parameters, cached because `choose` runs in every
        step."""
        return [(kind, (..., index), (..., index, slice(0, kind.width))) for kind, index in self.groups]

    # ---- bounds -----------------------------------------------------------------------------------------------

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Finite bounds of each component, ``(c,)``; None if all components are choices."""
        if self.discrete.all():
            return None
        low = np.where(np.isfinite(self.low), self.low, np.float32(-1e30))
        return low, np.where(np.isfinite(self.high), self.high, np.float32(1e30))

    @cached_property
    def _rescaled(self) -> list[tuple[Distribution, np.ndarray | None]]:
        """The kinds that rescale raw actions, each over all components, with a mask ``(c,)`` of its own components.

        The mask is None if all components have this kind.
        """
        names, rescaled = np.array(self.kinds), []
        for kind, _ in self.groups:
            if kind.rescales:
                mask = names == kind.name
                low, high = np.where(mask, self.low, np.float32(-1)), np.where(mask, self.high, np.float32(1))
                over_all = KINDS[kind.name](low=low, high=high, choices=self.choices)
                rescaled.append((over_all, None if mask.all() else mask))
        return rescaled

    def within(self, action: Array, xp: Any) -> Array:
        """Return the actions within the bounds of the space for raw actions ``(..., c)``."""
        if self._bounds is None:
            return action
        for distribution, mask in self._rescaled:
            scaled = distribution.rescale(action)
            action = scaled if mask is None else xp.where(mask, scaled, action)
        low, high = self._bounds
        return xp.minimum(xp.maximum(action, low), high)

    # ---- components of a kind ---------------------------------------------------------------------------------

    def _check(self, parameters: Any, *, spread: Any = _NONE, action: Any = _NONE, name: str = "") -> None:
        """Raise if arrays do not have the shapes of this product. Reads no values, so JAX may trace them."""
        want = (len(self), self.width)
        if np.shape(parameters)[-2:] != want or not hasattr(parameters, "dtype"):
            got = np.shape(parameters) or shown(parameters)
            raise TypeError(f"{name or 'parameters'}: got {got}, want an array of shape (..., {want[0]}, {want[1]})")
        if spread is not _NONE:
            check_type(name or "spread", spread, Spread, "a Spread, such as the method spread() returns")
        if action is not _NONE and (np.shape(action)[-1:] != want[:1] or not hasattr(action, "dtype")):
            raise TypeError(f"action: got {np.shape(action) or shown(action)}, want an array of shape (..., {want[0]})")

    def _of_each(self, log_std: Any) -> Any:
        """Return log σ of each component, also if one value is shared by all."""
        return namespace(log_std).broadcast_to(log_std, (len(self),)) if log_std.shape == (1,) else log_std

    def _of_state(self, parameters: Array, spread: Spread) -> Spread:
        """Return the spread for these parameters: log σ is ``(c,)``, or ``(..., c)`` if it depends on the state."""
        log_std = self._of_each(spread.log_std)
        return spread._replace(log_std=log_std + parameters[..., -1] if self.spread_of_state else log_std)

    def _parameters(self, parameters: Array, distribution: Distribution, index: np.ndarray) -> Array:
        """Return the parameters used by one kind, ``(..., k, its width)``."""
        return self._of_kind(parameters, index, axis=-2)[..., : distribution.width]

    def _of_kind(self, x: Array, index: np.ndarray, axis: int = -1) -> Array:
        """Return the components of one kind along an axis, without a gather if all components have this kind."""
        if self._single is not None:
            return x
        return x[..., index] if axis == -1 else x[..., index, :]

    def _in_order(self, parts: list[Array]) -> Array:
        """Return values grouped by kind, each ``(..., k)``, in the order of the components, ``(..., c)``."""
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.concatenate([index for _, index in self.groups]))
        return namespace(*parts).concatenate(parts, axis=-1)[..., order]
