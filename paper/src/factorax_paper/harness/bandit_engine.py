"""Policy gradients on a bandit for many runs at once: one compiled program for a grid of step sizes and seeds.

The policy is N(μ, I) and μ is learned with one update per step: with a = μ + ε the score is ε, and

    μ ← μ + η ε ∘ (k − b),    k = [K(λ∘ψ(a))].

A run depends only on its seed and step size. Runs with the same seed share their noise across step sizes and methods:
it is drawn once, and methods are compared on equal terms.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from factorax._credit import credit
from factorax.gradients import running_value, separable_baseline
from factorax.problems import Bandit
from factorax.problems.bandits import ROUNDING
from factorax.structure import InfluenceNetwork

from .noise import gaussian_pair

RATE = 0.1  # of every learnt baseline (App. D)
DIVERGED = 1e6  # a run with a larger gap does not recover; runs on the paper's bandits start at a gap of 2.5

NOISE_CPU, NOISE_GPU = 2**17, 2**26  # normals drawn at a time: on a CPU they fit into its cache
UNROLL_CPU, UNROLL_GPU = 1, 4  # pairs of steps per iteration of the compiled loop: on a GPU every launch costs time

Estimator = Literal["vpg", "fpg"]
Baseline = Literal["none", "b(s)", "b(s,a)", "b(s,a) as printed"]


@dataclass(frozen=True)
class BanditMethod:
    """An estimator with a baseline, as in Table 1 of the paper."""

    estimator: Estimator
    """``"vpg"`` credits each action with the total reward, ``"fpg"`` with the targets that it influences."""
    baseline: Baseline = "none"
    """Learned baseline: ``"b(s)"``, a running value (one number for VPG, one per target for FPG); ``"b(s,a)"``, −‖a −
    w‖₁/n with aᵢ replaced by its mean for factor i; ``"b(s,a) as printed"``, with the full action, which biases the
    gradient."""

    def __post_init__(self) -> None:
        for name, kind in (("estimator", Estimator), ("baseline", Baseline)):
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name}: got {getattr(self, name)!r}, want one of {', '.join(get_args(kind))}")
        if self.estimator == "fpg" and self.baseline.startswith("b(s,a)"):
            raise ValueError(
                "baseline: got b(s,a) with fpg, which already leaves out what b(s,a) subtracts; want none or b(s)"
            )

    @property
    def label(self) -> str:
        """The name of the method in the paper, such as ``VPG b(s)``."""
        return self.estimator.upper() + ("" if self.baseline == "none" else f" {self.baseline}")


METHODS = (
    BanditMethod("vpg"),
    BanditMethod("vpg", "b(s)"),
    BanditMethod("vpg", "b(s,a)"),
    BanditMethod("fpg"),
    BanditMethod("fpg", "b(s)"),
)
"""The methods of Table 1."""
AS_PRINTED = BanditMethod("vpg", "b(s,a) as printed")


class Runs(NamedTuple):
    """The state of S × G runs: S seeds, G step sizes."""

    mu: jax.Array
    """The policy's mean, ``(S, G, n)``."""
    baseline: jax.Array
    """The learned baseline, ``(S, G, m)``; m = 0 if there is none."""
    active: jax.Array
    """Whether a run still learns, ``(S, G)``: it has neither diverged nor reached the tolerance."""
    reached: jax.Array
    """The first step after which the gap was within the tolerance, ``(S, G)``; −1 if not yet, or without a
    tolerance."""


