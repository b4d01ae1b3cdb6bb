"""Any problem as a Stable-Baselines3 VecEnv with one row per factor, which makes its PPO factored."""

import time
import warnings
from typing import Any

import numpy as np

from .._checks import Count, checked
from ..rollouts.factory import environments_for
from .views import FactorViews, Observe

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]
except ImportError:  # optional; without it, the module can still be imported for documentation
    VecEnv: Any = None
_Base: Any = object if VecEnv is None else VecEnv


def to_stable_baselines3(
    problem: Any,
    network: Any = None,
    *,
    n_envs: int = 8,
    weights: Any = None,
    local: Any = None,
    observe: Observe = "local",
) -> "FactorVecEnv":
    """Return a problem as a VecEnv with `n_envs` × n rows, one per factor, all served by one policy.

    **Arguments**

    - `problem`, `network`, `weights`, `local`: as for `FactoredPPO`.
    - `n_envs`: number of copies of the problem.
    - `observe`: ``"local"``: a row receives its local observation if the problem has one; ``"global"``: all of it.

    Each row also receives the index of its factor, one-hot. Its reward is the credit [K(λ∘r)]ᵢ, so any
    Stable-Baselines3 algorithm for a VecEnv follows the factored gradient, with one policy shared by all factors. This
    requires factors with equal action spaces. Stable-Baselines3 has no masks: a factor that did not act still learns
    from its credit.
    """
    if VecEnv is None:
        raise ImportError("to_stable_baselines3 needs Stable-Baselines3: pip install stable-baselines3 (and PyTorch)")
    checked("n_envs", n_envs, Count)
    return FactorVecEnv(
        FactorViews(problem, network, weights=weights, local=local, observe=observe, identity=True), n_envs
    )


class FactorVecEnv(_Base):
    """The VecEnv that `to_stable_baselines3` returns. Row ``b · n + i`` is factor i of copy b."""

    def __init__(self, factors: FactorViews, n_envs: int):
        names, spaces = factors.names, factors.action_spaces
        different = [name for name, space in zip(names, spaces, strict=True) if space != spaces[0]]
        if different:
            raise ValueError(
                f"problem: factor {different[0]!r} has another action space than factor {names[0]!r}, but one policy "
                "serves both; want factors with equal action spaces (group them with net.factor(…)), or to_pettingzoo"
            )
        self.factors, self.n_copies = factors, n_envs
        self._copies = environments_for(factors.spec, n_envs)
        self._actions: Any = None
        self._start_time = time.time()
        super().__init__(n_envs * factors.n, factors.observation_space, spaces[0])

    def reset(self) -> np.ndarray:
        """Start episodes in all copies; seeded if `seed` was called before."""
        first = self._seeds[0]  # `VecEnv.seed` counts up from it for the rows, which are no environments
        seed = int(np.random.SeedSequence().generate_state(1)[0]) if first is None else first
        self._copies.init(seed)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return self._observe(self._copies.obs)

    def step_async(self, actions: np.ndarray) -> None:
        """Store the actions of all rows for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Step all copies; ended copies are reset, with their last observation in `infos`."""
        factors, B = self.factors, self.n_copies
        by_factor = np.asarray(self._actions, np.float32).reshape(B, factors.n, -1)
        flat = np.empty((B, len(factors.components)), np.float32)
        for i, group in enumerate(factors.groups):
            flat[:, group] = by_factor[:, i]
        step = self._copies.step(flat)
        ended = np.asarray(step.terminated[0] | step.truncated[0])
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if ended.any():
            # Of all copies at once: `observe` is compiled for one shape.
            last = factors.observe(np.asarray(step.next_obs[0]))
            for b in np.flatnonzero(ended):
                objective = float(np.asarray(step.episode_psi[0, b], np.float64) @ factors.weights)
                elapsed = round(time.time() - self._start_time, 6)
                episode = {"r": objective, "l": int(step.episode_length[0, b]), "t": elapsed}
                cut = bool(step.truncated[0, b]) and not bool(step.terminated[0, b])
                # The names that Stable-Baselines3 reads: to bootstrap, and to log the mean return.
                for i in range(factors.n):
                    info = {"terminal_observation": last[b, i], "TimeLimit.truncated": cut, "episode": episode}
                    infos[b * factors.n + i] = info
        rewards = factors.credit(step.psi[0]).ravel().astype(np.float32)
        return self._observe(self._copies.obs), rewards, np.repeat(ended, factors.n), infos

    def _observe(self, obs: np.ndarray) -> np.ndarray:
        return self.factors.observe(obs).reshape(self.num_envs, -1)

    def close(self) -> None:
        """Close the environments."""
        self._copies.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return `render_mode`; rows are not environments and have no other attributes."""
        if attr_name != "render_mode":
            raise AttributeError(f"the rows of this VecEnv are factors and have no attribute {attr_name!r}")
        return [None for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise AttributeError: see `get_attr`."""
        raise AttributeError(f"the rows of this VecEnv are factors; {attr_name!r} cannot be set on them")

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **named: Any) -> list[Any]:
        """Raise AttributeError: see `get_attr`."""
        raise AttributeError(f"the rows of this VecEnv are factors and have no method {method_name!r}")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for each row: rows are not environments."""
        return [False for _ in self._get_indices(indices)]
