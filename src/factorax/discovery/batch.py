"""On-policy data for tests: what was drawn, from which distribution, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from ..learning.actions import ActionSpace
from ..learning.collecting import JaxEnvironments
from ..problems.bandits import Bandit
from ..problems.problem import Problem
from ..rollouts.components import BERNOULLI, CATEGORICAL
from ..rollouts.host import HostEnvironments
from ..structure.labels import default_labels, some
from .result import Discovery, Kind, Method


@dataclass(frozen=True, eq=False)
class Batch:
    """N samples of n factors and m targets, drawn from a policy that is a product over factors.

    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(1000, 2))
    >>> Batch(scores=a, psi=a + rng.normal(size=(1000, 2)), uniforms=special.ndtr(a)).shape
    (1000, 2, 2)
    """

    scores: np.ndarray
    """Of every factor, ``(N, n)`` or ``(N, n, p)``: mean nought given the state. For tests of *variance one* given the
    state, as (a − μ)/σ is; for `worthwhile_network` the scores zᵢ = ∇ log πᵢ of the gradient at hand."""
    psi: np.ndarray
    """Targets, rewards of one step or returns, ``(N, m)``."""
    uniforms: np.ndarray | None = None
    """F(a|s), the actions through their distribution function, ``(N, n)``: uniform and independent given the state. For
    choices a number drawn between F below a and F at a."""
    state: np.ndarray | None = None
    """What the policy saw, ``(N, d)``."""
    weights: np.ndarray | None = None
    """λ, ``(m,)``; all ones if left out."""
    kind: Kind = "return"
    actions: Sequence[str] = ()
    targets: Sequence[str] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def shape(self) -> tuple[int, int, int]:
        """N, n and m."""
        return len(self.psi), self.scores.shape[1], self.psi.shape[1]

    def checked(self, least: int = 8) -> "Batch":
        """This batch, if its arrays fit each other and are finite; raises with what does not, and where, if not."""
        if np.ndim(self.psi) != 2 or np.ndim(self.scores) not in (2, 3) or len(self.psi) != len(self.scores):
            raise ValueError(
                f"scores, psi: got shapes {np.shape(self.scores)} and {np.shape(self.psi)}, want (N, n) or (N, n, p), "
                "and (N, m)"
            )
        n_samples, n, _ = self.shape
        if self.uniforms is not None and np.shape(self.uniforms) != (n_samples, n):
            raise ValueError(f"uniforms: got shape {np.shape(self.uniforms)}, want ({n_samples}, {n}), as scores have")
        for name in ("scores", "psi", "uniforms", "state"):
            array = getattr(self, name)
            if array is not None and not np.isfinite(array.sum()) and not np.isfinite(array).all():  # the sum is fast
                where = np.argwhere(~np.isfinite(array))[0].tolist()
                raise ValueError(
                    f"{name}: {int((~np.isfinite(array)).sum())} entries are not finite, the first at sample "
                    f"{where[0]}, column {where[1]}; leave such samples out, or mend what makes them"
                )
        if n_samples < least:
            raise ValueError(
                f"psi: got {n_samples} samples, want at least {least}: with so few no test says anything; draw more"
            )
        return self

    def constant(self) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Which factors and targets do not vary, booleans ``(n,)`` and ``(m,)``, and words that name them."""
        acts = self.scores if self.scores.ndim == 2 else self.scores[..., 0]
        dead, still = (acts == acts[0]).all(axis=0), (self.psi == self.psi[0]).all(axis=0)
        names, words = _labels(self), []
        if dead.any():
            words.append(f"skipped: action {some([names[0][int(i)] for i in np.flatnonzero(dead)])} is always the same")
        if still.any():
            words.append(f"skipped: target {some([names[1][int(j)] for j in np.flatnonzero(still)])} is constant")
        return dead, still, words

    def discovery(
        self,
        method: Method,
        effect: np.ndarray,
        p_value: np.ndarray | None = None,
        *,
        effect_unit: str,
        notes: Sequence[str] = (),
    ) -> Discovery:
        """What a method found in this batch, with the batch's kind, labels, samples and notes.

        - `effect`, `p_value`: of every pair, ``(n, m)``; a method that has no p-values leaves them out.

        >>> batch = Batch(np.zeros((50, 2)), np.zeros((50, 1)), actions=("heat", "vent"), notes=("of May",))
        >>> found = batch.discovery("score", np.zeros((2, 1)), np.ones((2, 1)), effect_unit="correlation")
        >>> found.actions, found.samples.tolist(), found.notes
        (('heat', 'vent'), [[50], [50]], ('of May',))
        """
        n_samples, n, m = self.shape
        return Discovery(
            method,
            self.kind,
            effect=effect,
            p_value=np.full((n, m), np.nan) if p_value is None else p_value,
            samples=np.full((n, m), n_samples),
            actions=tuple(self.actions),
            targets=tuple(self.targets),
            effect_unit=effect_unit,
            notes=(*self.notes, *notes),
            steps=n_samples,
        )


