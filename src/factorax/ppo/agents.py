"""Policies and critics for the flat settings of `Config`, by the functions of `factorax.networks`."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._checks import real_array, shown
from ..distributions import DISTRIBUTIONS, BoundedChoice, GaussianChoice
from ..networks.choices import ARCHITECTURES, POLICIES, Attention, Gru, SharedPolicy
from ..networks.factor_actions import FactorActions
from ..networks.make import make_action_values, make_critic, make_policy
from ..networks.policies import Agent, Critic
from ..spec import Spec
from .config import Config


class OwnModules(NamedTuple):
    """What the user defines of the networks in Python; None for ours."""

    policy: Any = None
    """A module, or a function of a `Spec` and a key that returns one."""
    critic: Any = None
    init: Any = None
    """The initialiser of our layers: a function of a key, a shape and a dtype."""

    @property
    def has_network(self) -> bool:
        """Whether one of the networks is the user's own."""
        return self.policy is not None or self.critic is not None


NO_MODULES = OwnModules()


def own_modules(settings: dict[str, Any]) -> dict[str, Any]:
    """Remove what the user defines in Python from the settings, where it shares names with built-in kinds."""
    is_own = lambda given: isinstance(given, eqx.Module) or (callable(given) and not isinstance(given, str))  # noqa: E731
    return {name: settings.pop(name) for name in OwnModules._fields if is_own(settings.get(name))}


def check_init(config: Config, own: OwnModules) -> None:
    """Raise unless the initialiser of the user is a function, and is there if the settings refer to it."""
    if own.init is not None and not callable(own.init):
        raise TypeError(
            f"init: got {shown(own.init)}, want a function (key, shape, dtype), such as "
            "jax.nn.initializers.glorot_uniform(); names belong in Config(init=…)"
        )
    if own.init is not None and own.policy is not None and (own.critic is not None or config.critic == "none"):
        raise ValueError(
            f"init: got {shown(own.init)} with your own modules as policy and critic, want it left "
            "out: it is for built-in layers"
        )
    if config.init == "custom" and own.init is None:
        raise ValueError(
            "init: got 'custom' without a function, want 'orthogonal', 'lecun', 'he' or 'normc', or in Python the "
            "function itself, as in FactoredPPO(…, init=jax.nn.initializers.glorot_uniform())"
        )


def stored_init(key: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    """Return weights for a model with a user's initialiser that is read from a file, whose weights replace them."""
    return jax.nn.initializers.orthogonal(2**0.5)(key, shape, dtype)


class NetworkSettings(NamedTuple):
    """The settings of networks."""

    policy: Any
    architecture: Any
    hidden: tuple[int, ...]
    activation: str
    distribution: BoundedChoice

    @classmethod
    def of(cls, config: Config, own: OwnModules = NO_MODULES) -> "NetworkSettings":
        """Return the choices that flat settings stand for."""
        c = config
        kind = ARCHITECTURES.kinds[c.architecture]
        options: dict[str, Any] = {"init": c.init if own.init is None else own.init}
        if issubclass(kind, Gru):
            options["sequence_length"] = c.sequence_length
        else:
            options["layer_norm"] = c.layer_norm
        if kind is Attention:
            options["rounds"] = c.rounds
        policy: Any = own.policy
        if policy is None:
            policy = SharedPolicy(c.identity) if c.policy == "shared" else POLICIES.read(c.policy)
        return cls(policy, kind(**options), c.hidden, c.activation, distribution_of(c))


def distribution_of(config: Config) -> BoundedChoice:
    """Return the distribution that flat settings stand for."""
    kind = DISTRIBUTIONS.kinds[config.bounded]
    if not issubclass(kind, GaussianChoice):
        return kind()
    return kind("full" if config.covariance == "full" else config.std, config.initial_log_std)  # type: ignore[arg-type]


def make_agent(spec: Spec, config: Config, own: OwnModules, for_policy: jax.Array, for_critic: jax.Array) -> Agent:
    """Return a randomly initialised policy and critic with the shapes that settings and network require."""
    c = config.for_problem(spec)
    settings = NetworkSettings.of(c, own)
    policy = make_policy(spec, settings, for_policy)
    if c.critic == "none":
        return Agent(policy, None)
    if c.is_counterfactual:
        outputs = 1 if c.default_action else FactorActions.of(spec).most
        return Agent(policy, Critic(make_action_values(spec, settings, for_critic, outputs=outputs)))
    values, meaning = _critic_values(spec, c)
    per_factor = c.critic == "factor" and c.estimator == "factored"
    options: dict[str, Any] = {"values": values, "meaning": meaning, "per_factor": per_factor, "trunk": c.trunk}
    return Agent(policy, make_critic(spec, settings, policy, for_critic, **options, critic=own.critic))


def _critic_values(spec: Spec, config: Config) -> tuple[int, str]:
    """Return the number of values that the critic predicts, and what they are."""
    c, n, m = config, spec.n_factors, spec.n_targets
    if c.critic == "target":
        more = spec.network.n_factor_values if c.estimator == "factored" else 0
        also = f" ({m}), then {more} values of factors, because the network is a {type(spec.network).__name__}"
        return m + more, f"one value per target{also if more else ''}"
    if c.estimator == "vanilla" or c.critic == "central":
        return 1, "one value, that of the weighted sum of all targets"
    return n, "one value per factor, that of its credit"


def memory_of(state: Any, episode_start: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return the memory of a recurrent policy, ``(B, h)``, from the arguments of `predict`."""
    if state is None:
        return np.zeros(shape, np.float32)
    memory = real_array("state", state).astype(np.float32)
    if memory.shape != shape:
        raise ValueError(
            f"state: got shape {memory.shape}, want {shape}, the state that the last call of predict returned"
        )
    if episode_start is None:
        return memory
    starts = np.broadcast_to(real_array("episode_start", episode_start), shape[:1])
    return np.where(starts[:, None], 0.0, memory).astype(np.float32)
