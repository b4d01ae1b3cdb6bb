"""`from_batched`: train on a simulator that computes many cases per call."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, create_empty_array

from .._checks import Count, checked, listed
from .._text import counted, shown, some
from ..observations import ObservationSpace
from ..problems.vectors import SEED_PER_ENV
from ..rollouts.step_checks import Misfit, flags, real_numbers, shown_value
from ..structure.labels import check_labels
from ..structure.network import as_network
from .canonical import copied
from .factors import FIXED, FactorRule
from .wrapping import Factory, wrap


class BatchedSimulator(Protocol):
    """The interface of a simulator of N cases for `from_batched`; it need not be inherited.

    In its simplest form, `step` returns only rewards ``(N, m)``, and each step is an episode of each case. A simulator
    may also have `observation_space` (of one case), `network`, `weights` and `local` as in `factorax.wrap`, `targets`
    (their names), and a method `close`.
    """

    action_space: gym.Space
    """Action space of one case."""

    def reset(self, seeds: np.ndarray, cases: np.ndarray) -> Any:
        """Start an episode in these cases and return their first observations, ``(len(cases), ...)``; for a Dict or
        Tuple as `observation_space`, a dict or tuple of such arrays.

        - `seeds`: one seed per case. All random numbers of an episode must come from it, and cases must not influence
          each other.
        - `cases`: indices from 0 to N − 1. The first call is for all cases, and thus tells how many there are.

        If all cases always end together, the argument `cases` may be omitted; without observations, the whole method.
        """
        ...

    def step(self, actions: Any) -> Any:
        """Act in all cases, with an element of the batched action space: an array ``(N, ...)``, or a dict or tuple of
        arrays.

        Returns ``observations (N, ...), rewards (N, m), terminated (N,), truncated (N,)``, and optionally a dictionary
        with ``"factor_mask"`` ``(N, n)`` and ``"target_terminated"`` ``(N, m)``; or only rewards ``(N, m)``.
        """
        ...


def from_batched(
    simulator: Callable[..., Any],
    network: Any = None,
    *,
    num_envs: int,
    action_space: gym.Space | None = None,
    observation_space: gym.Space | None = None,
    targets: Sequence[str] | None = None,
    weights: Any = None,
    factors: FactorRule | None = None,
    local: Callable[[Any], Any] | None = None,
) -> Factory:
    """Return a function that creates vector environments from a simulator of many cases, for use with `FactoredPPO`.

    **Arguments**

    - `simulator`: a function from actions ``(N, ...)`` to rewards ``(N, m)``; or a class or function without arguments
      that creates a `BatchedSimulator`. Each worker creates its own.
    - `network`, `weights`, `factors`, `local`: as in `factorax.wrap`.
    - `num_envs`: the number N of cases per call. It is the default of `n_envs` in `FactoredPPO`; a multiple of N uses
      several simulators, in separate workers if `rollouts` selects them.
    - `action_space`, `observation_space`: the spaces of one case; by default those of the simulator. Without an
      observation space, observations have the length that `reset` returns, and a simulator without `reset` has none.
    - `targets`: names of the columns of the rewards.

    >>> import gymnasium as gym, numpy as np, factorax as fx
    >>> def power(yaw):  # each turbine's wake costs the next one
    ...     own = np.cos(np.radians(yaw))
    ...     return own - 0.3 * np.roll(own, 1, axis=1) * (np.arange(3) > 0)
    >>> net = fx.InfluenceNetwork([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    >>> farm = fx.integrations.from_batched(power, net, num_envs=16, action_space=gym.spaces.Box(-30.0, 30.0, (3,)))
    >>> model = fx.FactoredPPO(farm, n_steps=4, batch_size=32)
    >>> model.config.n_envs, model.network.shape
    (16, (3, 3))
    """
    n = checked("num_envs", num_envs, Count)
    if not callable(simulator):
        has = " with a method step, which cannot be shared by processes" if hasattr(simulator, "step") else ""
        raise TypeError(
            f"simulator: got {shown(simulator)}{has}; want a function from actions ({n}, …) to rewards ({n}, m), or a "
            "class or function without arguments that creates a simulator"
        )
    for name, space in (("action_space", action_space), ("observation_space", observation_space)):
        if space is not None and not isinstance(space, gym.Space):
            raise TypeError(f"{name}: got {shown(space)}, want the Gymnasium space of one case")
    names = None if targets is None else check_labels(listed("targets", targets, "a list of names"), None, "targets")
    network = None if network is None else as_network(network, "network", FIXED)
    m = None if network is None else network.shape[1]
    make = partial(SimulatorVector, simulator, n, action_space, observation_space, names, m)
    return wrap(make, network, weights=weights, factors=factors, local=local, check_sum=False)


class SimulatorVector(VectorEnv):
    """N cases of a `BatchedSimulator` as a Gymnasium vector environment without autoreset."""

    def __init__(
        self,
        simulator: Any,
        num_envs: int,
        action_space: gym.Space | None,
        observation_space: gym.Space | None,
        targets: Sequence[str] | None,
        n_targets: int | None,
    ):
        """Create the cases; arguments are those of `from_batched`, and `n_targets` is that of its network."""
        called = getattr(simulator, "__name__", type(simulator).__name__)
        # without arguments, it creates the simulator; a function of actions is its method `step`
        is_factory = _accepts(simulator, 0, otherwise=isinstance(simulator, type))
        simulator = simulator() if is_factory else SimpleNamespace(step=simulator)
        if not callable(getattr(simulator, "step", None)):
            raise TypeError(
                f"simulator: got {called}, a function without arguments that returns {shown(simulator)}; want one that "
                "returns an object with a method step(actions), or a function of actions"
            )
        self.simulator, self.num_envs, self.called = simulator, num_envs, called
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED, SEED_PER_ENV: True}
        declared = getattr(simulator, "action_space", None)
        space = declared if action_space is None else action_space
        if not isinstance(space, gym.Space):
            raise TypeError(
                f"action_space: got {shown(space)} for {called}, want the Gymnasium space of one case: pass "
                "action_space=…, or set it as an attribute of the simulator"
            )
        self._reset = getattr(simulator, "reset", None)
        self._takes_cases = self._reset is not None and _accepts(self._reset, 2, otherwise=True)
        observed = getattr(simulator, "observation_space", None) if observation_space is None else observation_space
        if observed is None and self._reset is not None:
            rows = self._first(np.arange(num_envs), np.arange(num_envs))
            if isinstance(rows, Mapping | tuple):
                raise Misfit(
                    f"observations of reset: got a {type(rows).__name__} from {called}, want an array ({num_envs}, …); "
                    "or declare the space of one case: observation_space=gym.spaces.Dict(…) or Tuple(…)"
                )
            rows = _rows_of("observations of reset", rows, num_envs)
            observed = gym.spaces.Box(-np.inf, np.inf, rows.shape[1:], np.float32)
        elif observed is None:
            observed = gym.spaces.Box(0.0, 0.0, (1,), np.float32)
        self.single_action_space, self.single_observation_space = space, observed
        self.action_space, self.observation_space = (batch_space(each, num_envs) for each in (space, observed))
        ObservationSpace.of(observed)  # raises for spaces without a fixed number of values
        self._obs: Any = create_empty_array(observed, num_envs)
        names = getattr(simulator, "targets", None) if targets is None else targets
        self.targets = None if names is None else tuple(names)
        self.network, self.weights = getattr(simulator, "network", None), getattr(simulator, "weights", None)
        self.local = getattr(simulator, "local", None)
        if n_targets is None and self.network is not None:
            n_targets = as_network(self.network, "network", FIXED).shape[1]
        if self.targets is not None and len(self.targets) != (n_targets or len(self.targets)):
            raise ValueError(
                f"targets: got {counted(len(self.targets), 'name')}, want {n_targets}, one per column of the network"
            )
        n_targets = n_targets or (None if self.targets is None else len(self.targets))
        if n_targets is not None:  # otherwise a step counts them
            self.reward_space = gym.spaces.Box(-np.inf, np.inf, (n_targets,), np.float64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start episodes in all cases, or in those of ``options["reset_mask"]``; a list has one seed per case."""
        n = self.num_envs
        if seed is None or isinstance(seed, int | np.integer):
            super().reset(seed=None if seed is None else int(seed))
            seeds = self.np_random.integers(2**31, size=n) if seed is None else int(seed) + np.arange(n)
        else:
            seeds = np.asarray(seed, np.int64)
        mask = (options or {}).get("reset_mask")
        cases = np.arange(n) if mask is None else np.flatnonzero(mask)
        if self._reset is not None:
            _write("observations of reset", self._first(seeds[cases], cases), self._obs, cases)
        return copied(self._obs), {}

    def _first(self, seeds: np.ndarray, cases: np.ndarray) -> Any:
        if self._takes_cases:
            return self._reset(seeds, cases)  # pyright: ignore[reportOptionalCall]
        if len(cases) == self.num_envs:
            return self._reset(seeds)  # pyright: ignore[reportOptionalCall]
        raise Misfit(
            f"reset: has no argument cases, but {len(cases)} of {self.num_envs} cases ended while others continue; "
            "want reset(seeds, cases), which starts an episode in those cases and returns their observations"
        )

    def step(self, actions: Any) -> tuple[Any, Any, np.ndarray, np.ndarray, dict[str, Any]]:
        """Call the simulator once."""
        n, returned = self.num_envs, self.simulator.step(actions)
        if not isinstance(returned, tuple):
            return copied(self._obs), real_numbers("rewards", returned), np.ones(n, bool), np.zeros(n, bool), {}
        if len(returned) not in (4, 5):
            raise Misfit(
                f"step: got {counted(len(returned), 'value')}, want only rewards ({n}, m), or (observations, rewards, "
                "terminated, truncated) with an optional dictionary"
            )
        obs, rewards, terminated, truncated, *more = returned
        if self._reset is None and not np.logical_or(terminated, truncated).all():
            raise Misfit("reset: is missing, but a step has not ended all cases; want reset(seeds, cases)")
        _write("observations", obs, self._obs, np.arange(n))
        ends = flags("terminated", terminated, n), flags("truncated", truncated, n)
        return copied(self._obs), real_numbers("rewards", rewards), *ends, (dict(more[0]) if more else {})

    def close_extras(self, **kwargs: Any) -> None:
        """Close the simulator, if it can be closed."""
        if hasattr(self.simulator, "close"):
            self.simulator.close()


def _write(name: str, given: Any, obs: Any, cases: np.ndarray) -> None:
    """Write the observations of some cases into those of all, which are an array or a dict or tuple of arrays."""
    if isinstance(obs, Mapping):
        if not isinstance(given, Mapping) or set(given) != set(obs):
            got = f"a dict with {some(list(map(str, given)))}" if isinstance(given, Mapping) else shown_value(given)
            raise Misfit(f"{name}: got {got}, want a dict of arrays with {some(list(obs))}")
        for key, part in obs.items():
            _write(f"{name}[{key!r}]", given[key], part, cases)
    elif isinstance(obs, tuple):
        if not isinstance(given, tuple) or len(given) != len(obs):
            raise Misfit(f"{name}: got {shown_value(given)}, want a tuple of {counted(len(obs), 'array')}")
        for i, part in enumerate(obs):
            _write(f"{name}[{i}]", given[i], part, cases)
    else:
        obs[cases] = _rows_of(name, given, len(cases), obs.shape[1:])


def _rows_of(name: str, given: Any, n: int, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Return observations of n cases as an array ``(n, *shape)``; of any shape if it is None."""
    rows = real_numbers(name, given)
    if rows.shape[:1] != (n,) if shape is None else rows.shape != (n, *shape):
        want = ", ".join(map(str, (n, *(("…",) if shape is None else shape))))
        raise Misfit(
            f"{name}: got shape {rows.shape}, want ({want}), one row for each of {counted(n, 'case')} of the call"
        )
    return rows


def _accepts(function: Any, count: int, *, otherwise: bool) -> bool:
    """Return whether a function accepts so many arguments; `otherwise` if a ufunc or a function in C hides it."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return otherwise
    return True
