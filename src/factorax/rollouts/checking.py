"""`check_problem`: find all faults of a problem by stepping it, with suggestions for fixes."""

import os
import traceback
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import Count, Seed, check_each
from .._text import counted, shown
from ..problems.failures import EpisodeLost
from ..problems.problem import Step
from ..problems.vectors import create
from ..spaces import sample_valid
from ..spec import Spec
from .data_checks import MIN_STARTS, DataCheck, same_start, warn_of_same_start
from .returned import Misfit, check_step, checked_reset, first_observation, flag, mask, observation, real_numbers
from .seeding import observed, warn_if_seed_ignored
from .vector import Vector

MIN_CHECKED = 100
"""Smallest number of steps of `check_problem` that its data are judged by."""


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
    faults = Faults()
    try:
        (_check_jax if spec.is_jax else _check_host)(spec, steps, seed, faults)
    except Misfit as error:
        faults.add(str(error))
    _check_local(spec, faults)
    if faults:
        raise ProblemError("\n".join(f"{i}. {text}" for i, text in enumerate(faults.values(), 1)))
    if not spec.is_jax:
        _check_seeds(spec, seed)


class Faults(dict[str, str]):
    """The faults that were found, each once."""

    def add(self, text: str, kind: str = "") -> None:
        """Add a fault, unless there is one of the same kind, by default with the same text."""
        self.setdefault(kind or text, text)


def _check_seeds(spec: Spec, seed: int) -> None:
    """Warn if an environment is not reproducible, or begins all episodes with large seeds in the same way."""
    make: Any = spec.problem
    env, rng = create(make), np.random.default_rng(seed)

    def start(seed: int) -> np.ndarray:
        return first_observation(checked_reset(env, seed=seed), spec.observations)

    try:
        warn_if_seed_ignored(env, observed(env, 0), observed(env, 0))
        if spec.num_envs is None:
            small, large = np.stack([start(seed + i) for i in range(3)]), [start(int(rng.integers(2**31)))]
            while same_start(small, large) and len(large) < MIN_STARTS:
                large.append(start(int(rng.integers(2**31))))
            if len(large) == MIN_STARTS and same_start(small, large):
                warn_of_same_start(MIN_STARTS)
    except EpisodeLost:
        pass
    finally:
        env.close()


def _check_local(spec: Spec, faults: Faults) -> None:
    """Add the faults of the function `local`, which training compiles with JAX."""
    if spec.local is None:
        return
    try:
        jax.eval_shape(lambda obs: spec.local_of(obs, jnp), jax.ShapeDtypeStruct((2, spec.n_inputs), np.float32))
    except Exception as error:  # any error of the user's function
        text = str(error).partition("\n")[0]
        faults.add(text if text.startswith("local: ") else f"local: raised {type(error).__name__}: {text}")


def _check_numbers(spec: Spec, obs: Any, psi: Any, step: int, faults: Faults) -> None:
    """Add the faults of an observation and a vector of targets."""
    m, psi = spec.n_targets, np.asarray(psi)
    try:
        obs = observation(obs, spec.observations)
    except Misfit as error:
        faults.add(str(error))
        return
    if psi.shape != (m,):
        faults.add(f"targets: got shape {psi.shape}, want ({m},), one per column of the influence network")
    for name, values in (("observation", obs), ("targets", psi)):
        bad = np.flatnonzero(~np.isfinite(np.asarray(values, float).ravel()))
        if len(bad):
            text = f"{name}: entry {bad[0]} is not finite in step {step}; clip it, or end the episode earlier"
            faults.add(text, f"{name}: not finite")


