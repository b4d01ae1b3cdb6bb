"""`check_problem`: what is wrong with a problem, found by stepping it, and how to put it right."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..problems.problem import Problem
from .actions import ActionSpace
from .learner import Learner


class ProblemError(ValueError):
    """A problem that the learner would trip over; the message lists all that was found."""


def check_problem(problem: Any, network: Any = None, *, weights: Any = None, steps: int = 100, seed: int = 0) -> None:
    """Step a problem with random actions and raise `ProblemError` with everything that is wrong with it.

    - `problem`: a JAX `Problem`, or a function that makes a Gymnasium environment.
    - `network`, `weights`: as for `FactoredPPO`; the problem's own if left out.

    Shapes of observations and targets, finite numbers, a scalar reward that equals ``weights @ vector_reward``, flags
    that are flags, masks of the right length, and that a JAX problem keeps the shapes of its state.

    >>> from factorax.learning import check_problem
    >>> from factorax.problems import queues
    >>> check_problem(queues())
    """
    try:
        learner = Learner.of(problem, network, weights=weights)
    except (TypeError, ValueError) as error:
        raise ProblemError(str(error)) from error
    found = _jax(learner, steps, seed) if isinstance(problem, Problem) else _host(learner, steps, seed)
    if found:
        raise ProblemError("\n".join(f"{i}. {text}" for i, text in enumerate(dict.fromkeys(found), 1)))


def _numbers(learner: Learner, obs: Any, psi: Any, where: str) -> list[str]:
    """What is wrong with an observation and a vector of targets."""
    found, m = [], learner.network_at_start.shape[1]
    obs, psi = np.asarray(obs), np.asarray(psi)
    if obs.size != learner.n_inputs:
        found.append(f"observation: got shape {obs.shape}, want that of its space, {learner.observation_space.shape}")
    if psi.shape != (m,):
        found.append(f"targets: got shape {psi.shape}, want ({m},), one for each column of the influence network")
    for name, values in (("observation", obs), ("targets", psi)):
        if not np.isfinite(np.asarray(values, float)).all():
            bad = int(np.flatnonzero(~np.isfinite(np.asarray(values, float).ravel()))[0])
            found.append(f"{name}: entry {bad} is not finite {where}; clip it, or end the episode before")
    return found


def _jax(learner: Learner, steps: int, seed: int) -> list[str]:
    problem: Any = learner.problem
    space = ActionSpace.of(problem.action_space)
    key = jax.random.key(seed)
    state, obs = problem.reset(key)
    n, m = learner.network_at_start.shape
    try:
        out = jax.eval_shape(problem.step, key, state, space.to_environment(jnp.zeros(len(space)), jnp))
    except Exception as error:  # whatever the user's function raises
        return [f"step: cannot be traced by JAX ({type(error).__name__}: {str(error).splitlines()[0]})"]
    found = []
    shapes = [jax.tree.map(lambda x: (jnp.shape(x), jnp.result_type(x)), tree) for tree in (state, out.state)]
    if jax.tree.structure(state) != jax.tree.structure(out.state) or shapes[0] != shapes[1]:
        found.append("step: the new state has another structure, shape or dtype than the old; keep them the same")
    if jnp.shape(obs) != out.obs.shape:
        found.append(f"step: the observation has shape {out.obs.shape}, after a reset {jnp.shape(obs)}; want the same")
    for name in ("terminated", "truncated"):
        flag = getattr(out, name)
        if flag.shape != () or flag.dtype != bool:
            found.append(f"{name}: got shape {flag.shape} and type {flag.dtype}, want one boolean")
    for name, size in (("factor_mask", n), ("target_terminated", m)):
        mask = getattr(out, name)
        if mask is not None and mask.shape != (size,):
            found.append(f"{name}: got shape {mask.shape}, want ({size},)")
    if problem.local is not None and problem.local(obs).shape[:-1] != (n,):
        found.append(f"local: got shape {problem.local(obs).shape}, want ({n}, …), a row for every factor")
    if out.psi.shape != (m,):
        found.append(f"targets: got shape {out.psi.shape}, want ({m},), one for each column of the influence network")
    if found:
        return found
    step = jax.jit(problem.step)
    for t in range(steps):
        key, for_action, for_step, for_reset = jax.random.split(key, 4)
        action = space.sample(for_action, jnp.zeros((len(space), space.width)), space.spread(0.0))
        new = step(for_step, state, space.to_environment(action, jnp))
        found += _numbers(learner, new.obs, new.psi, f"in step {t}")
        state = new.state
        if new.terminated | new.truncated:
            state, obs = problem.reset(for_reset)
    return found


def _host(learner: Learner, steps: int, seed: int) -> list[str]:
    make: Any = learner.problem
    env = make()
    n, m = learner.network_at_start.shape
    found = []
    env.action_space.seed(seed)
    obs, _ = env.reset(seed=seed)
    for t in range(steps):
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        psi = info.get("vector_reward")
        if psi is None:
            if m > 1:
                found.append(
                    f"info: has no 'vector_reward', and the network has {m} targets; put the vector of targets there"
                )
                break
            psi = np.atleast_1d(reward)
        found += _numbers(learner, obs, psi, f"in step {t}")
        psi = np.asarray(psi, float)
        if psi.shape == (m,) and np.isfinite(psi).all():
            whole = float(learner.weights @ psi)
            if not np.isclose(whole, float(np.sum(reward)), rtol=1e-3, atol=1e-3 * max(1.0, np.abs(psi).max())):
                found.append(
                    f"reward: got {float(np.sum(reward)):.6g} in step {t}, want weights @ vector_reward = {whole:.6g}; "
                    "the parts must add up to the scalar, or the weights are not those of the problem"
                )
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(flag, bool | np.bool_):
                found.append(f"{name}: got {type(flag).__name__}, want a boolean")
        for name, size in (("factor_mask", n), ("target_terminated", m)):
            if name in info and np.shape(info[name]) != (size,):
                found.append(f"info[{name!r}]: got shape {np.shape(info[name])}, want ({size},)")
        if terminated or truncated:
            env.reset()
    env.close()
    return found
