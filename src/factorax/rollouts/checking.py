"""`check_problem`: find all faults of a problem by stepping it, with suggestions for fixes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import Count, Seed, check_each
from ..problems.failures import EpisodeLost
from ..spaces import sample_valid
from ..spec import Spec
from ..structure.labels import counted
from .checking_vectors import check_vector
from .returned import Misfit, check_step, first_observation, flag, mask, observation, real_numbers
from .seeding import observed, warn_if_seed_ignored


class ProblemError(ValueError):
    """Raised for a problem that cannot be trained on; the message lists all faults."""


def check_problem(problem: Any, network: Any = None, *, weights: Any = None, steps: int = 100, seed: int = 0) -> None:
    """Step a problem with random actions; raise `ProblemError` with a list of all faults.

    - `problem`: a JAX `Problem`, or a function that returns a Gymnasium environment or vector environment.
    - `network`, `weights`: as for `FactoredPPO`; by default those of the problem.
    - `steps`: the number of steps; `seed`: the seed of the first reset.

    Checks the shapes of observations and targets, that numbers are finite, that the scalar reward equals
    ``weights @ vector_reward``, that flags are booleans, the lengths of masks, that `local` can be compiled and returns
    one row per factor, and that a JAX problem keeps the shapes of its state. Issues a
    `SeedWarning` if an environment behaves differently after a reset with the same seed.

    >>> from factorax import check_problem
    >>> from factorax.problems import queues
    >>> check_problem(queues())
    """
    check_each({"steps": Count, "seed": Seed}, steps=steps, seed=seed)
    try:
        adaptive = isinstance(network, str) and network == "adaptive"  # has the shape of the problem's own network
        spec = Spec.of(problem, None if adaptive else network, weights=weights)
    except (TypeError, ValueError) as error:
        raise ProblemError(str(error)) from error
    if spec.is_jax:
        faults = _check_jax(spec, steps, seed)
    else:
        faults = (_check_host if spec.num_envs is None else check_vector)(spec, steps, seed) + _check_local(spec)
    if faults:
        raise ProblemError("\n".join(f"{i}. {text}" for i, text in enumerate(dict.fromkeys(faults), 1)))
    if not spec.is_jax:
        _check_seed(problem)


def _check_seed(problem: Any) -> None:
    """Warn if an environment is not reproducible."""
    env = problem()
    try:
        warn_if_seed_ignored(env, observed(env, 0), observed(env, 0))
    except EpisodeLost:
        pass
    finally:
        env.close()


def _check_local(spec: Spec) -> list[str]:
    """Return the faults of the function `local` of an environment, which training compiles with JAX."""
    if spec.local is None:
        return []
    try:
        jax.eval_shape(lambda obs: spec.see(obs, jnp), jax.ShapeDtypeStruct((2, spec.n_inputs), np.float32))
    except Exception as error:  # any error of the user's function
        text = str(error).partition("\n")[0]
        return [text if text.startswith("local: ") else f"local: raised {type(error).__name__}: {text}"]
    return []


def _check_numbers(spec: Spec, obs: Any, psi: Any, where: str) -> list[str]:
    """Return the faults of an observation and a vector of targets."""
    faults, m = [], spec.n_targets
    psi = np.asarray(psi)
    try:
        obs = observation(obs, spec.observations)
    except Misfit as error:
        return [str(error)]
    if psi.shape != (m,):
        faults.append(f"targets: got shape {psi.shape}, want ({m},), one per column of the influence network")
    for name, values in (("observation", obs), ("targets", psi)):
        if not np.isfinite(np.asarray(values, float)).all():
            bad = int(np.flatnonzero(~np.isfinite(np.asarray(values, float).ravel()))[0])
            faults.append(f"{name}: entry {bad} is not finite {where}; clip it, or end the episode earlier")
    return faults


def _check_jax(spec: Spec, steps: int, seed: int) -> list[str]:
    problem: Any = spec.problem
    space = spec.components
    key = jax.random.key(seed)
    state, obs = problem.reset(key)
    n, m = spec.n_factors, spec.n_targets
    try:
        out = jax.eval_shape(lambda *a: problem.step(*a, space.to_environment(jnp.zeros(len(space)), jnp)), key, state)
    except Exception as error:  # any error of the user's function
        return [f"step: cannot be traced by JAX ({type(error).__name__}: {str(error).splitlines()[0]})"]
    faults = []
    shapes = [jax.tree.map(lambda x: (jnp.shape(x), jnp.result_type(x)), tree) for tree in (state, out.state)]
    if jax.tree.structure(state) != jax.tree.structure(out.state) or shapes[0] != shapes[1]:
        faults.append("step: the structure, shapes or dtypes of the state change; want the same as after a reset")
    if jnp.shape(obs) != out.obs.shape:
        faults.append(f"step: the observation has shape {out.obs.shape}, after a reset {jnp.shape(obs)}; want the same")
    for name in ("terminated", "truncated"):
        flag = getattr(out, name)
        if flag.shape != () or flag.dtype != bool:
            faults.append(f"{name}: got shape {flag.shape} and type {flag.dtype}, want one boolean")
    for name, size in (("factor_mask", n), ("target_terminated", m)):
        mask = getattr(out, name)
        if mask is not None and mask.shape != (size,):
            faults.append(f"{name}: got shape {mask.shape}, want ({size},)")
    local = None if problem.local is None else jax.eval_shape(problem.local, obs).shape
    if local is not None and local[:-1] not in ((n,), (len(space),)):
        components = f", or ({len(space)}, …), one row per component" if len(space) != n else ""
        faults.append(f"local: got shape {local}, want ({n}, …), one row per factor{components}")
    if out.psi.shape != (m,):
        faults.append(f"targets: got shape {out.psi.shape}, want ({m},), one per column of the influence network")
    if faults:
        return faults

    @jax.jit
    def step(key: jax.Array, state: Any) -> tuple[jax.Array, jax.Array, Any]:
        key, for_action, for_step, for_reset = jax.random.split(key, 4)
        action = space.sample(for_action, jnp.zeros((len(space), space.width)), space.spread(0.0))
        return key, for_reset, problem.step(for_step, state, space.to_environment(action, jnp))

    for t in range(steps):
        key, for_reset, new = step(key, state)
        faults += _check_numbers(spec, new.obs, new.psi, f"in step {t}")
        state = new.state
        if new.terminated | new.truncated:
            state, obs = problem.reset(for_reset)
    return faults


def _check_kinds(returned: Any, sizes: dict[str, int], *, compound: bool) -> None:
    """Raise `Misfit` for values that a step cannot return, before their shapes and values are checked.

    `compound`: whether observations have several parts, which `_check_numbers` checks one by one.
    """
    check_step(returned)
    obs, reward, terminated, truncated, info = returned
    if not compound:
        real_numbers("observation", obs)
    real_numbers("reward", reward)
    if info.get("vector_reward") is not None:
        real_numbers("targets: info['vector_reward']", info["vector_reward"])
    for name, value in (("terminated", terminated), ("truncated", truncated)):
        if value is not None:
            flag(name, value)
    for name, size in sizes.items():
        value = info.get(name)
        if value is not None and np.shape(value) == (size,):
            mask(name, value, size)


def _check_host(spec: Spec, steps: int, seed: int) -> list[str]:
    make: Any = spec.problem
    env = make()
    n, m = spec.n_factors, spec.n_targets
    faults = []
    env.action_space.seed(seed)
    returned = env.reset(seed=seed)
    try:
        first_observation(returned, spec.observations)
    except Misfit as error:
        return [f"{error}, in the reset with seed {seed}"]
    obs, info = returned
    for t in range(steps):
        returned = env.step(sample_valid(env.action_space, obs, info))
        try:
            sizes = {"factor_mask": n, "target_terminated": m}
            _check_kinds(returned, sizes, compound=spec.observations.is_compound)
        except Misfit as error:
            faults.append(f"{error}, in step {t}")
            break
        obs, reward, terminated, truncated, info = returned
        psi = info.get("vector_reward")
        if psi is None:
            if m > 1:
                faults.append(
                    f"info: has no 'vector_reward', but the network has {counted(m, 'target')}; want the vector of "
                    "targets there"
                )
                break
            psi = np.atleast_1d(reward)
        faults += _check_numbers(spec, obs, psi, f"in step {t}")
        psi = np.asarray(psi, float)
        if psi.shape == (m,) and np.isfinite(psi).all():
            scalar = float(spec.weights @ psi)
            if not np.isclose(scalar, float(np.sum(reward)), rtol=1e-3, atol=1e-3 * max(1.0, np.abs(psi).max())):
                faults.append(
                    f"reward: got {float(np.sum(reward)):.6g} in step {t}, want weights @ vector_reward = "
                    f"{scalar:.6g}; the targets must add up to the scalar reward, with the weights of the problem"
                )
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_):
                faults.append(f"{name}: got {type(value).__name__}, want a boolean")
        for name, size in (("factor_mask", n), ("target_terminated", m)):
            if name in info and np.shape(info[name]) != (size,):
                faults.append(f"info[{name!r}]: got shape {np.shape(info[name])}, want ({size},)")
        if terminated or truncated:
            obs, info = env.reset()
    env.close()
    return faults
