"""`wrap`: one line from anyone's environment to one that the learner takes."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from ..problems.problem import Problem
from ..structure.labels import warn
from .canonical import FactoredEnv, FactoredGymnasium, Places, flat_observations
from .factors import Factors, Rows, fit
from .observing import Observed
from .rewards import parts_of


def wrap(
    env: Any,
    network: Any = None,
    *,
    reward: str | Callable[..., Any] | None = None,
    weights: Any = None,
    factors: Factors | None = None,
    local: Callable[[Any], Any] | None = None,
    observe: Sequence[str] = (),
    check_sum: bool = True,
    check_seed: bool = False,
) -> Any:
    """An environment in the form that `FactoredPPO` takes: a `FactoredEnv`; of a function that makes one, a function.

    **Arguments**

    - `env`: a Gymnasium, MO-Gymnasium or parallel PettingZoo environment, or a function that makes one. The learner
      wants a function, since it makes several.
    - `network`: which factor influences which target, now or later. The environment's own if left out; if it has none,
      all influence all, with a warning.
    - `reward`: where the targets are. Left out: the array an environment of MO-Gymnasium returns,
      ``info["vector_reward"]``, the rewards of the PettingZoo agents, or else the scalar, as one target.
      ``"info:profit,costs.energy"``: dotted paths into `info`, to numbers or arrays. A function ``(obs, action, reward,
      info) -> vector``. ``"collapse"``: PettingZoo agents that all get the same reward, as one target.
    - `weights`: the multipliers λ, ``(m,)``; the environment's own, or ones.
    - `factors`: what a row of the network stands for. ``"elements"``: a component of the action, as
      `factorax.learning.ActionSpace` counts them. ``"leaves"``: a leaf of a Dict or Tuple, or a PettingZoo agent.
      ``"minimum"``: the minimum factorisation of the network. Elements if left out; agents in PettingZoo.
    - `local`: from observations ``(..., d)`` to what each factor sees, ``(..., n, l)``; the environment's own, or in
      PettingZoo the observation of each agent.
    - `observe`: dotted paths into `info` whose numbers are put at the end of the observation, for policies, critics and
      a `StateNetwork`, which finds them by these names. Every `info` must have them, that of `reset` included; the
      environment is reset once when it is wrapped. A `local` of its own sees what it saw before.
    - `check_sum`: raise if ``weights @ parts`` is not the scalar reward that the environment gives.
    - `check_seed`: raise if two episodes with one seed and the same actions differ.

    Observations that are no Box are flattened, actions copied before they are handed over. An environment that has no
    `reward_space` is stepped once, to see how many targets there are and that they add up; reset it before use.

    >>> import gymnasium as gym, factorax as fx
    >>> def move(obs, action, reward, info):
    ...     return [reward, -abs(obs[0])]
    >>> net = fx.InfluenceNetwork([[1, 1]], targets=["upright", "centred"])
    >>> env = fx.wrap(gym.make("CartPole-v1"), net, reward=move, check_sum=False)
    >>> _ = env.reset(seed=0)
    >>> env.step(0)[4]["vector_reward"].round(2)
    array([ 1.  , -0.01])
    """
    options: dict[str, Any] = {"network": network, "reward": reward, "weights": weights, "factors": factors}
    options |= {"local": local, "observe": observe, "check_sum": check_sum, "check_seed": check_seed}
    if isinstance(env, Problem):
        raise TypeError("env: got a Problem, want an environment; FactoredPPO takes problems as they are")
    if callable(env) and not isinstance(env, gym.Env):
        return Factory(env, options)
    return _wrapped(env, options)


class Seen(NamedTuple):
    """What an environment turned out to have when it was made."""

    targets: int
    places: Places


class Factory:
    """A function that makes wrapped environments; what is seen and checked by stepping one holds for all."""

    def __init__(self, make: Callable[[], Any], options: dict[str, Any]):
        self.make, self.options = make, options
        self.seen: Seen | None = None

    def __call__(self) -> FactoredEnv:
        """One more environment."""
        env = _wrapped(self.make(), self.options, self.seen)
        self.seen = Seen(env.network.shape[1], env.observed_info)
        return env


def _wrapped(env: Any, options: dict[str, Any], seen: Seen | None = None) -> FactoredEnv:
    """`seen` is of another environment like this one."""
    options = dict(options)
    check_seed = options.pop("check_seed")
    if hasattr(env, "agent_selection"):
        raise TypeError(
            "env: got a turn-based (AEC) environment, want a parallel one, which pettingzoo.utils.aec_to_parallel makes"
        )
    if hasattr(env, "possible_agents") and not isinstance(env, gym.Env):
        from .pettingzoo import wrap_parallel

        if options.pop("observe"):
            raise ValueError(
                "observe: is for Gymnasium environments; let the agents of PettingZoo observe it themselves"
            )
        wrapped = wrap_parallel(env, is_first=seen is None, **options)
    else:
        _refuse(env)
        wrapped = _wrap_gymnasium(env, seen, **options)
    if check_seed and seen is None:
        _check_seed(wrapped)
    return wrapped


def _refuse(env: Any) -> None:
    """Raise for what is no single environment."""
    if isinstance(env, gym.vector.VectorEnv):
        raise TypeError(
            f"env: got a vector of environments, {type(env).__name__}; want one, or a function that makes one: "
            "fx.wrap(lambda: gym.make(…)) with n_envs of FactoredPPO steps many"
        )
    if not isinstance(env, gym.Env):
        raise TypeError(
            f"env: got {type(env).__name__}, want a gymnasium.Env, a parallel PettingZoo environment, or a function "
            "that makes one, as in lambda: gym.make('CartPole-v1')"
        )
    inner: Any = env
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, gym.wrappers.Autoreset):
            raise TypeError("env: has the wrapper Autoreset, which hides the last observation; take it off")
        inner = inner.env


def declared(env: Any, name: str) -> Any:
    """An attribute of an environment or of what it wraps; None if there is none."""
    return env.get_wrapper_attr(name) if isinstance(env, gym.Env) and env.has_wrapper_attr(name) else None


def weights_of(weights: Any, own: Any, m: int) -> np.ndarray:
    """λ, checked; the environment's own, or ones, if left out."""
    found = np.ones(m) if weights is None and own is None else np.asarray(own if weights is None else weights, float)
    if found.shape != (m,) or not np.isfinite(found).all():
        raise ValueError(f"weights: got {found.tolist()}, want {m} finite numbers, one λ for each target")
    return found


