"""Statistics that are smooth functions of expectations: exact by enumeration, or estimated with standard errors."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._arrays import on_device
from .._checks import Count, checked, real_array
from .._text import counted
from ..structure import Factorisation
from .inputs import check_not_negative, check_policy, check_tree, shape_of
from .scores import (
    LogProb,
    TracedLogProb,
    any_traced,
    batched_log_prob,
    check_disjoint,
    check_where_known,
    compiled_log_prob,
    factor_scores,
    flatten_batch,
    one_of,
)

MAX_TABLE_ROWS = 12
Features = Callable[..., Any]
Statistics = Callable[[Any, Any, int | None], Any]
MAX_SCORES = 1 << 22  # numbers in the scores of samples that are computed together: 16 MB in single precision


class Estimate(NamedTuple):
    """A value and its standard error; the error is 0 if the value is exact."""

    value: Any
    error: Any

    def __str__(self) -> str:
        """Return a scalar as ``1.234 ± 0.056``, without the error if it is exact, and arrays in NumPy's format."""
        if np.ndim(self.value):
            return f"{self.value} ± {self.error}" if np.any(self.error) else f"{self.value}"
        return f"{self.value:.4g}" + (f" ± {self.error:.2g}" if self.error else "")


def table(factors: Sequence[str], columns: dict[str, Estimate], width: int, notes: Sequence[str] = ()) -> list[str]:
    """Return the lines of a table with a row per factor, abbreviated if there are many."""
    lines = [f"{'factor':>12}" + "".join(f"{name:>{width}}" for name in columns)]
    for i, name in enumerate(factors if len(factors) <= MAX_TABLE_ROWS else factors[: MAX_TABLE_ROWS // 2]):
        cells = (Estimate(column.value[i], column.error[i]) for column in columns.values())
        lines.append(f"{name:>12}" + "".join(f"{cell!s:>{width}}" for cell in cells) + (notes[i] if notes else ""))
    if len(lines) <= len(factors):
        lines.append(f"{'…':>12}  and {len(factors) + 1 - len(lines)} more")
    return lines


def estimate(
    functions: tuple[Features, Features, Statistics],
    log_prob: LogProb,
    params: Any,
    credits: dict[str, jax.Array],
    *,
    actions: Any,
    obs: Any,
    probabilities: Any,
    disjoint: bool,
    factorisation: Factorisation | None = None,
) -> Any:
    """Return T(E[x]) as a pytree of `Estimate`, for statistics T of the mean of features x in each state.

    Results are averaged over states. By the delta method, the error of T is the error of the mean of its influence
    T′(E[x])·(x − E[x]), which takes a second pass over the samples.

    **Arguments**

    - `functions`: three functions.
      The first maps the scores ``(n, p)`` of one sample, the function that sums weighted scores, and the sample's
      `credits` to a dictionary of quantities to be centred: a variance computed as E[x²] − E[x]² would be lost in
      rounding errors.
      The second maps the same arguments and the mean of the first to a pytree of features x.
      The third maps E[x], that mean and the number of samples (None if exact) to a pytree of statistics.
    - `credits`: arrays of shape ``(samples, n)`` or ``(states, samples, n)``, which define the batch axes.
    - Other arguments are as in `variance_report`.
    """
    checked("disjoint", disjoint, bool)
    # Standard errors need values, and warnings in a compiled function would be issued once for all.
    if any_traced((params, credits, actions, obs)):
        raise TypeError(
            "psi: got an array that is traced by JAX, want concrete values: a report has standard errors and warnings. "
            "Call it outside jit, grad and vmap"
        )
    name = "credits" if "credits" in credits else "psi"
    *leading, n = next(iter(credits.values())).shape
    batch = tuple(leading)
    if not 1 <= len(batch) <= 2 or (probabilities is None and batch[-1] < 2):
        raise ValueError(
            f"{name}: got batch axes {batch}, want (samples,) or (states, samples), with at least two samples"
        )
    p = check_probabilities(probabilities, batch)
    data = {"credits": flatten_batch(credits, batch, name), "actions": flatten_batch(actions, batch, "actions")}
    data["obs"] = None if obs is None else flatten_batch(obs, batch, "obs")
    n_factors = jax.eval_shape(lambda: batched_log_prob(log_prob, params, data["obs"], data["actions"])).shape[1]
    if n_factors != n:
        raise ValueError(
            f"{'net' if name == 'psi' else name}: has {counted(n, 'row')}, but log_prob returned "
            f"{counted(n_factors, 'factor')}; want one row per factor (net.factor)"
        )
    check_where_known(log_prob, params, data["actions"], data["obs"], factorisation)
    # A wrong `disjoint` would give wrong variances without any sign of it.
    if disjoint:
        check_disjoint(log_prob, params, n, data["actions"], data["obs"])
    traced = TracedLogProb(log_prob, params, *one_of(data["obs"], data["actions"]))
    values, variances = _estimate(functions, disjoint, batch[-1], traced, params=params, data=data, probabilities=p)
    return jax.tree.map(lambda v, s: Estimate(np.asarray(v), np.asarray(s)), values, variances)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _estimate(
    functions: tuple[Features, Features, Statistics],
    disjoint: bool,
    size: int,
    log_prob: LogProb,
    *,
    params: Any,
    data: Any,
    probabilities: jax.Array | None,
) -> tuple[Any, Any]:
    """Return the statistics and their errors, for `size` samples in each state. Compiled once per policy, for all
    parameters."""
    data = jax.tree.map(lambda x: x.reshape(-1, size, *x.shape[1:]), data)
    states, _, n = next(iter(data["credits"].values())).shape
    scores, add, width = factor_scores(log_prob, params, disjoint=disjoint)
    # The factor 4 is room for the derived quantities of each score.
    chunk = max(1, min(size, MAX_SCORES // (4 * n * width)))

    first_order, features, statistics = functions

    def at_state(samples_and_weights: tuple[Any, jax.Array]) -> tuple[Any, Any]:
        mean_of = partial(_weighted_mean, *samples_and_weights, chunk)
        centre = mean_of(lambda s: first_order(scores(s["obs"], s["actions"]), add, **s["credits"]))

        def features_of(sample: Any) -> Any:
            return features(scores(sample["obs"], sample["actions"]), add, centre, **sample["credits"])

        def statistics_of(mean: Any) -> Any:
            return statistics(mean, centre, size if probabilities is None else None)

        mean = mean_of(features_of)

        def squared_influence(sample: Any) -> Any:
            away = jax.tree.map(jnp.subtract, features_of(sample), mean)
            return jax.tree.map(jnp.square, jax.jvp(statistics_of, (mean,), (away,))[1])

        values = statistics_of(mean)
        if probabilities is not None:
            return values, jax.tree.map(jnp.zeros_like, values)
        return values, jax.tree.map(lambda v: v / (size - 1), mean_of(squared_influence))

    weights = jnp.full((states, size), 1 / size) if probabilities is None else probabilities.reshape(states, size)
    # One state after another, because the scores of one may fill the memory.
    values, variances = jax.lax.map(at_state, (data, weights))
    mean = jax.tree.map(lambda v: v.mean(axis=0), values)
    # States are sampled independently of each other, so that the variances of their statistics add up.
    return mean, jax.tree.map(lambda s: jnp.sqrt(s.sum(axis=0)) / states, variances)


def _weighted_mean(samples: Any, weights: jax.Array, chunk: int, function: Callable[[Any], Any]) -> Any:
    """Return the weighted mean of a function of one sample, computed in chunks of samples."""
    # The last chunk is filled with copies of weight 0, so that one program serves all.
    missing = -len(weights) % chunk

    def split(x: jax.Array) -> jax.Array:
        return jnp.concatenate([x, jnp.repeat(x[:1], missing, axis=0)]).reshape(-1, chunk, *x.shape[1:])

    chunks = jax.tree.map(split, samples)
    padded = jnp.concatenate([weights, jnp.zeros(missing, weights.dtype)]).reshape(-1, chunk)

    def add(total: Any, part: tuple[Any, jax.Array]) -> tuple[Any, None]:
        values = jax.vmap(function)(part[0])
        return jax.tree.map(lambda t, v: t + jnp.tensordot(part[1].astype(v.dtype), v, axes=1), total, values), None

    shapes = jax.eval_shape(function, jax.tree.map(lambda x: x[0], samples))
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    return jax.lax.scan(add, zero, (chunks, padded))[0]


def joint_actions(
    log_prob: LogProb, params: Any, sizes: list[int] | tuple[int, ...], obs: Any = None
) -> tuple[jax.Array, jax.Array]:
    """Return every joint action of factors with finitely many choices, and its probability at one observation.

    `sizes` lists the number of choices of each factor. Returns integers ``(∏ sizes, n)`` and probabilities
    ``(∏ sizes,)``: the `actions` and `probabilities` arguments of `variance_report` and similar functions.

    >>> log_prob = lambda logits, obs, a: jax.nn.log_softmax(logits)[jnp.arange(2), a]
    >>> actions, probabilities = joint_actions(log_prob, jnp.zeros((2, 2)), (2, 2))
    >>> actions.tolist(), probabilities.tolist()
    ([[0, 0], [0, 1], [1, 0], [1, 1]], [0.25, 0.25, 0.25, 0.25])
    """
    check_policy(log_prob, params)
    sizes = checked("sizes", sizes, tuple[Count, ...])
    if obs is not None:
        check_tree("obs", obs)
    total = math.prod(sizes)
    if not sizes or total > 10**7:
        raise ValueError(f"sizes: got {sizes}, {total} joint actions, want 1 to 10⁷ to enumerate; draw samples instead")
    actions = on_device(np.indices(sizes).reshape(len(sizes), -1).T)
    repeated = None if obs is None else jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x)[None], total, axis=0), obs)
    p = jnp.exp(compiled_log_prob(log_prob, params, repeated, actions)(actions).sum(axis=1))
    if not np.isclose(p.sum(), 1, atol=1e-4):
        raise ValueError(
            f"sizes: got {tuple(sizes)}, with probabilities that add up to {p.sum():.4g}; want the number of choices "
            "of each factor"
        )
    return actions, p


def check_probabilities(probabilities: Any, shape: tuple[int, ...]) -> jax.Array | None:
    """Return probabilities of shape `shape` that add up to 1 along the last axis."""
    if probabilities is None:
        return None
    p = real_array("probabilities", probabilities, jnp)
    if p.shape != shape:
        raise ValueError(f"probabilities: got {shape_of(probabilities)}, want {shape}, one for each sample")
    check_not_negative("probabilities", p)
    totals = np.asarray(p.sum(axis=-1))
    if not np.allclose(totals, 1, atol=1e-5):
        raise ValueError(
            f"probabilities: got a sum of {totals.ravel()[0]:.6g}, want 1: list each joint action "
            "once (see joint_actions), or omit probabilities for samples drawn from the policy"
        )
    return p
