"""`wrap`: convert any environment to the form that the learner expects."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from .._checks import check_each, check_function, checked, listed
from ..problems.vectors import create, is_vector
from ..rollouts.returned import checked_step
from ..rollouts.seeding import differ
from ..rollouts.seeding import observed as observed_episode
from ..spaces import sample_valid
from ..spec import is_jax
from ..structure.network import as_network, network_of
from .canonical import FactoredEnv, FactoredGymnasium, own_observations
from .factors import FIXED, FactorRule, Rows, declared, fit, warn_if_complete, weights_of
from .observing import observed
from .rewards import parts_of
from .vectors import FactoredVector, wrap_vector


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
    returns a factory.

    **Arguments**

    - `env`: a Gymnasium, MO-Gymnasium or parallel PettingZoo environment, a Gymnasium vector environment, or a function
      that returns one. The learner needs a function, since it creates several environments. One is created immediately
      to check the other arguments.
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
    return _wrapped(env, options)


class Measured(NamedTuple):
    """The number of targets and the spaces of observed entries of `info`, measured on the first environment."""

    targets: int
    entries: tuple[gym.spaces.Box, ...]


class Factory:
    """A function that creates wrapped environments; the first is measured and checked, and the others are assumed
    equal.

    The first is created immediately, so that a network that does not fit raises where it is passed; the first call
    returns it.
    """

    def __init__(self, make: Callable[[], Any], options: dict[str, Any]):
        self.make, self.options = make, options
        env = create(make)
        try:
            first = _wrapped(env, options)
        except Exception:
            if hasattr(env, "close"):
                env.close()
            raise
        self._first: FactoredEnv | FactoredVector | None = first
        self.num_envs = first.num_envs if isinstance(first, FactoredVector) else None
        """Number of sub-environments of a vector environment; None for single environments."""
        entries = first.observed_entries if isinstance(first, FactoredGymnasium) else ()
        self.measured = Measured(first.network.shape[1], entries)

    def __call__(self) -> "FactoredEnv | FactoredVector":
        """Create another environment."""
        first, self._first = self._first, None
        return _wrapped(create(self.make), self.options, self.measured) if first is None else first

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_first": None}  # a simulator cannot leave its process


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
        wrapped = wrap_parallel(env, is_first=measured is None, **options)
    elif is_vector(env):
        vector: Any = env
        wrapped = wrap_vector(vector, None if measured is None else measured.targets, **options)
    else:
        _refuse(env)
        wrapped = _wrap_gymnasium(env, measured, **options)
    wrapped.network_is_given = options["network"] is not None or declared(env, "network") is None
    if check_seed and measured is None:
        _check_seed(wrapped)
    return wrapped


def _refuse(env: Any) -> None:
    """Raise unless `env` is a single Gymnasium environment."""
    if not isinstance(env, gym.Env):
        raise TypeError(
            f"env: got {type(env).__name__}, want a gymnasium.Env, a parallel PettingZoo environment, or a function "
            "that returns one, as in lambda: gym.make('CartPole-v1')"
        )
    inner: Any = env
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, gym.wrappers.Autoreset):
            raise TypeError("env: has the wrapper Autoreset, which hides the last observation; want it without")
        inner = inner.env


def _wrap_gymnasium(
    env: gym.Env,
    measured: Measured | None,
    *,
    network: Any,
    reward: Any,
    weights: Any,
    factors: FactorRule | None,
    local: Any,
    observe: Sequence[str],
    check_sum: bool,
) -> FactoredEnv:
    rows = Rows.of(env.action_space)
    parts, places, own_local = parts_of(reward), declared(env, "observed_info") or (), declared(env, "local")
    if observe:
        added = observed(env, observe, places, None if measured is None else measured.entries)
        wrapped = FactoredGymnasium(
            env=env, parts=parts, observation_space=added.space, observe=added, check_sum=check_sum
        )
        wrapped.observed_entries, places = tuple(added.entries.values()), added.places
        if own_local is not None:
            own_local = added.local(own_local)
    else:
        space, copy_observation = own_observations(env.observation_space)
        wrapped = FactoredGymnasium(
            env=env,
            parts=parts,
            observation_space=space,
            observe=lambda obs, info: copy_observation(obs),
            check_sum=check_sum,
        )
    network = network_of(network if network is not None else declared(env, "network"), "network")
    space = declared(env, "reward_space") if reward is None else None
    step = None
    if space is not None and len(space.shape) == 1:
        m = space.shape[0]
    elif measured is not None:
        m = measured.targets
    else:
        step = _one_step(wrapped)
        m = step[0].size
        columns = getattr(network, "shape", (1, 1))[1]
        if m == 1 and columns > 1 and np.ndim(step[1]) == 0 and reward is None:
            raise ValueError(
                f"reward: the environment returns one number, but the network has {columns} columns; want the location "
                'of its parts: reward="info:…", or a function (obs, action, reward, info) -> vector'
            )
    if measured is None:
        warn_if_complete(network, m)
    names = parts.names if parts.names is not None and len(parts.names) == m else None
    fitted = fit(network, rows, factors or "elements", m, names)
    wrapped.observed_info = places
    lam = weights_of(weights, declared(env, "weights"), m)
    wrapped._describe(fitted, lam, own_local if local is None else local, space)
    if step is not None:
        wrapped.check_sum(float(lam @ step[0]), step[1], step[0])
    return wrapped


def _one_step(env: FactoredGymnasium) -> tuple[np.ndarray, Any]:
    """Return the targets and the reward of one step."""
    space = copy.deepcopy(env.action_space)
    space.seed(0)
    obs, info = env.reset(seed=0)
    action = sample_valid(space, obs, info)
    env._time = 1
    obs, reward, _, _, info = checked_step(env.env, copy.deepcopy(action))
    return env.parts(obs, action, reward, info), reward


def _check_seed(env: Any) -> None:
    """Raise unless two episodes with the same seed and actions have the same observations and targets."""
    first, again = (observed_episode(env, 0, targets=True) for _ in range(2))
    if differ(first, again) or len(first) != len(again):
        pairs = enumerate(zip(first, again, strict=False))
        step = next((t for t, (a, b) in pairs if differ([a], [b])), min(len(first), len(again)))
        raise ValueError(
            f"check_seed: two episodes with reset(seed=0) and the same actions differ in "
            f"{f'step {step}' if step else 'the first observation'}; want all random numbers only from self.np_random, "
            "which reset(seed=…) seeds, or omit check_seed"
        )
