"""Creation of environments, and properties of Gymnasium vector environments and of their sub-environments."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

SEED_PER_ENV = "seed_per_env"
"""Key of `metadata`: whether ``reset(seed=[…], options={"reset_mask": mask})`` resets exactly the marked environments,
each with its own seed."""


def create(make: Callable[[], Any]) -> Any:
    """Return the environment of a factory, which may also return a class or another factory, as in
    ``def make(): return fx.wrap(Class, network)``.

    >>> create(lambda: gym.envs.classic_control.CartPoleEnv).action_space
    Discrete(2)
    """
    env = make()
    # By `step`, because an environment may be callable itself.
    while callable(env) and (isinstance(env, type) or not hasattr(env, "step")):
        env = env()
    return env


def is_vector(env: Any) -> bool:
    """Return whether this is a Gymnasium vector environment."""
    return isinstance(env, VectorEnv)


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """Return how a vector environment resets ended sub-environments, according to its `metadata`.

    Raises ValueError if the metadata have no such entry.
    """
    mode = (env.metadata or {}).get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        known = ", ".join(f"AutoresetMode.{each.name}" for each in AutoresetMode)
        raise ValueError(
            f"metadata['autoreset_mode']: got {mode!r} from {type(env.unwrapped).__name__}, want one of {known} of "
            "gymnasium.vector: what a step returns after the end of an episode depends on it"
        ) from None


def takes_seeds(env: VectorEnv) -> bool:
    """Return whether sub-environments can be reset with individual seeds, so that all episodes can be replayed.

    This holds for Gymnasium's `SyncVectorEnv` and `AsyncVectorEnv` in any autoreset mode; others declare it by
    ``metadata["seed_per_env"]``.
    """
    inner = env.unwrapped
    if isinstance(inner, AsyncVectorEnv):
        # Without shared memory, its processes reset once more in the step after a reset with a mask.
        return inner.shared_memory is not False or autoreset_mode(env) is not AutoresetMode.NEXT_STEP
    return isinstance(inner, SyncVectorEnv) or bool((env.metadata or {}).get(SEED_PER_ENV, False))


class OneOfMany:
    """One sub-environment of a vector, with the attributes that `Spec` reads: its spaces, network and λ.

    For a `SyncVectorEnv` or `AsyncVectorEnv` they are those of the first sub-environment; for any other vector
    environment they are its own.
    """

    def __init__(self, env: VectorEnv):
        for name in ("single_observation_space", "single_action_space"):
            space = getattr(env, name, None)
            if not isinstance(space, gym.Space):
                raise TypeError(f"problem: {type(env).__name__}.{name} is {space!r}, want a Gymnasium space")
        if not isinstance(getattr(env, "num_envs", None), int) or env.num_envs < 1:
            raise TypeError(
                f"problem: {type(env).__name__}.num_envs is {getattr(env, 'num_envs', None)!r}, want 1 or more"
            )
        autoreset_mode(env)
        self.vector, self.num_envs = env, env.num_envs
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space
        # One process each: as many as the user requests can run.
        self.metadata = {name: value for name, value in (env.metadata or {}).items() if name != "one_per_process"}
        self.unwrapped = _described_by(env, self)

    def __getattr__(self, name: str) -> Any:
        if name == "vector":  # not yet set, as while copying
            raise AttributeError(name)
        return getattr(self.vector.unwrapped, name)

    def close(self) -> None:
        """Close the vector."""
        self.vector.close()


def _described_by(env: VectorEnv, otherwise: OneOfMany) -> Any:
    inner = env.unwrapped
    if isinstance(inner, SyncVectorEnv):
        return inner.envs[0].unwrapped
    if isinstance(inner, AsyncVectorEnv):  # its environments are in other processes, so one is created here
        one = inner.env_fns[0]()
        one.close()
        return one.unwrapped
    return otherwise
