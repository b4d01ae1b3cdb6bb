"""What actors see: one that sees what others' actions change answers to it, and carries influence that K may lack.

A K that is sparse since the dynamics are is exact only with actors that see no more than their own part of the state.
"""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from ..problems.failures import EpisodeLost
from ..problems.problem import Problem
from ..structure.labels import warn

if TYPE_CHECKING:
    from .learner import Learner

STEPS = 8
"""Steps of an environment of the host that are played again, with the same actions and with others."""


def actions_reach_observations(problem: Problem | Callable[[], Any]) -> bool:
    """Whether what is observed later depends on actions.

    Of a JAX problem, whether it can at all, by the flow of data in its `step`; of a function that makes an environment,
    whether it does in some steps from the same seed with other actions; one that does not repeat itself cannot tell.

    >>> from factorax.problems import chain, queues
    >>> actions_reach_observations(chain(3)), actions_reach_observations(queues(3))
    (False, True)
    """
    return _can(problem) if isinstance(problem, Problem) else _does(problem())


def _can(problem: Problem) -> bool:
    key = jax.random.key(0)
    state, _ = jax.eval_shape(problem.reset, key)
    action = jax.tree.map(np.asarray, copy.deepcopy(problem.action_space).sample())

    def step(key: jax.Array, state: Any, action: Any) -> tuple[Any, Any]:
        new = problem.step(key, state, action)
        return new.obs, new.state

    program = jax.make_jaxpr(step)(key, state, action).jaxpr
    n_state = len(jax.tree.leaves(state))
    carried = [False] * n_state  # parts of the state that what is observed depends on
    while True:
        used = dce_jaxpr(program, [True] * (len(program.outvars) - n_state) + carried)[1][1:]  # all but the key
        if any(used[n_state:]):
            return True
        before, carried = carried, [a or b for a, b in zip(carried, used[:n_state], strict=True)]
        if carried == before:
            return False


def _does(env: Any) -> bool:
    def seen(seed: int) -> list[Any]:
        env.action_space.seed(seed)
        observed = [np.array(env.reset(seed=0)[0])]
        for _ in range(STEPS):
            obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:  # nobody answers to what is seen last
                break
            observed.append(np.array(obs))
        return observed

    def differ(first: list[Any], second: list[Any]) -> bool:
        return any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=False))

    try:
        first, again, other = seen(0), seen(0), seen(1)
    except EpisodeLost:
        return True
    finally:
        env.close()
    return differ(first, other) and not differ(first, again)


def warn_if_actors_answer(learner: "Learner") -> None:
    """Warn of a sparse network whose actors all see the whole observation, unless no action changes it.

    Environments that need a process each are not tried, and are taken to be changed. A target that no factor influences
    cannot be reached by answers either: what it lacks does not count.
    """
    edges = learner.network_at_start.to_dense() > 0
    lacking = int((~edges & edges.any(axis=0)).sum())
    if not lacking or (learner.local is not None and learner.config.policy != "joint"):
        return
    if learner.one_per_process or actions_reach_observations(learner.problem):
        warn(
            f"policy: all actors read the whole observation, and the network lacks {lacking:,} of {edges.size:,} "
            "pairs. Where an actor answers to what another one changed, that carries influence, and without those "
            "edges the gradient is biased. Want policy='shared' or 'independent' with local observations, a network "
            "that has those edges (fx.discover(…, policy=model) finds them), or check_network=False to leave them out "
            "on purpose"
        )
