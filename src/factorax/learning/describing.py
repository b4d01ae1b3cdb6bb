"""A short description of a model: what it trains, and how."""

from ..spec import Spec
from ..structure.labels import counted
from .config import Config

_CRITICS = {"none": "no critic", "central": "central critic", "q": "critic of actions", "reward": "model of the reward"}


def described(spec: Spec, config: Config, name: str | None = None) -> dict[str, str]:
    """Return one line per aspect of a model: its problem, spaces, network, policy and update.

    >>> from factorax.problems import chain
    >>> described(Spec.of(chain(3)), Config())["actions"]
    '3 × Gaussian, scaled to the bounds [-2, 2]'
    """
    c = config
    source = name or getattr(spec.problem, "name", getattr(spec.problem, "__name__", "environment"))
    critic = _CRITICS.get(c.critic, f"critic of {c.critic}s")
    rollout = f"{counted(c.n_envs, 'environment')} × {c.n_steps} steps"
    return {
        "problem": f"{source}, " + ("in JAX" if spec.is_jax else "on the host"),
        "observations": str(spec.observation_space),
        "actions": spec.components.describe_actions(),
        "network": repr(spec.network),
        "policy": f"{c.policy}, hidden layers {c.hidden}, {critic}",
        "estimator": f"{c.estimator}, objective {c.objective}",
        "rollout": f"{rollout}, {counted(c.passes, 'pass', 'passes')} in minibatches of {c.batch_size}",
    }
