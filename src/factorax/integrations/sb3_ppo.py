"""`PPO`: factored PPO with the constructor of Stable-Baselines3, as a drop-in replacement in existing scripts."""

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym

from .._checks import check_type
from .._text import shown
from ..ppo.model import FactoredPPO
from ..problems.problem import Problem
from ..problems.registry import find_problem
from ..problems.vectors import OneOfMany
from ..spec import declared_network, opened
from .views import to_gymnasium

_DEFAULTS: dict[str, Any] = {
    "learning_rate": 3e-4, "n_steps": 2048, "batch_size": 64, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95,
    "clip_range": 0.2, "clip_range_vf": None, "normalize_advantage": True, "ent_coef": 0.0, "vf_coef": 0.5,
    "max_grad_norm": 0.5, "seed": None,
}  # fmt: skip
"""Arguments of ``stable_baselines3.PPO`` that are settings of the same name, with its defaults. All but the last may be
passed by position, in this order."""
_UNAVAILABLE = {
    "use_sde": False, "sde_sample_freq": -1, "rollout_buffer_class": None, "rollout_buffer_kwargs": None,
    "stats_window_size": 100, "_init_setup_model": True, "preset": None,
}  # fmt: skip
"""Arguments without a counterpart here, or there, with the only value that they may have."""
_PLAIN: dict[str, Any] = {"method": "ppo"}
"""Settings of standard PPO, for problems without a network."""


def _hidden(net_arch: Any) -> Any:
    """Return the hidden layers of `net_arch`: a list, or a dictionary with the same list for both networks."""
    if not isinstance(net_arch, Mapping):
        return net_arch
    policy, critic = (list(net_arch.get(part, ())) for part in ("pi", "vf"))
    if policy != critic:
        raise ValueError(f"policy_kwargs['net_arch']: got {net_arch}, want the same layers for both networks")
    return policy


_POLICY_KWARGS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "net_arch": lambda value: {"hidden": _hidden(value)},
    "activation_fn": lambda value: {"activation": getattr(value, "__name__", str(value)).lower()},  # torch.nn.ReLU
    "log_std_init": lambda value: {"distribution": f"scale,initial_log_std={value}"},
}
"""The settings that correspond to an entry of `policy_kwargs`."""


