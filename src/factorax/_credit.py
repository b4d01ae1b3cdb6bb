"""The only place where the influence matrix K is applied to a target vector ψ.

No other code multiplies by K: ``K @ lam * psi`` parses as ``(K @ lam) * psi``, which is silently wrong for square K,
and a matrix product is rarely the fastest way to apply K.
"""

import sys
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_jax_array,
    is_numpy_array,
    is_torch_array,
)

from ._checks import real_array
from ._text import shown
from .structure import forms
from .structure.base_network import BaseNetwork, KArray
from .structure.network import HINT, InfluenceNetwork, network_of
from .structure.schedule import Blend

# Rows up to this degree are summed entry by entry: XLA then fuses the whole sum, which is twice as fast on a CPU.
MAX_UNROLLED_DEGREE = 128


def credit(net: Any, psi: Any, weights: Any = None) -> Any:
    """Return [K(λ∘ψ)]: for every factor, the weighted sum of the targets it influences (eq. 7 of the paper).

    kᵢ = Σⱼ K[i, j] λⱼ ψⱼ. The function is linear and can be used in any differentiated or compiled JAX or PyTorch
    program. K is a constant of that program and is applied in its cheapest form (``net.form``).

    **Arguments**

    - `net`: the influence network, a point of a `NetworkSchedule`, or a `KArray` with a matrix for each sample. A plain
      matrix also works, but is checked and analysed in every call; convert it to a network where speed matters.
    - `psi`: the targets, shape ``(..., n_targets)`` with any batch axes in front, as a NumPy, JAX or PyTorch array of
      finite numbers.
    - `weights`: the weights λ, shape ``(n_targets,)``, or with batch axes that broadcast against those of `psi`. The
      default is all ones.

    **Returns**

    The credit of every factor, shape ``(..., n_actions)``, in the array library, dtype and device of `psi`, and no view
    of it.

    >>> net = InfluenceNetwork([[1, 1], [0, 1]])
    >>> credit(net, np.array([10.0, 1.0]))
    array([11.,  1.])
    >>> credit(net, np.array([10.0, 1.0]), weights=[0.5, 2.0])
    array([7., 2.])
    """
    net = network_of(net, "net")
    apply = _application(net)
    return apply(*_weighted(net.shape[1], psi, weights))


def factor_baseline(net: Any, psi: Any, weights: Any = None) -> Any:
    """Return [(1 − K)(λ∘ψ)]: for each factor, the weighted sum of the targets it does *not* influence (Def. 4.1, eq.
    6).

    bᵢ = Σⱼ λⱼ ψⱼ − kᵢ. Subtracting it from the scalar objective leaves `credit`. If the network is correct, no dropped
    target depends on the factor's own action, and E[zᵢ bᵢ] = 0: bᵢ is a valid control variate (Lemma 4.1). Arguments,
    shapes and array libraries are as in `credit`.

    >>> factor_baseline(InfluenceNetwork([[1, 1], [0, 1]]), np.array([10.0, 1.0]))
    array([ 0., 10.])
    """
    net = network_of(net, "net")
    apply = _application(net)
    x, xp = _weighted(net.shape[1], psi, weights)
    return xp.sum(x, axis=-1, keepdims=True) - apply(x, xp)


def _application(net: Any) -> Callable[[Any, Any], Any]:
    """Return the function ``(x, xp) ↦ K x`` for a network of any kind.

    `x` has shape ``(..., n_targets)``; `xp` is its array namespace.
    """
    match net:
        case InfluenceNetwork():
            return partial(_apply, net.form)
        case KArray():
            return lambda x, xp: xp.matmul(xp.astype(_as_array(net.matrix, "net"), x.dtype), x[..., None])[..., 0]
        case Blend():
            start, end = _application(net.start), _application(net.end)

            def apply(x: Any, xp: Any) -> Any:
                # A JAX weight would turn the credits of NumPy targets into a JAX array.
                w: Any = float(net.w) if is_numpy_array(net.w) or is_numpy_array(x) else net.w
                return (1 - w) * start(x, xp) + w * end(x, xp)

            return apply
        case BaseNetwork():
            raise TypeError(f"net: got {type(net).__name__}, which has no fixed K; want {net.for_credit}")
    raise TypeError(f"net: got {type(net).__name__}, want an InfluenceNetwork; {HINT}")