def _check_jax(spec: Spec, steps: int, seed: int, faults: Faults) -> None:
    problem: Any = spec.problem
    space = spec.components
    key = jax.random.key(seed)
    first: Any = _traced("reset", problem.reset, key)
    if not isinstance(first, tuple) or len(first) != 2:
        raise Misfit(f"reset: got {_described(first)}, want (state, observation)")
    before, obs = first
    action = np.zeros(len(space), np.float32)
    out: Any = _traced("step", lambda *a: problem.step(*a, space.to_environment(jnp.asarray(action), jnp)), key, before)
    if not isinstance(out, Step):
        raise Misfit(f"step: got {_described(out)}, want a Step(state, obs, psi, terminated, truncated)")
    _check_same("state", before, out.state, faults, lambda x: f"{x.dtype}{list(x.shape)}")
    _check_same("observation", obs, out.obs, faults, lambda x: f"shape {x.shape}")
    for name in ("terminated", "truncated"):
        flag = getattr(out, name)
        if flag.shape != () or flag.dtype != bool:
            faults.add(f"{name}: got shape {flag.shape} and type {flag.dtype}, want one boolean")
    for name, size in (("factor_mask", spec.n_factors), ("target_terminated", spec.n_targets)):
        mask = getattr(out, name)
        if mask is not None and mask.shape != (size,):
            faults.add(f"{name}: got shape {mask.shape}, want ({size},)")
    if out.psi.shape != (spec.n_targets,):
        faults.add(f"targets: got shape {out.psi.shape}, want ({spec.n_targets},), one per column of the network")
    if faults:
        return

    @jax.jit
    def step(key: jax.Array, state: Any) -> tuple[jax.Array, jax.Array, Any]:
        key, for_action, for_step, for_reset = jax.random.split(key, 4)
        action = space.sample(for_action, jnp.zeros((len(space), space.width)), space.spread(0.0))
        return key, for_reset, problem.step(for_step, state, space.to_environment(action, jnp))

    reset, data = jax.jit(problem.reset), DataCheck(spec, max(steps, MIN_CHECKED))
    state, _ = reset(key)
    for t in range(steps):
        key, for_reset, new = step(key, state)
        _check_numbers(spec, new.obs, new.psi, t, faults)
        data.steps(*(np.asarray(x)[None] for x in (new.psi, new.terminated, new.truncated)))
        state = new.state
        if new.terminated | new.truncated:
            state, _ = reset(for_reset)


def _traced(name: str, function: Any, *arguments: Any) -> Any:
    """Return the shapes and types of the results of a function of the user; raise `Misfit` if JAX cannot trace it."""
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:  # any error of the user's function
        lines = traceback.extract_tb(error.__traceback__)
        inside = [line for line in lines if line.filename != __file__ and f"{os.sep}jax{os.sep}" not in line.filename]
        where = "".join(f" in {os.path.basename(x.filename)}:{x.lineno}, {x.line!r}" for x in inside[-1:])
        what = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        hint = "want jax.numpy, and jnp.where or lax.cond for if"
        raise Misfit(f"{name}: cannot be traced by JAX{where} ({what}); {hint}") from None


def _described(returned: Any) -> str:
    if isinstance(returned, tuple | list):
        return f"a {type(returned).__name__} of {counted(len(returned), 'value')}"
    return f"an array of shape {returned.shape}" if hasattr(returned, "shape") else shown(returned)


