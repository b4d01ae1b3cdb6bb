"""The factored gradient: one vector–Jacobian product, with K at the cost of the plain gradient."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

import factorax as fx
from factorax.gradients import factored, score_matrix, vanilla

from .timing import Row, at_most, medians


def policy(params: Any, obs: jax.Array, action: jax.Array) -> jax.Array:
    """Return a policy of n Gaussian actions with means from a two-layer network."""
    hidden = jnp.tanh(params["w1"] @ obs)
    return jax.scipy.stats.norm.logpdf(action, params["w2"] @ hidden, 1.0)


def setting(n: int, batch: int, width: int = 64) -> tuple[Any, dict[str, jax.Array]]:
    keys = jax.random.split(jax.random.key(0), 5)
    params = {"w1": jax.random.normal(keys[0], (width, 16)) / 4, "w2": jax.random.normal(keys[1], (n, width)) / 8}
    data = {
        "obs": jax.random.normal(keys[2], (batch, 16)),
        "actions": jax.random.normal(keys[3], (batch, n)),
        "psi": jax.random.normal(keys[4], (batch, n + 1)),
    }
    return params, data


def rows() -> Iterator[Row]:
    n, batch = 1000, 256
    params, data = setting(n, batch)
    net = fx.structure.gallery.search_bandit(n)
    banded = fx.patterns.banded(n, 2)
    without = jax.jit(lambda p, d: vanilla(policy, p, **d))
    with_k = jax.jit(lambda p, d: factored(policy, p, net=net, **d))
    with_band = jax.jit(lambda p, d: factored(policy, p, net=banded, **(d | {"psi": d["psi"][:, :n]})))
    plain, ours, band = medians(
        *(lambda f=f: jax.block_until_ready(f(params, data)) for f in (without, with_k, with_band)), repeats=201
    )
    name = f"gradient of {n} factors, batch {batch}, two-layer policy"
    yield at_most(f"{name}, identity + column", ours, plain, "vanilla", 1.10)
    yield at_most(f"{name}, banded", band, plain, "vanilla", 1.10)
    params, data = setting(100, 64)
    small = fx.structure.gallery.search_bandit(100)
    scores = jax.jit(
        lambda p, d: (
            jnp.einsum(
                "sti,si->t", score_matrix(policy, p, actions=d["actions"], obs=d["obs"]), fx.credit(small, d["psi"])
            )
            / 64
        )
    )
    one_vjp = jax.jit(lambda p, d: factored(policy, p, net=small, **d))
    ours, explicit = medians(*(lambda f=f: jax.block_until_ready(f(params, data)) for f in (one_vjp, scores)))
    row = at_most("  one VJP, 100 factors, batch 64", ours, explicit, "explicit score matrix", 1.0)
    yield row
