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
from ..spaces import ActionSpace
from ..spec import Spec, is_jax
from .backend import WorkerDied
from .processes import call_in_worker
from .seeding import differ, first_episodes, numbers_of, warn_if_seed_ignored
from .settings import Inline, Processes, Rollouts

JAX_STEPS = 32
"""Number of steps of a JAX problem in which actions may show in observations."""


def actions_reach_observations(problem: Any, rollouts: Rollouts | None = None, *, training: bool = False) -> bool:
    """Return whether later observations differ in a few steps from the same seed with different random actions.

    For an environment that is not reproducible, the result is False, with a `SeedWarning`. If its simulator fails, the
    result is True. `rollouts` says where an environment is stepped, by default in this process; `training` is as in
    `warn_if_seed_ignored`.

    >>> from factorax.problems import chain, queues
    >>> actions_reach_observations(chain(3)), actions_reach_observations(queues(3))
    (False, True)
    """
    if not is_jax(problem):
        return _reach_on_host(problem, rollouts or Inline(), training=training)
    space = ActionSpace.of(problem.action_space)

    @jax.jit
    def step(for_action: jax.Array, for_step: jax.Array, state: Any) -> Any:
        action = space.sample(for_action, jnp.zeros((len(space), space.width)), space.spread(0.0))
        new = problem.step(for_step, state, space.to_environment(action, jnp))
        return new.state, new.obs, new.terminated | new.truncated

    start, _ = jax.jit(problem.reset)(jax.random.key(0))
    # The same for both episodes, so that they differ in their actions alone.
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


def _reach_on_host(make: Any, rollouts: Rollouts, *, training: bool) -> bool:
    try:
        if isinstance(rollouts, Processes):  # a simulator that crashes or hangs must not harm the learner
            episodes = call_in_worker(first_episodes, make, seconds=rollouts.seconds)
        else:
            episodes = first_episodes(make)
    except (EpisodeLost, WorkerDied):
        # Nothing is known, and a warning too many is better than a bias that goes unnoticed.
        return True
    name, first, again, other = episodes
    warn_if_seed_ignored(name, first, again, training=training)
    return differ(first, other) and not differ(first, again)


def warn_if_actors_respond(spec: Spec, policy: str, rollouts: Rollouts | None = None) -> None:
    """Warn if the policy reads the full observation although the network is sparse, unless no action changes it.

    - `policy`: the kind of policy, as in `factorax.ppo.Config`.
    - `rollouts`: where an environment is stepped to test this; by default in this process.

    Missing edges to a target that no factor influences do not count, because responses cannot reach it either.
    """
    edges = spec.network.static.to_dense() > 0
    lacking = int((~edges & edges.any(axis=0)).sum())
    if not lacking or (spec.local is not None and policy != "joint"):
        return
    problem: Any = spec.problem
    if actions_reach_observations(problem, rollouts, training=True):
        warn(
            f"policy: all actors read the full observation, and the network lacks {lacking:,} of {edges.size:,} pairs. "
            "If an actor responds to what another one changed, the response carries influence, and the gradient is "
            "biased without these edges. Use policy='shared' or 'independent' with local observations, a network with "
            "these edges (fx.discover(…, policy=model) finds them), or check_network=False to leave them out "
            "on purpose"
        )