def _check_same(name: str, before: Any, after: Any, faults: Faults, describe: Callable[[Any], str]) -> None:
    """Add each leaf of a pytree that is another one after a step than after a reset."""
    leaves = [
        {jax.tree_util.keystr(path): describe(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        for tree in (before, after)
    ]
    differing = [path for path in leaves[0] | leaves[1] if leaves[0].get(path) != leaves[1].get(path)]
    for path in differing:
        was, now = (of.get(path, "missing") for of in leaves)
        faults.add(f"step: {name}{path} is {now}, after a reset {was}; want the same")
    if not differing and jax.tree.structure(before) != jax.tree.structure(after):
        was, now = map(jax.tree.structure, (before, after))
        faults.add(f"step: the {name} has the structure {now}, after a reset {was}; want the same")


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


def _check_host(spec: Spec, steps: int, seed: int, faults: Faults) -> None:
    make: Any = spec.problem
    env = create(make)
    env.action_space.seed(seed)
    try:
        if spec.num_envs is None:
            _step_one(env, spec, steps, seed, faults)
        else:
            _step_vector(Vector(env, spec.components, spec.n_targets, spec.n_factors), spec, steps, seed, faults)
    finally:
        env.close()


def _step_one(env: Any, spec: Spec, steps: int, seed: int, faults: Faults) -> None:
    n, m, rng = spec.n_factors, spec.n_targets, np.random.default_rng(seed)
    data = DataCheck(spec, max(steps, MIN_CHECKED))
    obs, info = _started(env, spec, seed)
    for t in range(steps):
        returned = env.step(sample_valid(env.action_space, obs, info))
        try:
            sizes = {"factor_mask": n, "target_terminated": m}
            _check_kinds(returned, sizes, compound=spec.observations.is_compound)
        except Misfit as error:
            raise Misfit(f"{error}, in step {t}") from None
        obs, reward, terminated, truncated, info = returned
        psi = info.get("vector_reward")
        if psi is None:
            if m > 1:
                raise Misfit(
                    f"info: has no 'vector_reward', but the network has {counted(m, 'target')}; want the vector of "
                    "targets there: fx.wrap(make, network, reward=…) puts it there"
                )
            psi = np.atleast_1d(reward)
        _check_numbers(spec, obs, psi, t, faults)
        psi = np.asarray(psi, float)
        if psi.shape == (m,) and np.isfinite(psi).all():
            data.steps(psi[None], np.atleast_1d(terminated).astype(bool), np.atleast_1d(truncated).astype(bool))
            _check_sum(spec.weights @ psi, np.sum(reward), psi, f"in step {t}", faults)
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, bool | np.bool_):
                faults.add(f"{name}: got {type(value).__name__}, want a boolean")
        for name, size in (("factor_mask", n), ("target_terminated", m)):
            if name in info and np.shape(info[name]) != (size,):
                faults.add(f"info[{name!r}]: got shape {np.shape(info[name])}, want ({size},)")
        if terminated or truncated:
            obs, info = _started(env, spec, int(rng.integers(2**31)))


def _started(env: Any, spec: Spec, seed: int) -> tuple[Any, Any]:
    try:
        returned = checked_reset(env, seed=seed)
        first_observation(returned, spec.observations)
    except Misfit as error:
        raise Misfit(f"{error}, in the reset with seed {seed}") from None
    return returned


def _check_sum(total: Any, reward: Any, psi: np.ndarray, where: str, faults: Faults) -> None:
    """Add a fault if the targets do not add up to the scalar reward."""
    if not np.isclose(total, reward, rtol=1e-3, atol=1e-3 * max(1.0, np.abs(psi).max())):
        text = (
            f"reward: got {reward:.6g} {where}, want weights @ vector_reward = {total:.6g}; the targets must add up to "
            "the scalar reward, with the weights of the problem"
        )
        faults.add(text, "reward: sum")


def _step_vector(vector: Vector, spec: Spec, steps: int, seed: int, faults: Faults) -> None:
    env, seeds = vector.env, [seed + i for i in range(vector.n)]
    data = DataCheck(spec, max(steps, MIN_CHECKED))
    when = f"the reset with seed {seed}"
    try:
        vector.begin(seeds)
        for t in range(steps):
            when = f"step {t}"
            returned = env.step(env.action_space.sample())
            got = vector.read(returned)
            real = np.ones(vector.n, bool) if got.resets is None else ~got.resets
            for name, values in (("observation", got.next_obs), ("targets", got.psi)):
                bad = np.argwhere(~np.isfinite(np.asarray(values, float)) & real[:, None])
                if len(bad):
                    text = (
                        f"{name}: entry {bad[0, 1]} of environment {bad[0, 0]} is not finite in step {t}; clip it, or "
                        "end the episode earlier"
                    )
                    faults.add(text, f"{name}: not finite")
            if np.shape(returned[1]) == (vector.n,) and np.isfinite(got.psi).all():
                for i in np.flatnonzero(real):
                    where = f"for environment {i} in step {t}"
                    _check_sum(spec.weights @ got.psi[i], float(returned[1][i]), got.psi[i], where, faults)
            data.steps(got.psi[real], got.terminated[real], got.truncated[real])
            over = got.terminated | got.truncated
            if over.any() and got.first is None and not vector.skips:
                when = f"a reset after step {t}"
                vector.reset(over, seeds)
    except Misfit as error:
        raise Misfit(f"{error}, in {when}") from None
