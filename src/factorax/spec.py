"""`Spec`: everything that is fixed before training starts, derived and checked once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from ._checks import check_function, real_array
from ._text import counted, shown
from .distributions import BoundedChoice
from .observations import ObservationSpace
from .problems.problem import Problem
from .problems.vectors import OneOfMany, create, is_vector
from .spaces import ActionMask, ActionSpace
from .structure import BaseNetwork, InfluenceNetwork
from .structure.network import network_of

MASK = "['action_mask']"
"""Name of the mask of valid choices in a Dict of observations."""


def is_jax(problem: Any) -> bool:
    """Return whether a problem is a JAX `Problem`, stepped in compiled programs, and not an environment factory."""
    return isinstance(problem, Problem)


def check_callable(problem: Any) -> None:
    """Raise TypeError unless the argument is a `Problem` or callable."""
    if not callable(problem):
        raise TypeError(
            f"problem: got {type(problem).__name__}, want a Problem or a function that returns a gymnasium.Env, "
            "as in lambda: gym.make('CartPole-v1')"
        )


@contextmanager
def opened(problem: Any) -> Iterator[Any]:
    """Yield the object that describes a problem: a JAX `Problem` itself, or a temporary environment.

    The environment is closed afterwards. Of a vector environment, one sub-environment is used.
    """
    if is_jax(problem):
        yield problem
        return
    check_callable(problem)
    env: Any = create(problem)
    if is_jax(env):
        raise TypeError("problem: got a function that returns a Problem, want the Problem itself: call the function")
    if not hasattr(env, "action_space") or not hasattr(env, "observation_space"):
        raise TypeError(f"problem: got a function that returns {shown(env)}, want one that returns a gymnasium.Env")
    try:
        yield OneOfMany(env) if is_vector(env) else env
    finally:
        env.close()


def declared_network(source: Any) -> BaseNetwork | None:
    """Return the attribute `network` of a problem or environment, or None if it has none."""
    return getattr(getattr(source, "unwrapped", source), "network", None)


# Compared by identity: equal arrays have no single truth value.
@dataclass(frozen=True, eq=False, kw_only=True)
class Spec:
    """The fixed properties of a training problem: spaces, components, factors, network, λ, local observations.

    Create one with `Spec.of` from a problem, or with `Spec.of_spaces` from spaces and a network if other code steps the
    environment.

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
    """The influence network, with one row per component of the action space or per factor."""
    weights: np.ndarray
    """The weights λ, ``(m,)``."""
    problem: Problem | Callable[[], gym.Env] | None = None
    """A JAX problem or an environment factory; None if other code steps the environment."""
    local: Callable[[Any], Any] | None = None
    """Maps observations ``(..., d)`` to local observations of the factors, ``(..., n, l)``, or of the components,
    ``(..., c, l)``; None if all observe everything."""
    problem_defines_local: bool = False
    """Whether `local` is defined by the problem, so that workers can read it from their own environments."""
    one_per_process: bool = False
    """Whether a process can hold only one such environment, from ``metadata["one_per_process"]``."""
    num_envs: int | None = None
    """Number of sub-environments if the problem creates a vector environment, otherwise None."""
    raw_actions: bool = False
    """Whether unbounded actions are intended to be in raw units, from ``metadata["raw_actions"]``."""
    network_is_default: bool = False
    """Whether no network was given: all actions then influence one target, the reward."""
    problem_defines_network: bool = False
    """Whether the network is defined by the problem rather than by the user, here or in `fx.wrap`."""
    neighbours: np.ndarray | None = None
    """Which factors are neighbours, booleans ``(n, n)``, for policies with communication between factors; None if not
    specified."""
    observed_info: tuple[tuple[str, int, int], ...] = ()
    """Names of the `info` entries that are part of observations, with their first and last column."""

    @classmethod
    def of(
        cls,
        problem: Any,
        network: Any = None,
        *,
        weights: Any = None,
        local: Any = None,
        neighbours: Any = None,
        distribution: str | BoundedChoice = "scale",
    ) -> "Spec":
        """Create the specification of a problem; arguments left out are taken from the problem.

        - `problem`: a JAX `Problem`, or a function that returns a Gymnasium environment or vector environment.
        - `network`: a `BaseNetwork`, such as an `InfluenceNetwork`, or a plain matrix.
        - `weights`, `local`, `neighbours`: as the fields.
        - `distribution`: as for `ActionSpace.of`.
        """
        with opened(problem) as source:
            inner = getattr(source, "unwrapped", source)
            is_given = network is not None or getattr(inner, "network_is_given", False)
            network = declared_network(source) if network is None else network
            network_is_default = network is None
            if network_is_default:  # one target, the reward: plain PPO
                network = InfluenceNetwork.complete(len(ActionSpace.of(source.action_space)), 1)
            problem_local = getattr(inner, "local", None) if local is None else None
            if neighbours is None and not is_jax(problem):  # for a JAX problem, see `graph`
                neighbours = getattr(inner, "neighbours", None)
            metadata = getattr(source, "metadata", None) or {}
            return cls.of_spaces(
                source.observation_space,
                source.action_space,
                network,
                weights=getattr(inner, "weights", None) if weights is None else weights,
                distribution=distribution,
                problem=problem,
                local=problem_local if local is None else local,
                neighbours=neighbours,
                problem_defines_local=problem_local is not None,
                one_per_process=metadata.get("one_per_process", False),
                num_envs=source.num_envs if isinstance(source, OneOfMany) else None,
                raw_actions=metadata.get("raw_actions", False),
                network_is_default=network_is_default,
                problem_defines_network=not (is_given or network_is_default),
                observed_info=observed_places(inner, source.observation_space),
            )

    @classmethod
    def of_spaces(
        cls,
        observation_space: gym.Space,
        action_space: gym.Space,
        network: Any,
        *,
        weights: Any = None,
        distribution: str | BoundedChoice = "scale",
        **fields: Any,
    ) -> "Spec":
        """Create the specification from spaces and a network; raise if factors, components and λ do not match.

        By default λ is 1 for each target.
        """
        network = _base_network(network)
        m = network.static.shape[1]
        weights = np.ones(m) if weights is None else real_array("weights", weights).astype(np.float64)
        if weights.shape != (m,):
            raise ValueError(
                f"weights: got {shown(weights.tolist())}, want ({m},), one λ per target, the columns of the network"
            )
        if fields.get("local") is not None:
            check_function("local", fields["local"], "a function from observations to those of each factor, or None")
        if fields.get("neighbours") is not None:
            fields["neighbours"] = _symmetric(fields["neighbours"], network.static.shape[0])
        components = ActionSpace.of(action_space, distribution)
        factors = _factor_of_component(network.static, len(components))
        if components.settings.std == "full" and factors is not None:
            components = components.with_covariance(factors)
        spec = cls(
            observation_space=observation_space,
            action_space=action_space,
            components=components,
            network=network,
            weights=weights,
            **fields,
        )
        _ = spec.action_mask  # raises if the mask does not fit
        # A rollout, [T, B, d], of which only shapes are computed; without this, errors would come from within training.
        jax.eval_shape(spec._check_observations, jax.ShapeDtypeStruct((1, 1, spec.n_inputs), np.float32))
        return spec

    def with_network(self, network: Any) -> "Spec":
        """Return the same problem with another network, which must have the same number of targets."""
        network = _base_network(network)
        _factor_of_component(network.static, len(self.components))  # raises if the rows do not fit
        # A new object, without the cached factors and groups of the other network.
        return replace(self, network=network, problem_defines_network=False)

    @property
    def is_jax(self) -> bool:
        """Whether the problem is stepped inside compiled programs."""
        return is_jax(self.problem)

    @property
    def n_factors(self) -> int:
        """Number of factors n: the rows of the network."""
        return self.network.static.shape[0]

    @property
    def n_targets(self) -> int:
        """Number of targets m: the columns of the network."""
        return self.network.static.shape[1]

    @cached_property
    def factors(self) -> np.ndarray | None:
        """The factor of each component, ``(c,)``; None if each component is a factor."""
        return _factor_of_component(self.network.static, len(self.components))

    @cached_property
    def groups(self) -> list[np.ndarray]:
        """The components of each factor."""
        of = np.arange(self.n_factors) if self.factors is None else self.factors
        return [np.flatnonzero(of == i) for i in range(self.n_factors)]

    @property
    def unscaled(self) -> tuple[str, ...]:
        """Labels of the Box components without finite bounds, to which actions cannot be scaled."""
        names, indices = self.network.static.actions, self.components.unscaled
        return tuple(names[k] if self.factors is None else f"component {k}" for k in indices)

    @cached_property
    def observations(self) -> ObservationSpace:
        """The layout of the observation space in rows; the columns of a mask of valid choices are flags."""
        observations = ObservationSpace.of(self.observation_space)
        # An entry of the space comes before one that `fx.wrap` has added: only the first is used.
        places = [(part.start, part.start + part.size) for part in observations.parts if part.where == MASK]
        places += [(start, end) for name, start, end in self.observed_info if name == "action_mask"]
        return replace(observations, flags=places[0] if places else (0, 0))

    @cached_property
    def action_mask(self) -> ActionMask | None:
        """The mask of valid choices, from the part of the observation named ``action_mask``; None if there is none.

        It is an entry of a Dict, or an `info` entry observed with `fx.wrap`.
        """
        flags = self.observations.flags
        return ActionMask.of(self.components, *flags) if flags != (0, 0) else None

    @property
    def n_inputs(self) -> int:
        """Number of columns d of an observation."""
        return self.observations.size

    @cached_property
    def graph(self) -> np.ndarray:
        """Which factors are neighbours, booleans ``(n, n)``; by default, those that influence a common target."""
        if self.neighbours is not None:
            return self.neighbours
        declared = getattr(self.problem, "neighbours", None) if self.is_jax else None
        if declared is not None:
            return _symmetric(declared, self.n_factors)
        edges = self.network.static.to_dense() != 0
        # Of booleans, a product is an `any`, and no count that could overflow.
        return edges @ edges.T

    def _check_observations(self, obs: Any) -> None:
        info = {name: obs[..., start:end] for name, start, end in self.observed_info}
        mask = jnp.ones((*obs.shape[:-1], self.n_factors), bool)  # some problems return a mask
        self.network.check_observations(obs, info | {"factor_mask": mask})

    def local_of(self, obs: Any, xp: Any = jnp) -> Any:
        """Return the observation of each component, ``(..., c, l)``, for observations ``(..., d)``.

        It is the local observation of the component or of its factor, or the full observation.
        """
        if self.local is None:
            obs = self.observations.encoded(obs, xp)
            return xp.broadcast_to(obs[..., None, :], (*obs.shape[:-1], len(self.components), obs.shape[-1]))
        local = self._local_by_row(obs, xp)
        per_component = self.factors is None or local.shape[-2] != self.n_factors
        return local if per_component else local[..., self.factors, :]

    def _local_by_row(self, obs: Any, xp: Any) -> Any:
        """Return the result of `local` for observations ``(..., d)``, with a row per factor or per component."""
        assert self.local is not None
        try:
            local = self.local(obs if self.observations.is_plain else self.observations.structured(obs, xp))
        except jax.errors.TracerArrayConversionError as error:
            raise TypeError(
                "local: applies a NumPy function to observations, but training compiles it with JAX; use the function "
                "of the same name in jax.numpy, for example jnp.concatenate for np.concatenate"
            ) from error
        shape = np.shape(local)
        if len(shape) != obs.ndim + 1 or shape[-2] not in (self.n_factors, len(self.components)):
            raise ValueError(
                f"local: got shape {shape} for observations of shape {obs.shape}, want (..., {self.n_factors}, l), "
                "one row per factor; a Box with several axes is passed as a flat vector"
            )
        return local

    @cached_property
    def local_shape(self) -> tuple[int, int] | None:
        """Shape ``(c, l)`` of the local observations of the components; None if all observe everything."""
        if self.local is None:
            return None
        # A NumPy array, because the user's function may support only NumPy.
        c, size = np.shape(self.local_of(np.zeros(self.n_inputs, np.float32), np))
        return c, size

    @cached_property
    def components_of_factor(self) -> np.ndarray:
        """The components that make up the local observation of each factor, ``(n, g)``, padded with c.

        This is the first component of a factor if all its components have the same observation, otherwise all of them.
        """
        row = np.zeros(self.n_inputs, np.float32)
        # One observation per factor is enough for its network; with copies, its input would only be larger.
        same = self.local is None or np.shape(self._local_by_row(row, np))[-2] == self.n_factors
        groups = [group[:1] if same else group for group in self.groups]
        index = np.full((len(groups), max(map(len, groups))), len(self.components))
        for each, group in zip(index, groups, strict=True):
            each[: len(group)] = group
        return index

    def by_factor(self, x: jax.Array) -> jax.Array:
        """Return sums over the components of each factor, ``(..., c)`` → ``(..., n)``."""
        if self.factors is None:
            return x
        # Not a reshape: the components of a factor need not be adjacent, nor equally many for all factors.
        return jnp.zeros((*x.shape[:-1], self.n_factors), x.dtype).at[..., self.factors].add(x)

    def by_component(self, x: jax.Array) -> jax.Array:
        """Return the value of the factor of each component, ``(..., n)`` → ``(..., c)``."""
        return x if self.factors is None else x[..., self.factors]