def _weighted(n_targets: int, psi: Any, weights: Any) -> tuple[Any, Any]:
    """Return λ∘ψ and its array namespace, after checking all shapes."""
    raw_psi, psi = psi, _as_array(psi, "psi")
    xp = array_namespace(psi)
    if psi.ndim == 0 or psi.shape[-1] != n_targets:
        raise ValueError(
            f"psi: got {f'shape {tuple(psi.shape)}' if psi.ndim else shown(raw_psi)}, want (..., {n_targets}): one "
            "value per target along the last axis"
        )
    if not xp.isdtype(psi.dtype, "real floating"):
        if not xp.isdtype(psi.dtype, ("integral", "bool")):
            raise TypeError(f"psi: got {psi.dtype}, want real numbers")
        # Counts are targets too; they become the default float of their library.
        psi = xp.astype(psi, xp.asarray(0.0).dtype)
    if weights is None:
        return psi, xp
    lam = _as_array(weights, "weights")
    if lam.ndim == 0 or lam.shape[-1] != n_targets:
        raise ValueError(
            f"weights: got {f'shape {tuple(lam.shape)}' if lam.ndim else shown(weights)}, want ({n_targets},), one "
            "weight λ per target"
        )
    if is_numpy_array(lam):
        real_array("weights", lam)
        lam = lam.astype(psi.dtype, copy=False) if is_numpy_array(psi) else _like(psi, lam, psi.dtype)
    elif array_namespace(lam) is not xp:
        raise TypeError(f"weights: got {type(lam).__name__} with psi a {type(psi).__name__}; want one array library")
    elif xp.isdtype(lam.dtype, "real floating"):
        lam = xp.astype(lam, psi.dtype)
    if lam.ndim > psi.ndim or any(
        have not in (1, want) for have, want in zip(lam.shape[::-1], psi.shape[::-1], strict=False)
    ):
        raise ValueError(
            f"weights: got shape {tuple(lam.shape)}, want batch axes that broadcast against those of psi, "
            f"{tuple(psi.shape)}"
        )
    return lam * psi, xp


def _as_array(x: Any, argument: str) -> Any:
    return x if is_array_api_obj(x) else real_array(argument, x, finite=False).astype(np.float64)


def _apply(form: forms.Form, x: Any, xp: Any) -> Any:
    """Return K x along the last axis, for K in any form."""
    match form:
        case forms.Ones(n_rows):
            total, shape = xp.sum(x, axis=-1, keepdims=True), (*x.shape[:-1], n_rows)
            if is_numpy_array(x):
                return np.full(shape, total, x.dtype)  # callers may write to it, unlike to a broadcast array
            total = xp.broadcast_to(total, shape)
            return total if is_jax_array(x) else total + 0
        case forms.Select(columns):
            # Adding 0 makes a copy, so that the result never shares memory with the caller's psi.
            return x[..., form.run] + 0 if form.run is not None else _take(form, "columns", columns, x)
        case forms.SelectPlusColumns(select, shared):
            out = _apply(select, x, xp)
            for column, rows in shared:
                value = x[..., column : column + 1]
                out = out + (value if rows is None else value * _constant(form, column, rows, x, x.dtype))
            return out
        case forms.Diagonals():
            return _diagonals(form, x, xp)
        case forms.Dense(matrix):
            return x @ _constant(form, "matrix", matrix.T, x, x.dtype)
        case forms.Sparse() if is_numpy_array(x):
            matrix = _constant(form, "matrix", form.matrix, x, x.dtype)
            return matrix @ x if x.ndim == 1 else (matrix @ x.reshape(-1, x.shape[-1]).T).T.reshape(*x.shape[:-1], -1)
        case forms.Sparse():
            parts = [_gather_sum(form, bucket, x, xp) for bucket in range(len(form.buckets))]
            out = parts[0] if len(parts) == 1 else xp.concat(parts, axis=-1)
            return out if form.order is None else _take(form, "order", form.order, out)


