"""Tests whether actions change later observations.

If they do, a policy that reads them responds to other actions and carries influence that K may lack. A K that is sparse
because the dynamics are sparse is exact only with policies that observe no more than their own part of the state.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._text import warn
from ..problems.failures import EpisodeLost
from ..problems.vectors import create
from ..spaces import ActionSpace
from ..spec import Spec, is_jax
from .seeding import differ, numbers_of, observed, warn_if_seed_ignored

JAX_STEPS = 32
"""Number of steps of a JAX problem in which actions may show in observations."""


def actions_reach_observations(problem: Any, *, training: bool = False) -> bool:
    """Return whether later observations differ in a few steps from the same seed with different random actions.

    For an environment that is not reproducible, the result is False, with a `SeedWarning`. `training` is as in
    `warn_if_seed_ignored`.

    >>> from factorax.problems import chain, queues
    >>> actions_reach_observations(chain(3)), actions_reach_observations(queues(3))
    (False, True)
    """
    if not is_jax(problem):
        return _does_reach(create(problem), training=training)
    space = ActionSpace.of(problem.action_space)

    @jax.jit
    def step(for_action: jax.Array, for_step: jax.Array, state: Any) -> Any:
        action = space.sample(for_action, jnp.zeros((len(space), space.width)), space.spread(0.0))
        new = problem.step(for_step, state, space.to_environment(action, jnp))
        return new.state, new.obs, new.terminated | new.truncated

    start, _ = jax.jit(problem.reset)(jax.random.key(0))
    noise = jax.random.split(jax.random.key(0), JAX_STEPS)
    episodes: list[list[np.ndarray]] = [[], []]
    for i, rows in enumerate(episodes):
        state = start
        for for_action, for_step in zip(jax.random.split(jax.random.key(i + 1), JAX_STEPS), noise, strict=True):
            state, obs, over = step(for_action, for_step, state)
            if over:  # no action follows the last observation
                break
            rows.append(numbers_of(obs))
    return differ(*episodes)


def _does_reach(env: Any, *, training: bool) -> bool:
    try:
        first, again, other = observed(env, 0), observed(env, 0), observed(env, 1)
    except EpisodeLost:
        return True
    finally:
        env.close()
    warn_if_seed_ignored(env, first, again, training=training)
    return differ(first, other) and not differ(first, again)


def warn_if_actors_respond(spec: Spec, policy: str) -> None:
    """Warn if the policy reads the full observation although the network is sparse, unless no action changes it.

    - `policy`: the kind of policy, as in `factorax.ppo.Config`.

    Environments that need one process each are not tested and count as changed by actions. Missing edges to a target
    that no factor influences do not count, because responses cannot reach it either.
    """
    edges = spec.network.static.to_dense() > 0
    lacking = int((~edges & edges.any(axis=0)).sum())
    if not lacking or (spec.local is not None and policy != "joint"):
        return
    problem: Any = spec.problem
    if spec.one_per_process or actions_reach_observations(problem, training=True):
        warn(
            f"policy: all actors read the full observation, and the network lacks {lacking:,} of {edges.size:,} pairs. "
            "If an actor responds to what another one changed, the response carries influence, and the gradient is "
            "biased without these edges. Use policy='shared' or 'independent' with local observations, a network with "
            "these edges (fx.discover(…, policy=model) finds them), or check_network=False to leave them out "
            "on purpose"
        )