def _labels(batch: Batch) -> tuple[Sequence[str], Sequence[str]]:
    _, n, m = batch.shape
    return (batch.actions or default_labels("a", n)), (batch.targets or default_labels("psi", m))


def collect(
    problem: Any,
    *,
    policy: Any = None,
    samples: int = 10_000,
    horizon: int = 1,
    discount: float = 1.0,
    n_envs: int = 64,
    seed: int = 0,
) -> Batch:
    """Play a problem and keep what tests need.

    ψ of a sample at time t is its return Σ_{k < horizon} γᵏ ψ_{t+k}, cut at the end of the episode; with ``horizon=1``
    the reward of one step.

    - `problem`: a JAX `Problem`, a `Bandit`, or a function that makes a Gymnasium environment.
    - `policy`: a trained `FactoredPPO`; or None, for actions that look at nothing: standard normal, where bounds are
      known a quarter of their distance wide, and every choice with the same chance.

    >>> from factorax.problems import chain
    >>> collect(chain(3), samples=500, horizon=4, n_envs=5).shape[1:]
    (3, 3)
    """
    if samples < 1 or horizon < 1:
        raise ValueError(f"samples, horizon: got {samples} and {horizon}, want at least 1 each")
    if isinstance(problem, Bandit):
        a = np.random.default_rng(seed).normal(size=(samples, problem.n))
        psi, net = np.asarray(problem.targets(a)), problem.network
        return Batch(
            a, psi, special.ndtr(a), weights=problem.weights, kind="one-step", actions=net.actions, targets=net.targets
        )
    n_steps = -(-samples // n_envs) + horizon - 1
    environments: Any
    if isinstance(problem, Problem):
        space, network, local = ActionSpace.of(problem.action_space), problem.network, problem.local
        environments = JaxEnvironments(problem, n_envs, space)
        act = _act(policy, space, seed)
        play = jax.jit(lambda key: environments.collect(environments.init(key), act, key, n_steps)[1])
        seen = jax.tree.map(np.asarray, play(jax.random.key(seed)))
        weights = problem.weights
    else:
        env = problem()
        space, network = ActionSpace.of(env.action_space), getattr(env.unwrapped, "network", None)
        weights, local = getattr(env.unwrapped, "weights", None), getattr(env.unwrapped, "local", None)
        env.close()
        if network is None:
            raise ValueError("problem: has no network to say how many targets there are; wrap it with fx.wrap")
        hosts = HostEnvironments(problem, n_envs, space, network.shape[1])
        hosts.init(seed)
        act = _act(policy, space, seed)
        keys = iter(jax.random.split(jax.random.key(seed), n_steps))
        seen = hosts.collect(lambda obs: np.asarray(act(next(keys), obs)), n_steps)
        hosts.close()
    if network.factorisation is not None:
        raise ValueError("problem: its network is factored; tests want one row for each component of the action space")
    ended = np.asarray(seen.terminated | seen.truncated)
    psi, sure = _returns(np.asarray(seen.psi, float), ended, horizon, discount)
    obs = np.asarray(seen.obs, float)[:sure]
    parameters, spread = _distribution(policy, space, obs)
    rng = np.random.default_rng([seed, 1])
    scores, uniforms = _standardised(space, np.asarray(seen.action, float)[:sure], parameters, spread, rng)
    flat = obs.reshape(-1, obs.shape[-1])
    features = _features(flat, None if local is None else np.asarray(local(jnp.asarray(flat))), len(space))
    scores = scores.reshape(-1, len(space))
    if features is not None:
        scores = np.concatenate([scores[..., None], scores[..., None] * features], axis=-1)
    rows = slice(0, samples)
    return Batch(
        scores[rows],
        psi.reshape(-1, psi.shape[-1])[rows],
        uniforms.reshape(-1, len(space))[rows],
        state=flat[rows],
        weights=weights,
        kind="one-step" if horizon == 1 else "return",
        actions=network.actions,
        targets=network.targets,
        notes=(f"returns over {horizon} steps",) if horizon > 1 else (),
    )


def _returns(psi: np.ndarray, ended: np.ndarray, horizon: int, discount: float) -> tuple[np.ndarray, int]:
    """Returns over `horizon` steps of all times that have so many after them, ``(T − horizon + 1, B, m)``."""
    sure = len(psi) - horizon + 1
    total, alive = np.zeros_like(psi[:sure]), np.ones((sure, psi.shape[1], 1))
    for k in range(horizon):
        total += discount**k * alive * psi[k : k + sure]
        alive *= ~ended[k : k + sure, :, None]
    return total, sure


def _act(policy: Any, space: ActionSpace, seed: int) -> Any:
    if policy is not None:
        return lambda key, obs: policy.learner.act(policy.state, key, obs)
    parameters, spread = _blind(space)
    return lambda key, obs: space.sample(key, jnp.broadcast_to(parameters, (len(obs), *parameters.shape)), spread)


def _blind(space: ActionSpace) -> tuple[jax.Array, Any]:
    """Parameters ``(c, width)`` and spread of the policy that looks at nothing."""
    bounded = np.isfinite(space.low) & np.isfinite(space.high) & space.gaussian
    middle = np.where(bounded, (np.where(bounded, space.low, 0) + np.where(bounded, space.high, 0)) / 2, 0.0)
    width = np.where(bounded, np.where(bounded, space.high, 1) - np.where(bounded, space.low, 0), 4.0) / 4
    parameters = np.zeros((len(space), space.width), np.float32)
    parameters[:, 0] = middle
    return jnp.asarray(parameters), space.spread(0.0)._replace(log_std=jnp.log(jnp.asarray(width, jnp.float32)))


def _distribution(policy: Any, space: ActionSpace, obs: np.ndarray) -> tuple[np.ndarray, Any]:
    """Parameters ``(T, B, c, width)`` and spread of what acted."""
    if policy is None:
        parameters, spread = _blind(space)
        return np.broadcast_to(np.asarray(parameters), (*obs.shape[:-1], *parameters.shape)), spread
    learner, state = policy.learner, policy.state
    seen = jnp.asarray(obs, jnp.float32)
    seen = state.obs.normalise(seen) if learner.config.normalise_obs else seen
    parameters, spread = state.agent.policy(seen, learner.see(seen))
    return np.asarray(parameters), spread


def _standardised(
    space: ActionSpace, actions: np.ndarray, parameters: np.ndarray, spread: Any, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of variance one given the state, and F(a|s), both ``(..., c)``."""
    scores, uniforms = np.zeros(actions.shape), np.zeros(actions.shape)
    between = rng.random(actions.shape)
    for kind, components in space.of_kind.items():
        a, first = actions[..., components], parameters[..., components, 0].astype(float)
        if kind == BERNOULLI:
            p = special.expit(first)
            scores[..., components] = (a - p) / np.sqrt(p * (1 - p))
            below, chance = np.where(a > 0.5, 1 - p, 0.0), np.where(a > 0.5, p, 1 - p)
            uniforms[..., components] = below + between[..., components] * chance
        elif kind == CATEGORICAL:
            logits = np.where(np.arange(space.width) < space.choices[components, None], parameters[..., components, :],
                              -np.inf)  # fmt: skip
            p = special.softmax(logits, axis=-1)
            values = np.arange(space.width)
            mean = (p * values).sum(axis=-1)
            deviation = np.sqrt((p * values**2).sum(axis=-1) - mean**2)
            scores[..., components] = (a - mean) / np.maximum(deviation, 1e-12)
            upto = np.cumsum(p, axis=-1)
            at = a[..., None].astype(int)
            chance = np.take_along_axis(p, at, axis=-1)[..., 0]
            top = np.take_along_axis(upto, at, axis=-1)[..., 0]
            uniforms[..., components] = top - between[..., components] * chance
        else:
            scores[..., components] = (a - first) / np.exp(np.asarray(spread.log_std, float)[components])
            uniforms[..., components] = special.ndtr(scores[..., components])
    return scores, uniforms


def _features(obs: np.ndarray, local: np.ndarray | None, n: int, most: int = 16) -> np.ndarray | None:
    """Standardised features of the state for every factor, ``(N, n, p)``: of what it sees itself, if that is known."""
    seen = local if local is not None else np.repeat(obs[:, None], n, axis=1)
    if seen.shape[-1] > most:
        return None
    seen = seen - seen.mean(axis=0)
    deviation = seen.std(axis=0)
    keep = (deviation > 1e-9).all(axis=0)
    return seen[..., keep] / deviation[..., keep] if keep.any() else None
