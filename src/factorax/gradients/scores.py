"""Log-probabilities and scores of a factored policy: zᵢ = ∇ log πᵢ(σᵢ(a)|s).

In this package a policy is a function ``log_prob(params, obs, action)`` of *one* observation and *one* action that
returns one log-probability per factor, shape ``(n,)``; the functions here map it over batches. `params` is any pytree
of arrays. A problem without observations passes ``obs=None``. An action is an array with actions along its first axis,
or a tuple, named tuple or dictionary with one entry per action.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.flatten_util import ravel_pytree

from .._arrays import on_device
from .._checks import check_type, is_traced
from .._text import counted, shown
from ..structure import Factorisation
from .inputs import check_policy, check_tree

LogProb = Callable[[Any, Any, Any], jax.Array]


class ProductFormError(ValueError):
    """Raised if the policy is not a product over factors, so that factors cannot be credited separately."""


class TracedLogProb:
    """A log_prob represented by its traced program, as an argument of compiled functions.

    It equals any other that computes the same, so each is compiled once. A function object is not a safe cache key,
    because the variables it closes over may have changed. Arrays closed over become `constants` of the program, and
    numbers become part of its text. Compiled functions receive it as a function.
    """

    def __init__(self, log_prob: LogProb, params: Any, obs: Any, action: Any):
        fresh = lambda *arguments: log_prob(*arguments)  # noqa: E731 (JAX keeps what it traced of a function it knows)
        program = jax.make_jaxpr(fresh)(params, obs, action)
        self.jaxpr, self.constants, self.text = program.jaxpr, program.consts, str(program.jaxpr)

    def with_constants(self, constants: Sequence[Any]) -> Any:
        """Return the traced function, with these constants."""
        run = jaxpr_as_fun(ClosedJaxpr(self.jaxpr, constants))
        return lambda params, obs, action: run(*jax.tree.leaves((params, obs, action)))[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TracedLogProb) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


jax.tree_util.register_pytree_node(
    TracedLogProb, lambda traced: (traced.constants, traced), TracedLogProb.with_constants
)


def flatten_batch(tree: Any, batch_shape: tuple[int, ...], argument: str) -> Any:
    """Return leaves of shape ``(*batch_shape, ...)`` with the batch axes merged into one."""

    def flatten(leaf: Any) -> jax.Array:
        leaf = on_device(leaf) if isinstance(leaf, np.ndarray) else jnp.asarray(leaf)
        if leaf.shape[: len(batch_shape)] != batch_shape:
            hint = f" (a list is read as a list of arrays, here {leaf}: pass one array)" if leaf.ndim == 0 else ""
            want = f"{batch_shape} in front, the batch axes of psi"
            raise ValueError(f"{argument}: got an array of shape {leaf.shape}, want {want}{hint}")
        return leaf.reshape(-1, *leaf.shape[len(batch_shape) :])

    return jax.tree.map(flatten, tree)


def batched_log_prob(log_prob: LogProb, params: Any, obs: Any, actions: Any) -> jax.Array:
    """Return the log-probabilities ``(batch, n)`` of a flat batch of observations and actions."""
    per_factor = jax.vmap(log_prob, in_axes=(None, None if obs is None else 0, 0))(params, obs, actions)
    if per_factor.ndim > 2:
        raise ValueError(
            f"log_prob: got shape {per_factor.shape[1:]} for one action, want (n,), one log-probability per factor. It "
            "is called with one observation and one action: does psi lack a batch axis that actions has, or does the "
            "result need a squeeze?"
        )
    # vmap has removed the axis of samples, so that one number per action has one axis left.
    if per_factor.ndim < 2:
        raise ProductFormError(
            "log_prob: got one number for one action, want (n,), one log-probability per factor. A joint "
            "log-probability is that of a correlated or autoregressive policy, which lacks the product form that "
            "factoring needs: draw the actions independently given the observation, merge those that depend on "
            "each other into one factor (net.factor), or use gradients.vanilla"
        )
    return per_factor


def one_of(*batches: Any) -> Any:
    """Return the shapes of one sample of each batch."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), batches)


def compiled_log_prob(log_prob: LogProb, params: Any, obs: Any, actions: Any) -> Callable[[Any], jax.Array]:
    """Return `batched_log_prob` as a function of actions like these. Nothing may be traced.

    It is compiled once per policy. Outside of ``jit``, each operation of a policy would be compiled on its own.
    """
    try:
        traced = TracedLogProb(log_prob, params, *one_of(obs, actions))
    except TypeError:  # parameters that are not arrays, or whose values the function looks at
        return lambda actions: batched_log_prob(log_prob, params, obs, actions)
    return lambda actions: _log_probs(traced, params, obs, actions)


_log_probs = jax.jit(batched_log_prob)


