"""`Spec`: everything that is fixed before training starts, worked out and checked once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from ._checks import check_function, check_type, checked, real_array, shown
from .distributions import Bounded
from .observations import ObservationSpace
from .problems.problem import Problem
from .problems.vectors import OneOfMany, is_vector
from .spaces import ActionMask, ActionSpace
from .structure import BaseNetwork, InfluenceNetwork
from .structure.checks import network_of
from .structure.labels import counted

MASK = "['action_mask']"
"""Where the mask of valid choices is in a Dict of observations."""


def is_jax(problem: Any) -> bool:
    """Return whether a problem is a JAX `Problem`, stepped inside compiled programs, and not a function that makes an
    environment."""
    return isinstance(problem, Problem)


def check_callable(problem: Any) -> None:
    """Raise TypeError for what is neither a `Problem` nor a function that makes an environment."""
    if not callable(problem):
        raise TypeError(
            f"problem: got {type(problem).__name__}, want a Problem or a function that makes a gymnasium.Env, "
            "as in lambda: gym.make('CartPole-v1')"
        )


@contextmanager
def opened(problem: Any) -> Iterator[Any]:
    """Return what a problem is described by: a JAX `Problem` itself, or an environment made for the moment and then
    closed; if that is a vector of environments, one of them."""
    if is_jax(problem):
        yield problem
        return
    check_callable(problem)
    env: Any = problem()
    if not hasattr(env, "action_space") or not hasattr(env, "observation_space"):
        raise TypeError(f"problem: got a function that returns {shown(env)}, want one that makes a gymnasium.Env")
    try:
        yield OneOfMany(env) if is_vector(env) else env
    finally:
        env.close()


def declared_network(source: Any) -> BaseNetwork | None:
    """Return the network that a problem or environment has as an attribute, if it has one."""
    return getattr(getattr(source, "unwrapped", source), "network", None)


@dataclass(frozen=True, eq=False, kw_only=True)
class Spec:
    """A problem as training sees it: spaces, components, factors, network, λ, local observations.

    `Spec.of` works it out from a problem; `Spec.of_spaces` from spaces and a network alone, where someone else steps
    the environment.

    >>> from factorax.problems import chain
    >>> spec = Spec.of(chain(3))
    >>> spec.n_factors, spec.n_targets, spec.is_jax
    (3, 3, True)
    """

    observation_space: gym.Space
    action_space: gym.Space
    components: ActionSpace
    """The action space as a flat list of components, with their distributions."""
    network: BaseNetwork
    """Which factor influences which target: a row for every component of the action space, or for every factor."""
    weights: np.ndarray
    """The weights λ, ``(m,)``."""
    problem: Problem | Callable[[], gym.Env] | None = None
    """A JAX problem, or a function that makes an environment; None if someone else steps it."""
    local: Callable[[Any], Any] | None = None
    """From observations ``(..., d)`` to what every factor sees, ``(..., n, l)``, or every component, ``(..., c, l)``;
    None if all see everything."""
    local_is_own: bool = False
    """Whether `local` comes from the problem, so that workers can take it from their own environments."""
    one_per_process: bool = False
    """Whether a process can hold only one such environment, as its ``metadata["one_per_process"]`` says."""
    num_envs: int | None = None
    """How many environments the problem makes at a time, if that is a vector environment; None if it makes one."""
    raw_actions: bool = False
    """Whether actions without bounds are meant in raw units, as its ``metadata["raw_actions"]`` says."""
    network_is_default: bool = False
    """Whether nobody gave a network: all actions then influence one target, the reward."""
    network_is_own: bool = False
    """Whether the network is the problem's own, and not one that the user gave, here or to `fx.wrap`."""
    neighbours: np.ndarray | None = None
    """Which factors are neighbours, booleans ``(n, n)``, for policies in which they hear of each other; None if nobody
    says."""
    observed_info: tuple[tuple[str, int, int], ...] = ()
    """Names of the `info` entries that are part of observations, and where each begins and ends there."""

    @classmethod
    def of(
        cls,
        problem: Any,
        network: Any = None,
        *,
        weights: Any = None,
        local: Any = None,
        neighbours: Any = None,
        bounded: Bounded = "scale",
        covariance: Literal["diagonal", "full"] = "diagonal",
        std: Literal["component", "shared", "state"] = "component",
    ) -> "Spec":
        """Describe a problem; what is left out is taken from the problem itself.

        - `problem`: a JAX `Problem`, or a function that makes a Gymnasium environment or vector environment.
        - `network`: a `BaseNetwork`, such as an `InfluenceNetwork`; or a plain matrix, for a network without names.
        - `weights`, `local`, `neighbours`: as the fields; `bounded`, `covariance`, `std`: as in
          `factorax.learning.Config`.
        """
        with opened(problem) as source:
            inner = getattr(source, "unwrapped", source)
            given = network
            network_is_own = network is None and not getattr(inner, "network_is_given", False)
            network = declared_network(source) if network is None else network
            network_is_default = network is None
            if network_is_default:  # one target, the reward: plain PPO
                network = InfluenceNetwork.complete(len(ActionSpace.of(source.action_space)), 1)
            if weights is None:
                weights = getattr(inner, "weights", None)
                if given is not None:
                    _check_targets(given, weights)
            own_local = getattr(inner, "local", None) if local is None else None
            if neighbours is None and not is_jax(problem):  # a JAX problem says so in `graph`, if anybody asks
                neighbours = getattr(inner, "neighbours", None)
            observed_info = getattr(inner, "observed_info", ())
            metadata = getattr(source, "metadata", None) or {}
            if observed_info and source.observation_space.shape != inner.observation_space.shape:
                raise ValueError(
                    f"problem: its observations have the shape {source.observation_space.shape}, and {inner} gives "
                    f"{inner.observation_space.shape}, so that what it observes of info cannot be found in them; put "
                    "the wrappers that change observations inside fx.wrap"
                )
            return cls.of_spaces(
                source.observation_space,
                source.action_space,
                network,
                weights=weights,
                bounded=bounded,
                covariance=covariance,
                std=std,
                problem=problem,
                local=own_local if local is None else local,
                neighbours=neighbours,
                local_is_own=own_local is not None,
                one_per_process=metadata.get("one_per_process", False),
                num_envs=source.num_envs if isinstance(source, OneOfMany) else None,
                raw_actions=metadata.get("raw_actions", False),
                network_is_default=network_is_default,
                network_is_own=network_is_own and not network_is_default,
                observed_info=observed_info,
            )

    @classmethod
    def of_spaces(
        cls,
        observation_space: gym.Space,
        action_space: gym.Space,
        network: Any,
        *,
        weights: Any = None,
        bounded: Bounded = "scale",
        covariance: Literal["diagonal", "full"] = "diagonal",
        std: Literal["component", "shared", "state"] = "component",
        **fields: Any,
    ) -> "Spec":
        """Describe spaces and a network; raises if factors, components and λ do not fit together. λ is one if left
        out."""
        network = network_of(network, "network")
        if not isinstance(network, BaseNetwork):
            got = repr(network) if isinstance(network, str) else type(network).__name__
            raise TypeError(
                f"network: got {got}, want an InfluenceNetwork, or one that varies: a NetworkSchedule, a "
                "StateNetwork, a LaggedNetwork, an AdaptiveNetwork or your own BaseNetwork; FactoredPPO also takes "
                "'adaptive'"
            )
        m = network.static.shape[1]
        weights = np.ones(m) if weights is None else real_array("weights", weights).astype(np.float64)
        if weights.shape != (m,):
            raise ValueError(f"weights: got {shown(weights.tolist())}, want ({m},), one λ for each target")
        checked("covariance", covariance, Literal["diagonal", "full"])
        if fields.get("local") is not None:
            check_function("local", fields["local"], "a function from observations to those of each factor, or None")
        if fields.get("neighbours") is not None:
            fields["neighbours"] = _symmetric("neighbours", fields["neighbours"], network.static.shape[0])
        components = ActionSpace.of(action_space, bounded=bounded)
        factors = _factor_of_component(network.static, len(components))
        if checked("std", std, Literal["component", "shared", "state"]) == "state":
            components = components.with_spread_of_state()
        if covariance == "full" and factors is not None:
            components = components.with_covariance(factors)
        spec = cls(
            observation_space=observation_space,
            action_space=action_space,
            components=components,
            network=network,
            weights=weights,
            **fields,
        )
        _ = spec.action_mask  # raises if it does not fit
        jax.eval_shape(spec._check_observations, jax.ShapeDtypeStruct((1, 1, spec.n_inputs), np.float32))
        return spec

    def with_network(self, network: Any) -> "Spec":
        """Return the same problem with another network, over as many targets."""
        network = network_of(network, "network")
        check_type("network", network, BaseNetwork, "an InfluenceNetwork, or one that varies")
        _factor_of_component(network.static, len(self.components))  # raises if its rows do not fit
        return replace(self, network=network, network_is_own=False)

    @property
    def is_jax(self) -> bool:
        """Whether the problem is stepped inside compiled programs."""
        return is_jax(self.problem)

    @property
    def n_factors(self) -> int:
        """Rows n of the network."""
        return self.network.static.shape[0]

    @property
    def n_targets(self) -> int:
        """Columns m of the network."""
        return self.network.static.shape[1]

    @cached_property
    def factors(self) -> np.ndarray | None:
        """The factor that every component belongs to, ``(c,)``; None if each component is a factor of its own."""
        return _factor_of_component(self.network.static, len(self.components))

    @cached_property
    def groups(self) -> list[np.ndarray]:
        """The components of every factor."""
        of = np.arange(self.n_factors) if self.factors is None else self.factors
        return [np.flatnonzero(of == i) for i in range(self.n_factors)]

    @property
    def unscaled(self) -> tuple[str, ...]:
        """Names of the components of Boxes that lack a bound, so that actions cannot be scaled to them."""
        names, indices = self.network.static.actions, self.components.unscaled
        return tuple(names[k] if self.factors is None else f"component {k}" for k in indices)

    @cached_property
    def observations(self) -> ObservationSpace:
        """The observation space as rows of numbers, and its structure."""
        observations = ObservationSpace.of(self.observation_space)
        return replace(observations, flags=self._mask_columns(observations) or (0, 0))

    @cached_property
    def action_mask(self) -> ActionMask | None:
        """Which choices are valid, as a part of the observation called ``action_mask`` says: an entry of a Dict, or
        what `fx.wrap` observes of `info`; None if there is no such part."""
        columns = self._mask_columns(ObservationSpace.of(self.observation_space))
        return None if columns is None else ActionMask.of(self.components, *columns)

    def _mask_columns(self, observations: ObservationSpace) -> tuple[int, int] | None:
        for part in observations.parts:
            if part.where == MASK:
                return part.start, part.start + part.size
        return next(((start, end) for name, start, end in self.observed_info if name == "action_mask"), None)

    @property
    def n_inputs(self) -> int:
        """Numbers d in an observation."""
        return self.observations.size

    @cached_property
    def graph(self) -> np.ndarray:
        """Which factors are neighbours, booleans ``(n, n)``: as `neighbours` says; if it does not, those that influence
        the same target."""
        if self.neighbours is not None:
            return self.neighbours
        own = getattr(self.problem, "neighbours", None) if self.is_jax else None
        if own is not None:
            return _symmetric("neighbours", own, self.n_factors)
        edges = self.network.static.to_dense() != 0
        return edges @ edges.T

    def _check_observations(self, obs: Any) -> None:
        info = {name: obs[..., start:end] for name, start, end in self.observed_info}
        mask = jnp.ones((*obs.shape[:-1], self.n_factors), bool)  # some problems give one
        self.network.check_observations(obs, info | {"factor_mask": mask})

    def see(self, obs: Any, xp: Any) -> Any:
        """Return what every component sees of observations ``(..., d)``, ``(..., c, l)``: its own local observation,
        that of its factor, or everything."""
        if self.local is None:
            obs = self.observations.encoded(obs, xp)
            return xp.broadcast_to(obs[..., None, :], (*obs.shape[:-1], len(self.components), obs.shape[-1]))
        local = self._local_rows(obs, xp)
        own = self.factors is None or local.shape[-2] != self.n_factors
        return local if own else local[..., self.factors, :]

    def _local_rows(self, obs: Any, xp: Any = jnp) -> Any:
        """Return what `local` returns for observations ``(..., d)``."""
        assert self.local is not None
        return self.local(obs if self.observations.is_plain else self.observations.structured(obs, xp))

    @cached_property
    def seen_by_factor(self) -> np.ndarray:
        """The components whose local observations together are that of each factor, ``(n, g)``, padded with c: the
        first one of a factor if all its components see the same, else all of them."""
        row = np.zeros(self.n_inputs, np.float32)  # an array of NumPy: what a user wrote may be of NumPy alone
        same = self.local is None or np.shape(self._local_rows(row, np))[-2] == self.n_factors
        groups = [group[:1] if same else group for group in self.groups]
        index = np.full((len(groups), max(map(len, groups))), len(self.components))
        for each, group in zip(index, groups, strict=True):
            each[: len(group)] = group
        return index


