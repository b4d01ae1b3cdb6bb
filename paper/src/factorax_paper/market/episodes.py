"""Episodes of a market in which a rule sets the quotes: optimal, closed-form, or any other."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from factorax._checks import Count, Seed, check_function, check_type, checked

from .market_problem import Market

Rule = Callable[[Any, Any], Any]
"""Maps a step and inventories ``(n,)``, as JAX arrays, to distances of bids and asks, ``(n, 2)``."""


def play(market: Market, rule: Rule, *, episodes: int = 1000, seed: int = 0) -> np.ndarray:
    """Return the sums of all targets over episodes, ``(episodes, m)``.

    >>> import jax.numpy as jnp
    >>> from factorax_paper.market import market, optimum
    >>> problem = market(volatility=0.0)
    >>> best = optimum(problem.model)
    >>> returns = play(problem, best.rule).sum(axis=1)
    >>> error = returns.std() / len(returns) ** 0.5
    >>> bool(abs(returns.mean() - best.value) < 4 * error)
    True
    """
    check_type("market", market, Market, "a market, as `market(3)` returns it")
    check_function("rule", rule, "a function of a step and inventories that returns quotes")
    checked("episodes", episodes, Count)

    def one(key: jax.Array) -> jax.Array:
        for_reset, for_steps = jax.random.split(key)
        state, _ = market.reset(for_reset)

        def step(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
            new = market.step(key, state, rule(state["time"], state["inventory"]).reshape(-1))
            return new.state, new.psi

        return jax.lax.scan(step, state, jax.random.split(for_steps, market.model.horizon))[1].sum(axis=0)

    keys = jax.random.split(jax.random.key(checked("seed", seed, Seed)), episodes)
    return np.asarray(jax.jit(jax.vmap(one))(keys))