def score_matrix(log_prob: LogProb, params: Any, *, actions: Any, obs: Any = None) -> jax.Array:
    """Return S = [z₁ … zₙ], the matrix of scores (Prop. 1), shape ``(batch, |θ|, n)``. For analysis only.

    Training does not need it: one weighted vector–Jacobian product computes S·k at the cost of one gradient
    (`factored`), while S itself costs n gradients.
    """
    check_policy(log_prob, params)
    actions, obs = _batch(log_prob, params, actions, obs)
    traced = TracedLogProb(log_prob, params, *one_of(obs, actions))
    return _score_matrix(traced, params, obs, actions)


@jax.jit
def _score_matrix(log_prob: LogProb, params: Any, obs: Any, actions: Any) -> jax.Array:
    scores, _, _ = factor_scores(log_prob, params, disjoint=False)
    return jnp.swapaxes(jax.vmap(scores, in_axes=(None if obs is None else 0, 0))(obs, actions), -1, -2)


def _batch(log_prob: LogProb, params: Any, actions: Any, obs: Any) -> tuple[Any, Any]:
    """Return actions and observations with one batch axis, that of actions; raise if log_prob is joint."""
    check_tree("actions", actions)
    shape = jnp.shape(jax.tree.leaves(actions)[0])[:1]
    if not shape:
        raise ValueError(f"actions: got {shown(actions)}, want (samples, ...)")
    actions = flatten_batch(actions, shape, "actions")
    if obs is not None:
        check_tree("obs", obs)
        obs = flatten_batch(obs, shape, "obs")
    jax.eval_shape(lambda: batched_log_prob(log_prob, params, obs, actions))
    return actions, obs


def factor_scores(
    log_prob: LogProb, params: Any, *, disjoint: bool
) -> tuple[Callable[[Any, Any], jax.Array], Callable[[jax.Array], jax.Array], int]:
    """Return a function that computes the scores ``(n, p)`` of one sample, a function that sums them, and p.

    Parameters are `disjoint` if each leaf has a leading axis of factors and factor i reads only its i-th slice. Then
    all n scores come from one gradient, p is the size of a slice, and weighted scores are concatenated. Otherwise p =
    |θ|, and weighted scores are added.
    """
    if not disjoint:
        # Reverse mode: n outputs, and far more parameters than factors.
        theta, unravel = ravel_pytree(params)
        shared = lambda o, a: jax.jacrev(lambda t: log_prob(unravel(t), o, a))(theta)  # noqa: E731
        return shared, lambda weighted: weighted.sum(axis=0), theta.size

    def sliced(o: Any, a: Any) -> jax.Array:
        # The gradient of the sum is each factor's score in its slice, as no other factor depends on that slice.
        gradient = jax.grad(lambda p: log_prob(p, o, a).sum())(params)
        return jnp.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(gradient)], axis=1)

    width = sum(leaf.size // len(leaf) for leaf in jax.tree.leaves(params))
    return sliced, lambda weighted: weighted.reshape(-1), width


def check_disjoint(log_prob: LogProb, params: Any, n: int, actions: Any, obs: Any) -> None:
    """Raise unless factor i of the policy depends only on the i-th slice of each leaf of the parameters."""
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(params)]
    if any(shape[:1] != (n,) for shape in shapes):
        listed = ", ".join(map(str, shapes))
        raise ValueError(
            f"params: got leaves of shapes {listed}; disjoint=True needs a leading axis of length {n} in each"
        )
    # Weight each factor differently: the gradient of a slice that belongs to one factor is scaled by its weight.
    weight = np.linspace(1.0, 2.0, n)
    some_obs, some_actions = _few(obs), _few(actions)
    traced = TracedLogProb(log_prob, params, *one_of(some_obs, some_actions))
    # One gradient per factor would show the same at n times the cost.
    weighted, plain = (
        jax.tree.map(np.asarray, _gradient(traced, params, some_obs, some_actions, w)) for w in (weight, np.ones(n))
    )
    for got, each in zip(jax.tree.leaves(weighted), jax.tree.leaves(plain), strict=True):
        want = each * weight.reshape(-1, *[1] * (each.ndim - 1))
        if not np.allclose(got, want, rtol=1e-3, atol=1e-5 * float(np.abs(each).max(initial=1e-30))):
            raise ValueError("params: a factor depends on the slice of another factor; want disjoint=False")


@jax.jit
def _gradient(log_prob: LogProb, params: Any, obs: Any, actions: Any, weight: jax.Array) -> Any:
    """Return the gradient of the weighted sum of log-probabilities."""
    return jax.grad(lambda p: (batched_log_prob(log_prob, p, obs, actions) * weight).sum())(params)