def warn_if_complete(network: Any, m: int) -> None:
    """Say that nothing is gained by factoring, where no network is given."""
    if network is None and m == 1:
        warn(
            "the reward is one number, one target for all actions: factoring can do nothing, this is plain PPO. Say "
            "where its parts are with reward=…, or pass a network of one column if that is meant"
        )
    elif network is None:
        warn(
            f"network: none is given, so that every action is credited with all {m} targets, as in plain PPO. Say "
            "which influences which, or pass fx.InfluenceNetwork.complete(n, m) if that is meant"
        )


def _wrap_gymnasium(
    env: gym.Env,
    seen: Seen | None,
    *,
    network: Any,
    reward: Any,
    weights: Any,
    factors: Factors | None,
    local: Any,
    observe: Sequence[str],
    check_sum: bool,
) -> FactoredEnv:
    rows = Rows.of(env.action_space)
    parts, places, own_local = parts_of(reward), declared(env, "observed_info") or (), declared(env, "local")
    if observe:
        sizes = None if seen is None else [end - start for _, start, end in seen.places[len(places) :]]
        observed = Observed(env, observe, places, sizes)
        wrapped, places = FactoredGymnasium(env, parts, observed.space, observed, check_sum=check_sum), observed.places
        if own_local is not None:
            own_local = _Front(own_local, observed.size)
    else:
        space, flat = flat_observations(env.observation_space)
        wrapped = FactoredGymnasium(env, parts, space, lambda obs, info: flat(obs), check_sum=check_sum)
    network = network if network is not None else declared(env, "network")
    space = declared(env, "reward_space") if reward is None else None
    step = None
    if space is not None and len(space.shape) == 1:
        m = space.shape[0]
    elif seen is not None:
        m = seen.targets
    else:
        step = _one_step(wrapped)
        m = step[0].size
        columns = getattr(network, "shape", (1, 1))[1]
        if m == 1 and columns > 1 and np.ndim(step[1]) == 0 and reward is None:
            raise ValueError(
                f"reward: the environment gives one number, and the network has {columns} columns; say where "
                'the parts of the reward are: reward="info:…", or a function (obs, action, reward, info) -> vector'
            )
    if seen is None:
        warn_if_complete(network, m)
    names = parts.names if parts.names is not None and len(parts.names) == m else None
    fitted = fit(network, rows, factors or "elements", m, names)
    own = declared(env, "weights")
    local = local if local is not None else own_local
    wrapped.observed_info = places
    wrapped._describe(fitted, weights_of(weights, own if np.shape(own) == (m,) else None, m), local, space)
    if step is not None:
        psi, given = step
        wrapped.check_sum(float(wrapped.weights @ psi), given, psi)
    return wrapped


class _Front:
    """What factors see, made of the first numbers of an observation; those of `info` come after."""

    def __init__(self, local: Callable[[Any], Any], size: int):
        self.local, self.size = local, size

    def __call__(self, obs: Any) -> Any:
        return self.local(obs[..., : self.size])


def _one_step(env: FactoredGymnasium) -> tuple[np.ndarray, Any]:
    """The parts that a step gives, and the reward itself."""
    space = copy.deepcopy(env.action_space)
    space.seed(0)
    env.reset(seed=0)
    action = space.sample()
    env._time = 1
    obs, reward, _, _, info = env.env.step(copy.deepcopy(action))
    return env.parts(obs, action, reward, info), reward


def _check_seed(env: FactoredEnv, steps: int = 10) -> None:
    space = copy.deepcopy(env.action_space)
    seen = []
    for _ in range(2):
        space.seed(0)
        obs, _ = env.reset(seed=123)
        episode = [np.asarray(obs)]
        for _ in range(steps):
            obs, _, terminated, truncated, info = env.step(space.sample())
            episode += [np.asarray(obs), info["vector_reward"]]
            if terminated or truncated:
                break
        seen.append(episode)
    differ = [i for i, (a, b) in enumerate(zip(*seen, strict=False)) if not np.array_equal(a, b, equal_nan=True)]
    if differ or len(seen[0]) != len(seen[1]):
        first = differ[0] if differ else min(map(len, seen))
        what = "the first observation" if first == 0 else f"step {(first + 1) // 2}"
        raise ValueError(
            f"check_seed: two episodes with reset(seed=123) and the same actions differ in {what}; draw from "
            "self.np_random, which reset(seed=…) seeds, and from nothing else, or leave check_seed out"
        )