@dataclass(frozen=True, eq=False)
class BanditLearner:
    """A family of bandits, a method and a stopping rule, compiled once."""

    make: Callable[[Any], Bandit]
    """Maps the parameters of an instance, ``(n,)`` (such as the centre of a search bandit), to its bandit."""
    method: BanditMethod
    tolerance: float | None = None
    """A run finishes when the gap of its mean is at most this; None if it learns until the end."""
    measure: Callable[[Bandit, jax.Array], jax.Array] | None = None
    """An additional quantity to record, a function of the bandit and means ``(..., n)``; by default the gap."""

    def init(self, instances: Any, n_step_sizes: int) -> Runs:
        """Return untrained runs for S instances, shape ``(S, n)``."""
        S, n = jnp.shape(instances)
        bandit = self.make(jnp.zeros(n, jnp.float32))
        width = {"none": 0, "b(s)": _objective(bandit, self.method)[0].shape[1]}.get(self.method.baseline, n)
        cells = (S, n_step_sizes)
        return Runs(
            mu=jnp.zeros((*cells, n), jnp.float32),
            baseline=jnp.zeros((*cells, width), jnp.float32),
            active=jnp.ones(cells, bool),
            reached=jnp.full(cells, -1, jnp.int32),
        )

    def advance(
        self, runs: Runs, keys: Any, instances: Any, step_sizes: Any, start: Any, *, steps: int
    ) -> tuple[Runs, jax.Array, jax.Array]:
        """Learn for `steps` more steps.

        **Arguments**

        - `keys`, `instances`: of every seed, ``(S, 2)`` and ``(S, n)``.
        - `step_sizes`: η, ``(G,)``; with zeros only the baselines learn.
        - `start`: the number of steps made so far, an even number.
        - `steps`: an even number. Memory does not grow with it.

        **Returns** the runs, their gaps and their measures, both ``(S, G)``. A diverged run is no longer active, and
        both are infinite. A gap that is negative by rounding is set to 0; a smaller one shows that the bandit's best
        action is wrong, and is returned unchanged.
        """
        n, S = runs.mu.shape[-1], len(keys)
        alone = jax.default_backend() == "cpu"
        chunk = _chunk(steps, most=NOISE_CPU // n if alone else NOISE_GPU // (n * S))
        unroll = UNROLL_CPU if alone else UNROLL_GPU

        def of_seed(seed: tuple[Runs, jax.Array, jax.Array]) -> tuple[Runs, jax.Array, jax.Array]:
            return self._advance(*seed, step_sizes, start, steps, chunk, unroll)

        # A CPU is fastest with one seed at a time, whose data fit into its cache. The compiled program and every bit of
        # the result are then independent of the number of seeds.
        seeds = (runs, keys, instances)
        return jax.lax.map(of_seed, seeds) if alone else jax.vmap(of_seed)(seeds)

    def _advance(
        self, runs: Runs, key: Any, instance: Any, step_sizes: Any, start: Any, steps: int, chunk: int, unroll: int
    ) -> tuple[Runs, jax.Array, jax.Array]:
        """Return the runs of one seed, ``(G, ...)``, with noise for `chunk` steps at a time, common to all step
        sizes."""
        bandit = self.make(instance)
        every_run = jax.vmap(functools.partial(self._update, bandit), in_axes=(0, 0, None, None))

        def two_steps(carry: tuple[Runs, jax.Array], eps: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
            runs, now = carry
            runs = every_run(runs, step_sizes, eps[0], now)
            runs = every_run(runs, step_sizes, eps[1], now + 1)
            return (runs, now + 2), None

        def one_chunk(carry: tuple[Runs, jax.Array], _: None) -> tuple[Any, None]:
            pairs = carry[1] // 2 + jnp.arange(chunk // 2)
            eps = jax.vmap(lambda pair: gaussian_pair(key, pair, bandit.n))(pairs)
            return jax.lax.scan(two_steps, carry, eps, unroll=unroll)

        (runs, _), _ = jax.lax.scan(one_chunk, (runs, jnp.asarray(start, jnp.int32)), length=steps // chunk)
        gap = bandit.gap(runs.mu)
        rounding = ROUNDING * (1 + jnp.abs(bandit.reward(jnp.asarray(bandit.best))))
        gap = jnp.where(gap < -rounding, gap, jnp.maximum(gap, 0))
        measure = gap if self.measure is None else self.measure(bandit, runs.mu)
        sound = gap <= DIVERGED  # false for NaN too
        runs = runs._replace(active=runs.active & sound)
        return runs, jnp.where(sound, gap, jnp.inf), jnp.where(sound, measure, jnp.inf)

    def _update(self, bandit: Bandit, run: Runs, step_size: jax.Array, eps: jax.Array, now: jax.Array) -> Runs:
        """Make one step of one run."""
        net, weights, targets = _objective(bandit, self.method)
        mu, value = run.mu, run.baseline
        action = mu + eps
        psi = targets(action)
        if self.method.baseline == "none":
            k = credit(net, psi, weights)
        elif self.method.baseline == "b(s)":
            k = credit(net, psi - value, weights)
            value = running_value(value, psi, RATE)
        else:
            # As printed, b(s, a) depends on the whole action and is therefore not a control variate: factor i uses it
            # with its own action replaced by the mean. The factor 1/n of the subgradient is left out; with it, w would
            # not learn.
            terms = lambda a: -jnp.abs(a - value) / bandit.n  # noqa: E731
            whole = terms(action).sum(keepdims=True)
            printed = self.method.baseline == "b(s,a) as printed"
            k = credit(net, psi, weights) - (whole if printed else separable_baseline(terms, action, mu))
            error = psi - whole
            value = value + RATE * error * jnp.sign(action - value)
        mu = mu + jnp.where(run.active, step_size, 0) * eps * k
        if self.tolerance is None:
            return run._replace(mu=mu, baseline=value)
        finished = run.active & (bandit.gap(mu) <= self.tolerance)
        reached = jnp.where(finished, now + 1, run.reached)
        return Runs(mu=mu, baseline=value, active=run.active & ~finished, reached=reached)


def _objective(bandit: Bandit, method: BanditMethod) -> tuple[InfluenceNetwork, Any, Callable[[Any], Any]]:
    """Return network, weights λ and targets as seen by the estimator: VPG has one target, the total reward."""
    if method.estimator == "fpg":
        return bandit.network, bandit.weights, bandit.targets
    return InfluenceNetwork.complete(bandit.n, 1), None, lambda action: bandit.reward(action)[..., None]


def _chunk(steps: int, most: int) -> int:
    """Return the number of steps for which noise is drawn at a time: a divisor of `steps`."""
    if steps < 2 or steps % 2:
        raise ValueError(f"steps: got {steps}, want an even number: noise is drawn for two steps at a time")
    return max(d for d in range(2, max(2, min(steps, most)) + 1, 2) if steps % d == 0)
