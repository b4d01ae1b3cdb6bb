"""On-policy data for the tests: actions, their distribution, and the targets that followed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from .._checks import Count, Seed, Share, check_each, checked, listed, real_array
from .._text import counted, shown, some
from ..problems.bandits import Bandit
from ..rollouts.factory import play
from ..spec import Spec
from ..structure.labels import check_labels, default_labels
from .result import Discovery, MethodName, TargetKind
from .simulators import check_forgetful

_COLLECTING = {"samples": Count, "horizon": Count, "gamma": Share, "n_envs": Count, "seed": Seed}


@dataclass(frozen=True, eq=False)
class Batch:
    """N samples of n factors and m targets, drawn from a policy that is a product over factors.

    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(1000, 2))
    >>> Batch(scores=a, psi=a + rng.normal(size=(1000, 2)), uniforms=special.ndtr(a)).shape
    (1000, 2, 2)
    """

    scores: np.ndarray
    """Scores of each factor, ``(N, n)`` or ``(N, n, p)``, with mean zero given the state. Tests require *variance one*
    given the state, as for (a − μ)/σ; `worthwhile_network` requires the scores zᵢ = ∇ log πᵢ of the gradient."""
    psi: np.ndarray
    """Targets: rewards of one step, or returns, ``(N, m)``."""
    uniforms: np.ndarray | None = None
    """F(a|s), the distribution function at the actions, ``(N, n)``: uniform and independent given the state. For
    choices, a random number between F below a and F at a."""
    state: np.ndarray | None = None
    """Observations of the policy, ``(N, d)``."""
    weights: np.ndarray | None = None
    """λ, ``(m,)``; by default ones."""
    kind: TargetKind = "return"
    actions: Sequence[str] = ()
    targets: Sequence[str] = ()
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for name in ("scores", "psi", "uniforms", "state", "weights"):
            if name in ("scores", "psi") or getattr(self, name) is not None:
                object.__setattr__(self, name, real_array(name, getattr(self, name), finite=False))
        checked("kind", self.kind, TargetKind)
        if np.ndim(self.psi) != 2 or np.ndim(self.scores) not in (2, 3) or len(self.psi) != len(self.scores):
            raise ValueError(
                f"scores, psi: got shapes {np.shape(self.scores)} and {np.shape(self.psi)}, want (N, n) or (N, n, p), "
                "and (N, m)"
            )
        n_samples, n, m = self.shape
        # The state is checked by its first axis only: it may have any number of features.
        for name, first, ndim in (("uniforms", (n_samples, n), 2), ("state", (n_samples,), 2), ("weights", (m,), 1)):
            shape = np.shape(getattr(self, name))
            if getattr(self, name) is not None and (len(shape) != ndim or shape[: len(first)] != first):
                raise ValueError(f"{name}: got shape {shape}, want {first}, as in scores and psi")
        if self.weights is not None:
            real_array("weights", self.weights)
        for name, size in (("actions", n), ("targets", m)):
            if getattr(self, name) != ():
                check_labels(getattr(self, name), size, name)
        listed("notes", self.notes, "a tuple of sentences")

    @property
    def shape(self) -> tuple[int, int, int]:
        """``(N, n, m)``."""
        return len(self.psi), self.scores.shape[1], self.psi.shape[1]

    def checked(self, least: int = 8, *, uniforms: bool = False) -> "Batch":
        """Return this batch if its arrays are consistent and finite; raise ValueError with the first fault
        otherwise. With `uniforms`, they must not be missing."""
        least, n_samples = checked("least", least, Count), len(self.psi)
        for name in ("scores", "psi", "uniforms", "state"):
            array = getattr(self, name)
            with np.errstate(invalid="ignore", over="ignore"):
                if array is None or np.isfinite(array.sum()):  # without an array of booleans of its size
                    continue
            invalid = np.argwhere(~np.isfinite(array))
            if len(invalid):
                raise ValueError(
                    f"{name}: {counted(len(invalid), 'entry is', 'entries are')} not finite, the first at sample "
                    f"{invalid[0][0]}, column {invalid[0][1]}; want finite numbers: exclude such samples, or fix their "
                    "source"
                )
        if self.uniforms is None and uniforms:
            raise ValueError("uniforms: got None, want F(a|s), the actions through their distribution function")
        if self.uniforms is not None and not ((self.uniforms >= 0) & (self.uniforms <= 1)).all():
            raise ValueError("uniforms: got numbers outside [0, 1], want F(a|s), from 0 to 1")
        if n_samples < least:
            raise ValueError(
                f"psi: got {counted(n_samples, 'sample')}, want at least {least}: a test with fewer has no power; draw "
                "more"
            )
        return self

    def constant(self) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Return which factors and targets are constant, booleans ``(n,)`` and ``(m,)``, and notes that name them."""
        acts = self.scores if self.scores.ndim == 2 else self.scores[..., 0]
        dead, still = (acts == acts[0]).all(axis=0), (self.psi == self.psi[0]).all(axis=0)
        words = []
        for side, names, same in (("action", self.actions, dead), ("target", self.targets, still)):
            names = names or default_labels("a" if side == "action" else "psi", len(same))
            if same.any():
                words.append(f"skipped: {side} {some([names[int(k)] for k in np.flatnonzero(same)])} is constant")
        return dead, still, words

    def discovery(
        self,
        method: MethodName,
        effect: np.ndarray,
        p_value: np.ndarray | None = None,
        *,
        effect_unit: str,
        notes: Sequence[str] = (),
    ) -> Discovery:
        """Return the result of a method on this batch, with the batch's kind, labels, samples and notes.

        - `effect`, `p_value`: of each pair, ``(n, m)``; methods without p-values omit them.

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


def collect(
    problem: Any,
    *,
    policy: Any = None,
    samples: int = 10_000,
    horizon: int = 1,
    gamma: float = 1.0,
    n_envs: int = 64,
    seed: int = 0,
) -> Batch:
    """Run a problem and return the samples that the tests need.

    ψ of a sample at time t is its return Σ_{k < horizon} γᵏ ψ_{t+k}, cut at the end of the episode; with
    ``horizon=1``, the reward of one step.

    - `problem`: a JAX `Problem`, a `Bandit`, or a function that returns a Gymnasium environment.
    - `policy`: a trained `FactoredPPO`; or None, for actions that do not depend on the state: standard normal, or with
      a standard deviation of a quarter of the width of the bounds if these are known, and uniform choices.

    >>> from factorax.problems import chain
    >>> collect(chain(3), samples=500, horizon=4, n_envs=5).shape[1:]
    (3, 3)
    """
    check_each(_COLLECTING, samples=samples, horizon=horizon, gamma=gamma, n_envs=n_envs, seed=seed)
    if policy is not None and not hasattr(policy, "learner"):
        raise TypeError(f"policy: got {shown(policy)}, want a FactoredPPO, or None for a neutral one")
    # A bandit has one state, so that N draws need no environment.
    if isinstance(problem, Bandit):
        a = np.random.default_rng(seed).normal(size=(samples, problem.n))
        psi, net = np.asarray(problem.targets(a)), problem.network
        return Batch(
            a, psi, special.ndtr(a), weights=problem.weights, kind="one-step", actions=net.actions, targets=net.targets
        )
    # The last steps of each environment lack a whole return.
    n_steps = -(-samples // n_envs) + horizon - 1
    spec = Spec.of(problem, distribution="clip")
    if spec.network_is_default:
        raise ValueError("problem: has no network, which defines the number of targets; want one, by fx.wrap")
    network = spec.network.static
    if network.factorisation is not None:
        raise ValueError("problem: its network is factored; want one row per component of the action space")
    if policy is not None:  # the policy may have another distribution over the same components
        spec = replace(spec, components=policy.spec.components)
    space, local = spec.components, spec.local
    neutral, spread = space.neutral()
    if policy is not None:
        check_forgetful(policy)

    def act(key: jax.Array, obs: jax.Array) -> jax.Array:
        if policy is not None:
            return policy.learner.act(policy.state, key, obs)
        return space.sample(key, jnp.broadcast_to(neutral, (len(obs), *neutral.shape)), spread)

    transitions = play(spec, act, n_envs=n_envs, n_steps=n_steps, seed=seed)
    ended = np.asarray(transitions.terminated | transitions.truncated)
    psi = returns_of(np.asarray(transitions.psi, float), ended, horizon, gamma)
    obs = np.asarray(transitions.obs, float)[: len(psi)]
    parameters = np.broadcast_to(np.asarray(neutral), (*obs.shape[:-1], *neutral.shape))
    if policy is not None:
        inputs = policy.learner.normalised(policy.state.obs, jnp.asarray(obs, jnp.float32))
        parameters, spread = policy.state.agent.policy(inputs, policy.learner.rule.local(inputs))
        parameters = np.asarray(parameters)
    actions = np.asarray(transitions.action, float)[: len(psi)]
    # For choices: uniform between F below and F at the action, with random numbers of its own stream.
    between = np.random.default_rng([seed, 1]).random(actions.shape)
    scores, uniforms = space.standardised(parameters, spread, actions, between)
    flat = obs.reshape(-1, obs.shape[-1])
    features = _features(flat, None if local is None else np.asarray(local(jnp.asarray(flat))), len(space))
    scores = scores.reshape(-1, len(space))
    if features is not None:
        # An action that helps in one state and harms in another has a score of mean zero, but not times the state.
        scores = np.concatenate([scores[..., None], scores[..., None] * features], axis=-1)
    rows = slice(0, samples)
    return Batch(
        scores[rows],
        psi.reshape(-1, psi.shape[-1])[rows],
        uniforms.reshape(-1, len(space))[rows],
        state=flat[rows],
        weights=spec.weights,
        kind="one-step" if horizon == 1 else "return",
        actions=network.actions,
        targets=network.targets,
        notes=(f"returns over {horizon} steps",) if horizon > 1 else (),
    )


def returns_of(psi: np.ndarray, ended: np.ndarray, horizon: int, gamma: float) -> np.ndarray:
    """Return sums over `horizon` steps, cut at the end of the episode, ``(T − horizon + 1, B, m)``.

    Later times are left out: their episodes continue, but fewer steps of them are known.
    """
    whole = len(psi) - horizon + 1
    total, alive = np.zeros_like(psi[:whole]), np.ones((whole, psi.shape[1], 1))
    for k in range(horizon):
        total += gamma**k * alive * psi[k : k + whole]
        alive *= ~ended[k : k + whole, :, None]
    return total


def _features(obs: np.ndarray, local: np.ndarray | None, n: int, most: int = 16) -> np.ndarray | None:
    """Return standardised features of the state for each factor, ``(N, n, p)``: of its local observation, if known."""
    inputs = local if local is not None else np.repeat(obs[:, None], n, axis=1)
    if inputs.shape[-1] > most:
        return None
    inputs = inputs - inputs.mean(axis=0)
    deviation = inputs.std(axis=0)
    keep = (deviation > 1e-9).all(axis=0)
    return inputs[..., keep] / deviation[..., keep] if keep.any() else None
