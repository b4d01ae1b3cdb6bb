"""Creation of the simulator of a problem, and of the function of a policy."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._text import shown
from ..spec import check_callable, is_jax
from .host_simulator import HostSimulator
from .jax_simulator import JaxSimulator
from .simulator import ActingFunction, Simulator


def simulator_of(problem: Any, horizon: int, policy: Any = None, exogenous: Sequence[int] = ()) -> Simulator:
    """Return the simulator of a JAX `Problem`, or of a function that returns a Gymnasium environment."""
    if horizon < 1:
        raise ValueError(f"horizon: got {horizon}, want at least 1 step")
    if is_jax(problem):
        if len(exogenous):
            raise ValueError(
                f"exogenous: got {list(exogenous)} for a JAX problem, want none: its random keys never shift"
            )
        return JaxSimulator(problem, horizon, policy_of(policy, traced=True))
    check_callable(problem)
    return HostSimulator(problem, horizon, policy_of(policy, traced=False), exogenous)


def check_forgetful(policy: Any) -> None:
    """Raise ValueError for a trained model with a recurrent policy: discovery calls it with single observations."""
    if policy.state.agent.policy.memory:
        raise ValueError(
            f"policy: got a model with architecture={policy.config.architecture.name!r}, which is recurrent; want a "
            "policy without memory, such as architecture='mlp'"
        )


def policy_of(policy: Any, *, traced: bool) -> ActingFunction | None:
    """Return a policy as a function of a key and an observation, from such a function or a trained `FactoredPPO`."""
    learner = getattr(policy, "learner", None)
    if learner is None:
        if policy is not None and not callable(policy):
            raise TypeError(
                f"policy: got {shown(policy)}, want a FactoredPPO, or a function of a JAX key and an "
                "observation that returns a flat action (c,)"
            )
        return policy
    check_forgetful(policy)
    # Simulators clip actions to the bounds of the space; a learner may keep them there in another way.
    within = learner.spec.components.within
    if traced:
        return lambda key, obs: within(learner.act(policy.state, key, obs[None])[0], jnp)
    act = policy.compiled.act(policy.state)
    return lambda key, obs: within(act(jax.random.key_data(key), np.reshape(obs, (1, -1)))[0], np)
