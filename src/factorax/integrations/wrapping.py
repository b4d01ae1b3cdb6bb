"""`wrap`: convert any environment to the form that the learner expects."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from .._checks import check_each, check_function, checked, listed
from ..problems.vectors import OneOfMany, create, is_vector
from ..rollouts.processes import call_in_worker
from ..rollouts.seeding import differ
from ..rollouts.seeding import observed as observed_episode
from ..spec import is_jax, observed_places
from ..structure import StructureWarning
from ..structure.labels import default_labels
from ..structure.network import as_network, network_of
from .canonical import FactoredEnv, FactoredGymnasium, own_observations
from .factors import FIXED, FactorRule, Rows, fit, warn_if_complete, weights_of
from .info_observations import Observed
from .rewards import parts_of
from .vectors import FactoredVector


def wrap(
    env: Any,
    network: Any = None,
    *,
    reward: str | Callable[..., Any] | None = None,
    weights: Any = None,
    factors: FactorRule | None = None,
    local: Callable[[Any], Any] | None = None,
    observe: Sequence[str] = (),
    check_sum: bool = True,
    check_seed: bool = False,
) -> Any:
    """Return an environment in the form that `FactoredPPO` expects.

    The result is a `FactoredEnv`, or a `FactoredVector` for a vector environment. Wrapping an environment factory
    returns a factory, and creates nothing yet: the first environment that it creates is checked with the network and
    the other arguments.

    **Arguments**

    - `env`: a Gymnasium, MO-Gymnasium or parallel PettingZoo environment, a Gymnasium vector environment, or a function
      that returns one. The learner needs a function, since it creates several environments.
    - `network`: which factor influences which target, now or later: an `InfluenceNetwork`, or its matrix. The default
      is that of the environment; without one, each factor influences each target, and a warning is issued.
    - `reward`: where the targets are. By default: the array that a MO-Gymnasium environment returns,
      ``info["vector_reward"]``, the rewards of PettingZoo agents, or else the scalar reward as one target.
      ``"info:profit,costs.energy"``: dotted paths into `info`, to numbers or arrays. A function ``(obs, action, reward,
      info) -> vector``; for a vector environment it receives the arrays of all environments and returns one row each.
      ``"collapse"``: one target for PettingZoo agents that all get the same reward.
    - `weights`: the weights λ, ``(m,)``; by default those of the environment, or ones.
    - `factors`: the meaning of a row of the network. ``"elements"``: a component of the action, as listed by
      `factorax.spaces.ActionSpace`. ``"leaves"``: a leaf of a Dict or Tuple, or a PettingZoo agent. ``"minimum"``:
      the minimum factorisation of the network. The default is elements, or agents for PettingZoo.
    - `local`: maps observations ``(..., d)`` to local observations of the factors, ``(..., n, l)``; by default that of
      the environment, or for PettingZoo the observation of each agent. It is compiled with JAX, so it must use
      `jax.numpy` and not NumPy.
    - `observe`: dotted paths into `info` to numbers that become part of the observation, for policies, critics and a
      `StateNetwork`, which finds them by these names. They are appended to vectors. If the observation is a Dict, they
      are further entries of it; if it is an image or a Tuple, or if one of them is an image, the observation becomes a
      Dict of them and the original ``observation``. Each `info` must have them, including that of `reset`; the
      environment is reset once when it is wrapped. The environment's own `local` receives the original observation.
    - `check_sum`: whether to raise if ``weights @ parts`` differs from the scalar reward of the environment.
    - `check_seed`: whether to raise if two episodes with the same seed and actions differ.

    Observations keep their structure, and actions are copied before they are passed on. An environment without a
    `reward_space` is stepped once, to count the targets and check their sum; reset it before use.

    >>> import gymnasium as gym, factorax as fx
    >>> def move(obs, action, reward, info):
    ...     return [reward, -abs(obs[0])]
    >>> net = fx.InfluenceNetwork([[1, 1]], targets=["upright", "centred"])
    >>> env = fx.wrap(gym.make("CartPole-v1"), net, reward=move, check_sum=False)
    >>> _ = env.reset(seed=0)
    >>> env.step(0)[4]["vector_reward"].round(2)
    array([ 1.  , -0.01])
    """
    network = None if network is None else as_network(network, "network", FIXED)
    check_each({"check_sum": bool, "check_seed": bool}, check_sum=check_sum, check_seed=check_seed)
    checked("factors", factors, FactorRule | None)
    observe = listed("observe", observe, "a list of paths into info")
    if local is not None:
        check_function("local", local, "a function from observations to those of each factor, or None")
    options: dict[str, Any] = {"network": network, "reward": reward, "weights": weights, "factors": factors}
    options |= {"local": local, "observe": observe, "check_sum": check_sum, "check_seed": check_seed}
    if is_jax(env):
        raise TypeError("env: got a Problem, want an environment; FactoredPPO accepts problems directly")
    if callable(env) and not isinstance(env, gym.Env):
        return Factory(env, options)
    wrapped = _wrapped(env, options)
    warn_if_complete(wrapped)
    return wrapped


class Measured(NamedTuple):
    """What is known from the first environment of a factory."""

    targets: int
    """Number of targets."""
    entries: tuple[gym.spaces.Box, ...]
    """Spaces of observed entries of `info`."""
    num_envs: int | None
    """Number of sub-environments of a vector environment; None for a single environment."""


class Factory:
    """A function that creates wrapped environments; the first is measured and checked, and the others are assumed
    equal."""

    def __init__(self, make: Callable[[], Any], options: dict[str, Any]):
        self.make, self.options = make, options
        self.measured: Measured | None = None
        self._is_silent = False

    def __call__(self) -> "FactoredEnv | FactoredVector":
        """Create another environment."""
        env = create(self.make)
        try:
            wrapped = _wrapped(env, self.options, self.measured)
            if not self._is_silent:  # a worker may have measured it
                warn_if_complete(wrapped)
        except BaseException:  # some simulators refuse another instance until this one is closed
            if hasattr(env, "close"):
                env.close()
            raise
        self._is_silent = True
        if self.measured is None:
            entries, num_envs = getattr(wrapped, "observed_entries", ()), getattr(wrapped, "num_envs", None)
            self.measured = Measured(wrapped.network.shape[1], entries, num_envs)
        return wrapped

    @property
    def num_envs(self) -> int | None:
        """Number of sub-environments of a vector environment; None for single environments."""
        if self.measured is None:
            self().close()
        return None if self.measured is None else self.measured.num_envs

    def measure_in_worker(self, seconds: float) -> None:
        """Create the first environment in a worker process, so that none need be stepped in this one."""
        if self.measured is None:
            self.measured = call_in_worker(_measure, self, seconds=seconds)


def _measure(factory: Factory) -> Measured | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StructureWarning)  # shown where the environment is created next
        factory().close()
    return factory.measured


def _wrapped(env: Any, options: dict[str, Any], measured: Measured | None = None) -> "FactoredEnv | FactoredVector":
    """Wrap an environment or vector environment; `measured` comes from an earlier, checked one."""
    options = dict(options)
    check_seed = options.pop("check_seed")
    if hasattr(env, "agent_selection"):
        raise TypeError(
            "env: got a turn-based (AEC) environment, want a parallel one; convert it with "
            "pettingzoo.utils.aec_to_parallel"
        )
    if hasattr(env, "possible_agents") and not isinstance(env, gym.Env):
        from .pettingzoo import wrap_parallel

        if options.pop("observe"):
            raise ValueError(
                "observe: works only for Gymnasium environments; want it in the observations of the PettingZoo agents"
            )
        wrapped = wrap_parallel(env, **options)
    else:
        wrapped = _wrap_gymnasium(env, measured, **options)
    if check_seed and measured is None:
        _check_seed(wrapped)
    return wrapped


def _wrap_gymnasium(
    env: Any,
    measured: Measured | None,
    *,
    network: Any,
    reward: Any,
    weights: Any,
    factors: FactorRule | None,
    local: Any,
    observe: Sequence[str],
    check_sum: bool,
) -> FactoredEnv | FactoredVector:
    """Wrap a single or a vector environment."""
    if is_vector(env):
        if observe:
            raise ValueError(
                "observe: works only for single environments; wrap those, as in gym.vector.SyncVectorEnv([make] * 8) "
                "with make = fx.wrap(…, observe=…)"
            )
        one: Any = OneOfMany(env)
        wrapped: Any = FactoredVector(env, parts_of(reward, rows=True), check_sum=check_sum)
        wrapped.observed_info = observed_places(one.unwrapped, one.observation_space)
        action_space, own_local = one.action_space, _declared(one, "local")
        names = getattr(env.unwrapped, "targets", None)
    else:
        if not isinstance(env, gym.Env):
            raise TypeError(
                f"env: got {type(env).__name__}, want a gymnasium.Env, a parallel PettingZoo environment, or a "
                "function that returns one, as in lambda: gym.make('CartPole-v1')"
            )
        inner: Any = env
        while isinstance(inner, gym.Wrapper):
            if isinstance(inner, gym.wrappers.Autoreset):
                raise TypeError("env: has the wrapper Autoreset, which hides the last observation; want it without")
            inner = inner.env
        one, action_space, names = env, env.action_space, None
        space, copy_observation = own_observations(env.observation_space)
        observed: Any = lambda obs, info: copy_observation(obs)  # noqa: E731
        places, own_local = _declared(env, "observed_info") or (), _declared(env, "local")
        entries: tuple[gym.spaces.Box, ...] = ()
        if observe:
            added = Observed(env, observe, places, None if measured is None else measured.entries)
            space, observed, places, entries = added.space, added, added.places, tuple(added.entries.values())
            own_local = None if own_local is None else added.local(own_local)
        wrapped = FactoredGymnasium(env, parts_of(reward), space, observed, check_sum=check_sum)
        wrapped.observed_entries, wrapped.observed_info = entries, places
    own_network, part_names = _declared(one, "network"), wrapped.parts.names
    wrapped.has_no_network = network is None and own_network is None
    wrapped.network_is_given = network is not None or own_network is None
    network = network_of(own_network if network is None else network, "network")
    step, space = None, _declared(one, "reward_space") if reward is None else None
    if measured is not None:
        m = measured.targets
    elif space is not None and len(space.shape) == 1:
        m = space.shape[0]
    else:
        columns = getattr(network, "shape", (1, None))[1]
        wrapped.expected = columns if part_names is None else None  # names are compared with those of the network below
        step = wrapped.first_step()
        m = step[0].shape[-1]
        if m == 1 and (columns or 1) > 1 and np.ndim(step[1]) == 0 and reward is None:
            raise ValueError(
                f"reward: the environment returns one number, but the network has {columns} columns; want the location "
                'of its parts: reward="info:…", or a function (obs, action, reward, info) -> vector'
            )
    if part_names is None and names is not None and len(names) == m and network is not None:
        network = as_network(network, "network", FIXED)
        if network.shape[1] == m and network.targets == default_labels("psi", m):
            network = network.relabel(targets=tuple(names))
    names = names if part_names is None else part_names
    names = tuple(names) if names is not None and len(names) == m else None
    fitted = fit(network, Rows.of(action_space), factors or "elements", m, names)
    wrapped.describe(fitted, weights_of(weights, _declared(one, "weights"), m), local or own_local, space)
    if step is not None:
        wrapped.check_sum(step[0] @ wrapped.weights, step[1], step[0])
    return wrapped


def _declared(env: Any, name: str) -> Any:
    """Return an attribute of an environment or of the environments that it wraps, or None."""
    if isinstance(env, OneOfMany):
        of_vector = getattr(env.vector.unwrapped, name, None) if name == "reward_space" else None
        return getattr(env.unwrapped, name, None) if of_vector is None else of_vector
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def _check_seed(env: Any) -> None:
    """Raise unless two episodes with the same seed and actions have the same observations and targets."""
    first, again = (observed_episode(env, 0, targets=True) for _ in range(2))
    if differ(first, again) or len(first) != len(again):
        # episodes of different lengths differ at the end of the shorter one, if not earlier
        pairs = enumerate(zip(first, again, strict=False))
        step = next((t for t, (a, b) in pairs if differ([a], [b])), min(len(first), len(again)))
        raise ValueError(
            f"check_seed: two episodes with reset(seed=0) and the same actions differ in "
            f"{f'step {step}' if step else 'the first observation'}; want all random numbers only from self.np_random, "
            "which reset(seed=…) seeds, or omit check_seed"
        )
