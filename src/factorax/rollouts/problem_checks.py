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
from ..spaces import sample_valid
from ..spec import Spec
from .data_checks import MIN_STARTS, DataCheck, same_start, warn_of_same_start
from .environments import Environments, Single
from .seeding import observed, warn_if_seed_ignored
from .step_checks import Misfit, observation
from .transitions import OPTIONAL

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
    if spec.is_jax:
        _check_local(spec, faults)
    if faults:
        raise ProblemError("\n".join(f"{i}. {text}" for i, text in enumerate(faults.values(), 1)))


class Faults(dict[str, str]):
    """The faults that were found, each once."""

    def add(self, text: str, kind: str = "") -> None:
        """Add a fault, unless there is one of the same kind, by default with the same text."""
        self.setdefault(kind or text, text)


def _check_local(spec: Spec, faults: Faults) -> None:
    """Add the faults of the function `local`, which training compiles with JAX."""
    if spec.local is None:
        return
    try:
        jax.eval_shape(lambda obs: spec.local_of(obs, jnp), jax.ShapeDtypeStruct((2, spec.n_inputs), np.float32))
    except Exception as error:  # any error of the user's function
        text = str(error).partition("\n")[0]
        faults.add(text if text.startswith("local: ") else f"local: raised {type(error).__name__}: {text}")


def _check_finite(name: str, rows: np.ndarray, step: int, faults: Faults) -> None:
    """Add a fault for a number that is not finite in rows ``(n, ...)`` of n environments."""
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        where = f" of environment {bad[0, 0]}" if len(rows) > 1 else ""
        text = f"{name}: entry {bad[0, 1]}{where} is not finite in step {step}; clip it, or end the episode earlier"
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
    # The steps below are compiled for the shapes and types that have just been found to be wrong.
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
        _check_finite("observation", observation(new.obs, spec.observations)[None], t, faults)
        _check_finite("targets", np.asarray(new.psi)[None], t, faults)
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


def _check_host(spec: Spec, steps: int, seed: int, faults: Faults) -> None:
    """Step one environment or vector as training does, and look at what it returns."""
    make: Any = spec.problem
    _check_local(spec, faults)
    try:
        environments = Environments(make, spec.num_envs or 1, spec.components, spec.n_targets, n_factors=spec.n_factors)
    except ValueError as error:
        raise Misfit(str(error)) from None
    try:
        batch = environments.batches[0]
        batch.env = recorder = _Recorder(batch.env)
        _check_steps(spec, batch, recorder, steps, seed, faults)
        if not faults:
            _check_seeds(spec, batch, recorder.env, seed)
    except EpisodeLost:
        # No fault of the problem: training discards the episode and continues.
        pass
    finally:
        environments.close()


class _Recorder:
    """An environment that keeps what its last step returned."""

    def __init__(self, env: Any):
        self.env = env
        self.result: Any = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def step(self, action: Any) -> Any:
        self.result = self.env.step(action)
        return self.result


def _check_steps(spec: Spec, batch: Single, recorder: _Recorder, steps: int, seed: int, faults: Faults) -> None:
    n, rng, data = batch.n, np.random.default_rng(seed), DataCheck(spec, max(steps, MIN_CHECKED))
    batch.one.action_space.seed(seed)
    seeds, when, alone = [seed + i for i in range(n)], f"the reset with seed {seed}", spec.num_envs is None
    try:
        obs = batch.reset(seeds)
        info = batch.info if alone else {}
        for t in range(steps):
            when = f"step {t}"
            elements = [
                sample_valid(batch.one.action_space, spec.observations.structured(row[None], np), info) for row in obs
            ]
            obs, psi = np.zeros((n, spec.n_inputs), np.float32), np.zeros((n, spec.n_targets))
            flags, returned = batch.step(0, elements, obs, psi)
            for name in OPTIONAL:
                if returned.get(name) is not None:
                    batch.mask(name, returned)  # raises if it does not fit
            info = returned if alone else {}
            real = np.ones(n, bool) if batch.resets is None else ~batch.resets
            _check_finite("observation", obs, t, faults)
            _check_finite("targets", psi, t, faults)
            ends = np.zeros((2, n), bool) if flags is None else np.reshape(flags, (2, n))
            if np.isfinite(psi).all():
                _check_sums(spec, np.asarray(recorder.result[1]), psi, real, t, faults)
                data.steps(psi[real], ends[0, real], ends[1, real])
            for name, value in zip(("terminated", "truncated"), recorder.result[2:4], strict=True):
                if np.asarray(value).dtype != bool:
                    faults.add(f"{name}: got {type(value).__name__}, want a boolean")
            over: Any = ends.any(axis=0)
            if over.any() and batch.first is None and not batch.skips:
                if batch.seeded:
                    seeds = [int(rng.integers(2**31)) if ended else s for s, ended in zip(seeds, over, strict=True)]
                when = f"the reset after step {t}"
                obs = np.where(over[:, None], batch.reset(seeds, over), obs)
                info = batch.info if alone else {}
            elif batch.first is not None:
                obs = batch.first
    except Misfit as error:
        raise Misfit(f"{error}, in {when}") from None


def _check_sums(spec: Spec, rewards: np.ndarray, psi: np.ndarray, real: np.ndarray, t: int, faults: Faults) -> None:
    """Add a fault if targets do not add up to the scalar rewards of n environments, if there are such rewards."""
    if rewards.size != len(psi):  # they are the targets
        return
    for i in np.flatnonzero(real):
        total, reward = spec.weights @ psi[i], rewards.ravel()[i]
        # With a wide tolerance, since both may be sums in single precision.
        if not np.isclose(total, reward, rtol=1e-3, atol=1e-3 * max(1.0, np.abs(psi[i]).max())):
            of = f" for environment {i}" if len(psi) > 1 else ""
            text = (
                f"reward: got {reward:.6g}{of} in step {t}, want weights @ vector_reward = {total:.6g}; the targets "
                "must add up to the scalar reward, with the weights of the problem"
            )
            faults.add(text, "reward: sum")


def _check_seeds(spec: Spec, batch: Single, env: Any, seed: int) -> None:
    """Warn if an environment is not reproducible, or begins all episodes with large seeds in the same way."""
    rng = np.random.default_rng(seed)
    warn_if_seed_ignored(batch.name, observed(env, 0), observed(env, 0))
    if spec.num_envs is None:
        small, large = np.concatenate([batch.reset([seed + i]) for i in range(3)]), []
        while not large or (same_start(small, large) and len(large) < MIN_STARTS):
            large.append(batch.reset([int(rng.integers(2**31))])[0])
        if len(large) == MIN_STARTS and same_start(small, large):
            warn_of_same_start(MIN_STARTS)