def check_product_form(
    log_prob: LogProb,
    params: Any,
    *,
    actions: Any,
    obs: Any = None,
    factorisation: Factorisation | None = None,
) -> None:
    """Raise `ProductFormError` unless π(a|s) = ∏ᵢ πᵢ(σᵢ(a)|s) on these samples.

    An autoregressive policy also returns n log-probabilities, but the i-th changes with the actions before it. The
    check replaces some actions by those of another sample; the log-probabilities of all other factors must not change.
    Factors are split by the binary digits of their index, so that 2 log₂ n evaluations test every pair of factors.

    **Arguments**

    - `actions`, `obs`: a batch of at least two samples along the first axis, with concrete values (outside ``jit``).
    - `factorisation`: the actions that each factor draws; by default one action each.
    """
    check_policy(log_prob, params)
    actions, obs = _batch(log_prob, params, actions, obs)
    if factorisation is not None:
        check_type("factorisation", factorisation, Factorisation, "a Factorisation of the actions")
    if len(jax.tree.leaves(actions)[0]) < 2:
        raise ValueError("actions: got one sample, want at least two, to exchange actions between them")
    actions, obs = jax.tree.map(np.asarray, (actions, obs))
    log_probs = compiled_log_prob(log_prob, params, obs, actions)
    before = np.asarray(log_probs(actions))
    n = before.shape[1]
    groups = factorisation.groups if factorisation is not None else tuple((i,) for i in range(n))
    columns, join = _columns(actions)
    if len(groups) != n or sum(map(len, groups)) != len(columns):
        raise ValueError(
            f"log_prob: got {counted(n, 'factor')} for {counted(len(columns), 'action')}; want factorisation= to list "
            "the actions of each factor"
        )
    exchanged = [jax.tree.map(lambda x: np.roll(x, 1, axis=0), column) for column in columns]
    # Another program, or another row of a batch, may round differently.
    tolerance = 1e-5 if before.dtype.itemsize < 8 else 1e-10
    # Two indices differ in a digit, so that for each pair one group has the one and not the other.
    for digit in range(max(1, (n - 1).bit_length())):
        for value in (0, 1):
            group = [i for i in range(n) if (i >> digit & 1) == value]
            unchanged = np.setdiff1d(np.arange(n), group)
            if not group or not unchanged.size:
                continue
            of_moved = {action for i in group for action in groups[i]}
            mixed = [exchanged[a] if a in of_moved else column for a, column in enumerate(columns)]
            first, second = before[:, unchanged], np.asarray(log_probs(join(mixed)))[:, unchanged]
            wrong = ~np.isclose(first, second, rtol=tolerance, atol=tolerance, equal_nan=True)
            if wrong.any():
                raise ProductFormError(
                    f"log_prob: the log-probability of factor {unchanged[wrong.any(axis=0)][0]} changes with the "
                    "actions of other factors (counted from 0): the policy is correlated or autoregressive, and lacks "
                    "the product form that factoring needs. Draw the actions independently given the observation, "
                    "merge those that depend on each other into one factor (net.factor), or use gradients.vanilla"
                )


def any_traced(tree: Any) -> bool:
    """Return whether a leaf is traced by JAX and has no concrete value."""
    return any(map(is_traced, jax.tree.leaves(tree)))


def check_where_known(
    log_prob: LogProb, params: Any, actions: Any, obs: Any, factorisation: Factorisation | None
) -> None:
    """Run `check_product_form` on a few samples of a flat batch, unless values or the factors' actions are unknown."""
    # Inside jit there are no values to exchange; the first call outside checks them.
    if len(jax.tree.leaves(actions)[0]) < 2 or any_traced((params, actions, obs)):
        return
    some_actions, some_obs = _few(actions), _few(obs)
    n = jax.eval_shape(lambda: batched_log_prob(log_prob, params, some_obs, some_actions)).shape[1]
    sizes = (n, n) if factorisation is None else (len(factorisation), factorisation.n_actions)
    if sizes == (n, len(_columns(actions)[0])):
        check_product_form(log_prob, params, actions=some_actions, obs=some_obs, factorisation=factorisation)


def _few(tree: Any) -> Any:
    """Return eight samples spread over a batch: adjacent samples of an enumeration may differ in one action only."""
    return jax.tree.map(lambda x: np.asarray(x)[np.unique(np.linspace(0, len(x) - 1, 8).astype(int))], tree)


def _columns(actions: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return the actions of each component of a batch of joint actions, and the function that puts them together."""
    if isinstance(actions, tuple | list | dict):
        entries, structure = jax.tree.flatten(actions, is_leaf=lambda x: x is not actions)
        return entries, structure.unflatten
    if actions.ndim == 1:
        return [actions], lambda columns: columns[0]
    return list(np.moveaxis(actions, 1, 0)), lambda columns: np.stack(columns, axis=1)