def _symmetric(name: str, given: Any, n: int) -> np.ndarray:
    """Return a relation of factors as booleans ``(n, n)``."""
    matrix = np.asarray(given.toarray() if hasattr(given, "toarray") else given)
    if matrix.shape != (n, n) or matrix.dtype.kind not in "biuf" or (matrix != matrix.T).any():
        raise ValueError(f"{name}: got {shown(given)}, want a symmetric matrix ({n}, {n}), a row for each factor")
    return matrix != 0


def _check_targets(network: Any, weights: Any) -> None:
    """Raise if a network has another number of targets than the weights that the problem has itself."""
    static = getattr(network_of(network, "network"), "static", None)
    if static is not None and weights is not None and np.shape(weights) != (static.shape[1],):
        raise ValueError(
            f"network: has {counted(static.shape[1], 'column')}, and the problem has weights of shape "
            f"{np.shape(weights)}; want one column for each target of the problem"
        )


def _factor_of_component(network: InfluenceNetwork, n_components: int) -> np.ndarray | None:
    factorisation = network.factorisation
    n = network.shape[0]
    if factorisation is not None and factorisation.n_actions == n_components and len(factorisation) == n:
        return factorisation.group_of
    if n != n_components:
        raise ValueError(
            f"network: has {counted(n, 'row')}, and the action space {counted(n_components, 'component')}; want one "
            "row for each, or a network factored with net.factor(factorisation)"
        )
    return None