def observed_places(env: Any, space: gym.Space) -> tuple[tuple[str, int, int], ...]:
    """Return where an environment adds entries of `info` to its observations, given the space that wrappers around it
    make of them.

    Raises ValueError if they change the columns.
    """
    columns = lambda space: [(part.where, part.shape) for part in ObservationSpace.of(space).parts]  # noqa: E731
    places = getattr(env, "observed_info", ())
    if places and columns(space) != columns(env.observation_space):
        raise ValueError(
            f"problem: got observations {space}, but {env} returns {env.observation_space}, so the info entries that "
            "it adds cannot be located; want the wrappers that change observations inside fx.wrap"
        )
    return places


def _base_network(network: Any) -> BaseNetwork:
    """Return a network, or the one of a plain matrix."""
    network = network_of(network, "network")
    if not isinstance(network, BaseNetwork):
        got = repr(network) if isinstance(network, str) else type(network).__name__
        raise TypeError(
            f"network: got {got}, want an InfluenceNetwork, or one that varies: a NetworkSchedule, a StateNetwork, "
            "a LaggedNetwork, an AdaptiveNetwork or a subclass of BaseNetwork; FactoredPPO also accepts 'adaptive'"
        )
    return network


def _symmetric(relation: Any, n: int) -> np.ndarray:
    """Return a relation between factors as booleans ``(n, n)``."""
    matrix = np.asarray(relation.toarray() if hasattr(relation, "toarray") else relation)
    if matrix.shape != (n, n) or matrix.dtype.kind not in "biuf" or (matrix != matrix.T).any():
        raise ValueError(
            f"neighbours: got {shown(relation)}, want a symmetric matrix ({n}, {n}), with one row per factor"
        )
    return matrix != 0


def _factor_of_component(network: InfluenceNetwork, n_components: int) -> np.ndarray | None:
    factorisation = network.factorisation
    n = network.shape[0]
    if factorisation is not None and factorisation.n_actions == n_components and len(factorisation) == n:
        return factorisation.group_of
    if n != n_components:
        raise ValueError(
            f"network: has {counted(n, 'row')}, but the action space has {counted(n_components, 'component')}; want "
            "one row per component, or a network factored with net.factor(factorisation)"
        )
    return None
