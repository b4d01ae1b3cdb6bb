"""What a Gymnasium vector environment says about itself, and about the environments it holds."""

from typing import Any

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

SEED_PER_ENV = "seed_per_env"
"""Key of `metadata`: whether ``reset(seed=[…], options={"reset_mask": mask})`` resets the marked environments, each
with its own seed, and nothing else."""


def is_vector(env: Any) -> bool:
    """Return whether this is a Gymnasium vector environment."""
    return isinstance(env, VectorEnv)


def autoreset_mode(env: VectorEnv) -> AutoresetMode:
    """Return how a vector environment resets those of its environments that have ended, as its `metadata` says.

    Raises ValueError if it does not say.
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
    """Return whether single environments of a vector can be reset with a seed each, so that all episodes can be
    replayed.

    Those of Gymnasium's `SyncVectorEnv` and `AsyncVectorEnv` can, whatever their autoreset mode; others say so by
    ``metadata["seed_per_env"]``.
    """
    inner = env.unwrapped
    if isinstance(inner, AsyncVectorEnv):
        # Without shared memory its processes reset once more in the step after a reset with a mask.
        return inner.shared_memory is not False or autoreset_mode(env) is not AutoresetMode.NEXT_STEP
    return isinstance(inner, SyncVectorEnv) or bool((env.metadata or {}).get(SEED_PER_ENV, False))


class OneOfMany:
    """One environment of a vector, as `Spec` looks at environments: its spaces, its network, its λ.

    Attributes are those of the first environment of a `SyncVectorEnv` or `AsyncVectorEnv`; of any other vector
    environment they are its own.
    """

    def __init__(self, env: VectorEnv):
        for name in ("single_observation_space", "single_action_space"):
            space = getattr(env, name, None)
            if not isinstance(space, gym.Space):
                raise TypeError(f"problem: {type(env).__name__}.{name} is {space!r}, want a space of Gymnasium")
        if not isinstance(getattr(env, "num_envs", None), int) or env.num_envs < 1:
            raise TypeError(
                f"problem: {type(env).__name__}.num_envs is {getattr(env, 'num_envs', None)!r}, want 1 or more"
            )
        autoreset_mode(env)
        self.vector, self.num_envs = env, env.num_envs
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space
        # A process each: there is room for as many as the user has asked for.
        self.metadata = {name: value for name, value in (env.metadata or {}).items() if name != "one_per_process"}
        self.unwrapped = _described_by(env, self)

    def __getattr__(self, name: str) -> Any:
        if name == "vector":  # not there yet, or a copy
            raise AttributeError(name)
        return getattr(self.vector.unwrapped, name)

    def close(self) -> None:
        """Close the vector."""
        self.vector.close()


def _described_by(env: VectorEnv, otherwise: OneOfMany) -> Any:
    inner = env.unwrapped
    if isinstance(inner, SyncVectorEnv):
        return inner.envs[0].unwrapped
    if isinstance(inner, AsyncVectorEnv):  # its environments are in other processes; it makes one for itself, too
        one = inner.env_fns[0]()
        one.close()
        return one.unwrapped
    return otherwise
