"""`PPO`: factored PPO with the constructor of Stable-Baselines3, as a drop-in replacement in existing scripts."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym

from .._checks import check_type, listed
from .._text import shown
from ..ppo.learner import Learner
from ..ppo.model import FactoredPPO, vector_size
from ..problems.problem import Problem
from .views import to_gymnasium

_WITHOUT_EFFECT = {"use_sde": False, "sde_sample_freq": -1, "rollout_buffer_class": None, "rollout_buffer_kwargs": None,
                   "stats_window_size": 100, "_init_setup_model": True}  # fmt: skip
"""Arguments of Stable-Baselines3 without a counterpart, with the only value that they may have."""


class PPO(FactoredPPO):
    """`FactoredPPO` with the arguments, argument order and defaults of ``stable_baselines3.PPO``.

    - `policy`: ``"MlpPolicy"``, which is ``"joint"`` here, or ``"joint"``, ``"shared"``, ``"independent"``.
    - `env`: the name of an environment, an environment, or a Stable-Baselines3 vectorised environment in this process
      (`DummyVecEnv`, as returned by `make_vec_env`); or what `FactoredPPO` accepts, a `Problem` or a function that
      returns an environment, of which `n_envs` are stepped.
    - `network`: the influence network. Without one (here or in the environment), this is standard PPO
      (``estimator="vanilla"``).
    - All other settings of `factorax.ppo.Config` are keyword arguments.

    >>> from factorax.integrations import PPO  # instead of: from stable_baselines3 import PPO
    >>> PPO("MlpPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1).learn(32).num_timesteps
    32
    """

    def __init__(
        self,
        policy: str,
        env: Any,
        learning_rate: Any = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: Any = 0.2,
        clip_range_vf: Any = None,
        normalize_advantage: bool = True,
        ent_coef: Any = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        *,
        network: Any = None,
        n_envs: int | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        tensorboard_log: str | os.PathLike[str] | None = None,
        verbose: int = 0,
        **settings: Any,
    ):
        for name, only in _WITHOUT_EFFECT.items():
            value = settings.pop(name, only)
            if value not in (only,):
                raise ValueError(
                    f"{name}: got {shown(value)}, which is not available in factorax; want {only!r}, the default"
                )
        for name in settings.keys() & {"preset", "method"}:
            raise ValueError(
                f"{name}: got {settings[name]!r}, but PPO uses the defaults of Stable-Baselines3; want a {name} only "
                "in FactoredPPO"
            )
        self._env = env
        if env is None:
            raise TypeError("env: got None, want an environment, its name, or a function that returns one")
        problem, count = _problem_of(env)
        if count is not None and n_envs not in (None, count):
            raise ValueError(f"n_envs: got {n_envs}, but env contains {count}; want {count}, or omit it")
        settings |= _of_policy(policy_kwargs or {})
        settings = {"initial_log_std": 0.0, "seed": None} | settings
        self._estimator_is_given = "estimator" in settings
        super().__init__(
            problem,
            network,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            policy="joint" if policy == "MlpPolicy" else policy,
            learning_rate=learning_rate,
            n_envs=(count or vector_size(problem) or 1) if n_envs is None else n_envs,
            n_steps=n_steps,
            batch_size=batch_size,
            n_epochs=n_epochs,
            gamma=gamma,
            gae_lambda=gae_lambda,
            clip_range=clip_range,
            clip_range_vf=clip_range_vf,
            normalize_advantage=normalize_advantage,
            ent_coef=ent_coef,
            vf_coef=vf_coef,
            max_grad_norm=max_grad_norm,
            **settings,
        )
        if isinstance(problem, _Given):
            self.names = (problem.id, self.names[1])

    def _learner(self, problem: Any, network: Any, **options: Any) -> Learner:
        """Return a learner with the vanilla estimator if there is no network, unless the settings say otherwise."""
        learner = super()._learner(problem, network, **options)
        if self._estimator_is_given or not learner.spec.network_is_default:
            return learner
        self.config = replace(self.config, estimator="vanilla")
        return Learner(learner.spec, self.config)

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
        if not isinstance(problem, _Given):
            return super().evaluate(episodes, deterministic=deterministic, seed=seed)
        other = self.on(problem.another)
        return other.evaluate(episodes, deterministic=deterministic, seed=seed)

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
        cls,
        path: str | os.PathLike[str],
        env: Any = None,
        device: str = "auto",
        custom_objects: Any = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **options: Any,
    ) -> "PPO":
        """Load a model as `FactoredPPO.load` does; `env` is an environment for further training, as in the constructor.

        `custom_objects`, `print_system_info` and `force_reset` exist for compatibility and have no effect.
        """
        count = _problem_of(env)[1]
        if count is not None:
            options = {"n_envs": count} | options
        model = super().load(path, env, device=device, **options)
        assert isinstance(model, PPO)
        return model

    @classmethod
    def _rebuilt(cls, problem: Any, network: Any, **options: Any) -> "PPO":
        return cls(options.pop("policy"), problem, network=network, **options)


class _Lent(gym.Wrapper):
    """An environment that belongs to the user and stays open."""

    def close(self) -> None:
        pass


class _Given:
    """An environment factory that hands out the user's environments one after another."""

    def __init__(self, envs: Sequence[gym.Env]):
        self.envs, self.spec = itertools.cycle(envs), envs[0].spec
        self.id = None if self.spec is None else self.spec.id
        self.__name__ = self.id or type(envs[0].unwrapped).__name__

    def __call__(self) -> gym.Env:
        return _Lent(next(self.envs))

    def another(self) -> gym.Env:
        """Return a new environment of the same kind."""
        if self.spec is None:
            raise ValueError(
                "evaluate: the environment is not registered with Gymnasium, so a new one cannot be created; use "
                "evaluate_policy(model, env) or EvalCallback(eval_env=…)"
            )
        return gym.make(self.spec)


def _problem_of(env: Any) -> tuple[Any, int | None]:
    """Return the problem for `FactoredPPO`, and the number of environments if they are given."""
    if isinstance(env, gym.Env):
        return _Given([env]), 1
    if not hasattr(env, "num_envs"):
        if env is not None and not isinstance(env, str | Problem) and not callable(env):
            raise TypeError(f"env: got {shown(env)}, want an environment, its name, or a function that returns one")
        return env, None
    if hasattr(env, "venv"):
        raise TypeError(
            f"env: got {type(env).__name__}, a wrapper of a vectorised environment, which would be ignored; want "
            "normalize_obs and normalize_reward instead of VecNormalize, or wrappers around each single environment"
        )
    if not hasattr(env, "envs"):
        raise TypeError(
            f"env: got {type(env).__name__}, with environments in other processes; want a DummyVecEnv, or a "
            "function that returns one environment, with n_envs and rollouts='processes'"
        )
    return _Given(env.envs), int(env.num_envs)


def _of_policy(policy_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that correspond to Stable-Baselines3's `policy_kwargs`."""
    settings: dict[str, Any] = {}
    check_type("policy_kwargs", policy_kwargs, Mapping, "a dictionary, such as {'net_arch': [64, 64]}")
    for name, value in policy_kwargs.items():
        if name == "net_arch":
            layers = [value.get("pi", ()), value.get("vf", ())] if isinstance(value, Mapping) else [value, value]
            layers = [listed("policy_kwargs['net_arch']", each, "a list of sizes") for each in layers]
            if layers[0] != layers[1]:
                raise ValueError(f"policy_kwargs['net_arch']: got {value!r}, want the same layers for both networks")
            settings["hidden"] = tuple(layers[0])
        elif name == "log_std_init":
            settings["initial_log_std"] = value
        elif not (name == "activation_fn" and getattr(value, "__name__", "") == "Tanh"):
            raise ValueError(f"policy_kwargs: got {name!r}, want net_arch, log_std_init, or Tanh as activation_fn")
    return settings