def _diagonals(form: forms.Diagonals, x: Any, xp: Any) -> Any:
    """Return Σ_d entries_d[i] · x[..., i + d] for every row i, with 0 beyond the ends."""
    offsets, (before, after) = [offset for offset, _ in form.diagonals], form.padding
    if is_jax_array(x):
        from jax import lax

        # XLA fuses a negative padding into the sum, but would copy a padded x first.
        beyond, rest = form.n_rows - form.n_columns, [(0, 0, 0)] * (x.ndim - 1)
        terms = [lax.pad(x, x.dtype.type(0), [*rest, (-offset, beyond + offset, 0)]) for offset in offsets]
    else:
        zeros = [xp.zeros((*x.shape[:-1], size), dtype=x.dtype, device=device(x)) for size in (before, after)]
        padded = xp.concat([zeros[0], x, zeros[1]], axis=-1)
        terms = [padded[..., offset + before : offset + before + form.n_rows] for offset in offsets]
    out = 0
    for term, (offset, entries) in zip(terms, form.diagonals, strict=True):
        out = out + (term if entries is None else term * _constant(form, offset, entries, x, x.dtype))
    return out


def _gather_sum(form: forms.Sparse, bucket: int, x: Any, xp: Any) -> Any:
    """Return Σ_d entries[:, d] · x[..., columns[:, d]] for the rows of one bucket."""
    columns, entries = form.buckets[bucket]
    width = columns.shape[1]
    if width == 0:
        return xp.zeros((*x.shape[:-1], len(columns)), dtype=x.dtype, device=device(x))
    if width > MAX_UNROLLED_DEGREE:
        terms = _take(form, (bucket, "columns"), columns, x)
        if entries is not None:
            terms = terms * _constant(form, (bucket, "entries"), entries, x, x.dtype)
        return xp.sum(terms, axis=-1)
    out = None
    for d in range(width):
        term = _take(form, (bucket, d, "columns"), columns[:, d], x)
        if entries is not None:
            term = term * _constant(form, (bucket, d, "entries"), entries[:, d], x, x.dtype)
        out = term if out is None else out + term
    return out


def _take(form: forms.AnyForm, name: Hashable, indices: np.ndarray, x: Any) -> Any:
    """Return ``x[..., indices]`` for indices of any rank that are known to be within bounds."""
    indices = _constant(form, name, indices, x, None)
    return x.at[..., indices].get(mode="promise_in_bounds") if is_jax_array(x) else x[..., indices]


def _constant(form: forms.AnyForm, name: Hashable, array: Any, like: Any, dtype: Any) -> Any:
    """Return a part of a form as an array like `like`, cached for each array library, device and dtype."""
    library = "numpy" if is_numpy_array(like) or is_jax_array(like) else (array_namespace(like).__name__, device(like))
    # JAX takes NumPy's arrays as constants on any device, so both share an entry.
    key = (name, library, dtype)
    if key not in form.constants:
        form.constants[key] = _like(like, array, dtype)
    return form.constants[key]


def _like(like: Any, array: Any, dtype: Any) -> Any:
    """Return an array in the library and on the device of `like`; JAX uses NumPy arrays as constants, traced or not."""
    if is_numpy_array(like) or is_jax_array(like):
        typed = array if dtype is None else array.astype(dtype)
        return np.ascontiguousarray(typed) if isinstance(typed, np.ndarray) else typed
    # A copy, because PyTorch has no read-only tensors and warns if one is created from a read-only array.
    xp = array_namespace(like)
    with sys.modules["torch"].inference_mode(False) if is_torch_array(like) else nullcontext():
        return xp.asarray(array, dtype=dtype, device=device(like), copy=True)