def _settings(policy: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of `FactoredPPO` for arguments of Stable-Baselines3 and settings that only factorax has."""
    names = list(_DEFAULTS)[:-1]
    by_position = dict(zip(names, arguments, strict=False))
    if len(arguments) > len(names) or by_position.keys() & named.keys():
        raise TypeError(f"PPO: got {len(arguments) + 2} arguments by position, want each of {names} once")
    settings = _DEFAULTS | by_position | named
    for name, only in _UNAVAILABLE.items():
        value = settings.pop(name, only)
        if value != only:
            raise ValueError(
                f"{name}: got {shown(value)}, which is not available with the arguments of Stable-Baselines3; want "
                f"{only!r}, the default, or FactoredPPO"
            )
    policy_kwargs = settings.pop("policy_kwargs", None) or {}
    check_type("policy_kwargs", policy_kwargs, Mapping, "a dictionary, such as {'net_arch': [64, 64]}")
    unknown = [name for name in policy_kwargs if name not in _POLICY_KWARGS]
    if unknown:
        raise ValueError(f"policy_kwargs: got {unknown[0]!r}, want one of {', '.join(_POLICY_KWARGS)}")
    of_policy: dict[str, Any] = {"policy": "joint" if policy == "MlpPolicy" else policy}
    # Their default is a standard deviation of 1; that of factorax is ½ where actions are scaled to bounds.
    for name, value in ({"log_std_init": 0.0} | dict(policy_kwargs)).items():
        of_policy |= _POLICY_KWARGS[name](value)
    return of_policy | settings


class PPO(FactoredPPO):
    """`FactoredPPO` with the arguments, argument order and defaults of ``stable_baselines3.PPO``.

    - `policy`: ``"MlpPolicy"``, which is ``"joint"`` here, or ``"joint"``, ``"shared"``, ``"independent"``.
    - `env`: the name of an environment, an environment, or a Stable-Baselines3 vectorised environment in this process
      (`DummyVecEnv`, as returned by `make_vec_env`); or what `FactoredPPO` accepts, a `Problem` or a function that
      returns an environment, of which `n_envs` are stepped.
    - `arguments`: those of Stable-Baselines3, in its order: `learning_rate`, `n_steps`, `batch_size`, `n_epochs`, …
    - `network`: the influence network. Without one (here or in the environment), this is standard PPO.
    - All other settings of `factorax.ppo.Config` are keyword arguments.

    >>> from factorax.integrations import PPO  # instead of: from stable_baselines3 import PPO
    >>> PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1).learn(32).num_timesteps
    32
    """

    def __init__(
        self, policy: str, env: Any, *arguments: Any, network: Any = None, n_envs: int | None = None, **settings: Any
    ):
        self._env, problem = env, _problem_of(env)
        settings = _settings(policy, arguments, settings)
        # Opened once, because some simulators are slow to start: for the number of environments, and for the network.
        with opened(find_problem(problem) if isinstance(problem, str) else problem) as source:
            count = source.num_envs if isinstance(source, OneOfMany) else None
            if network is None and declared_network(source) is None:
                settings = _PLAIN | settings
        if isinstance(problem, _Lender):
            count = len(problem.envs)  # each of them is stepped, as Stable-Baselines3 does
            if n_envs not in (None, count):
                raise ValueError(f"n_envs: got {n_envs}, but env contains {count}; want {count}, or omit it")
        super().__init__(problem, network, n_envs=(count or 1) if n_envs is None else n_envs, **settings)
        if isinstance(problem, _Lender):
            self.names = (problem.id, self.names[1])  # with which `load` finds the problem

    def get_env(self) -> Any:
        """Return the environment that the model was created with, or a new one for a name or function.

        It is vectorised if Stable-Baselines3 is installed.
        """
        if not isinstance(self._env, gym.Env) and not hasattr(self._env, "num_envs"):
            self._env = to_gymnasium(self.spec.problem)
        if isinstance(self._env, gym.Env):
            try:
                from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]
            except ImportError:
                return self._env
            env = self._env
            self._env = DummyVecEnv([lambda: env])
        return self._env

    def evaluate(self, episodes: int = 10, *, deterministic: bool = True, seed: int = 0) -> dict[str, Any]:
        """Evaluate as `FactoredPPO.evaluate` does, in new environments rather than those passed for training."""
        problem = self.spec.problem
        if not isinstance(problem, _Lender):
            return super().evaluate(episodes, deterministic=deterministic, seed=seed)
        # Episodes of evaluation in the environments of training would cut off those in progress.
        return self.on(problem.make_another).evaluate(episodes, deterministic=deterministic, seed=seed)

    def learn(
        self,
        total_timesteps: int | None = None,
        callback: Any = None,
        log_interval: int | None = 1,
        tb_log_name: str = "PPO",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> "PPO":
        """Train as `FactoredPPO.learn` does, with the defaults of Stable-Baselines3."""
        super().learn(total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar)
        return self

    @classmethod
    def load(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, path: str | os.PathLike[str], env: Any = None, device: str = "auto", **options: Any
    ) -> "PPO":
        """Load a model as `FactoredPPO.load` does; `env` is an environment for further training, as in the constructor.

        `custom_objects`, `print_system_info` and `force_reset` exist for compatibility and have no effect.
        """
        for name in ("custom_objects", "print_system_info", "force_reset"):
            options.pop(name, None)
        if isinstance(env, gym.Env) or hasattr(env, "num_envs"):
            options = {"n_envs": getattr(env, "num_envs", 1)} | options  # rather than as many as in training
        model = super().load(path, env, device=device, **options)
        assert isinstance(model, PPO)
        return model

    @classmethod
    def _rebuilt(cls, problem: Any, network: Any, **options: Any) -> "PPO":
        return cls(options.pop("policy"), problem, network=network, **options)


class _Borrowed(gym.Wrapper):
    """An environment that belongs to the user and stays open."""

    def close(self) -> None:
        pass


class _Lender:
    """An environment factory that hands out the user's environments one after another."""

    def __init__(self, envs: Sequence[gym.Env]):
        self.envs, self.spec = envs, envs[0].spec
        self.id = None if self.spec is None else self.spec.id
        self.__name__ = self.id or type(envs[0].unwrapped).__name__
        self._turn = itertools.cycle(envs)

    def __call__(self) -> gym.Env:
        return _Borrowed(next(self._turn))

    def make_another(self) -> gym.Env:
        """Return a new environment of the same kind."""
        if self.spec is None:
            raise ValueError(
                "evaluate: the environment is not registered with Gymnasium, so a new one cannot be created; use "
                "evaluate_policy(model, env) or EvalCallback(eval_env=…)"
            )
        return gym.make(self.spec)


def _problem_of(env: Any) -> Any:
    """Return the problem for `FactoredPPO`: `env`, or a factory that lends the environments of the user."""
    if isinstance(env, gym.Env):
        return _Lender([env])
    if hasattr(env, "venv"):
        raise TypeError(
            f"env: got {type(env).__name__}, a wrapper of a vectorised environment, which would be ignored; want "
            "normalize_obs and normalize_reward instead of VecNormalize, or wrappers around each single environment"
        )
    if hasattr(env, "envs"):
        return _Lender(env.envs)
    if hasattr(env, "num_envs"):
        raise TypeError(
            f"env: got {type(env).__name__}, with environments in other processes; want a DummyVecEnv, or a "
            "function that returns one environment, with n_envs and rollouts='processes'"
        )
    if not isinstance(env, str | Problem) and not callable(env):
        raise TypeError(f"env: got {shown(env)}, want an environment, its name, or a function that returns one")
    return env
