"""One dealer who quotes bid and ask prices on n assets, as a JAX problem."""

from dataclasses import dataclass, fields
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from factorax._checks import check_options
from factorax._text import shown
from factorax.problems.problem import Problem, Step
from factorax.structure import Factorisation, InfluenceNetwork

from .model import MarketModel

_PRESETS = ("singletons", "minimum", "joint")
_NO_MODEL: Any = None


@dataclass(frozen=True, eq=False)
class Market(Problem):
    """The problem created by `market`, with its parameters and factorisations."""

    model: MarketModel = _NO_MODEL

    def influence(self, preset: str, **options: Any) -> InfluenceNetwork:
        """Return the network of the problem with one of three factorisations of the policy.

        - ``"singletons"``: each quote is a factor (2n factors), as in the problem itself;
        - ``"minimum"``: bid and ask of an asset form one factor (n factors), the minimum factorisation (Def. 4.2);
        - ``"joint"``: all quotes form one factor.
        """
        if preset not in _PRESETS or options:
            raise ValueError(
                f"network: got {shown(preset)}{f' with {options}' if options else ''}, want 'singletons', 'minimum' or "
                "'joint'"
            )
        if preset == "singletons":
            return self.network
        joint = Factorisation([range(2 * self.model.n)], 2 * self.model.n)
        return self.network.factor(self.network.minimum_factorisation() if preset == "minimum" else joint)


def market(n: int = 1, **settings: Any) -> Market:
    """Return the problem of a dealer who quotes bid and ask on n assets: Avellaneda and Stoikov (2008) in discrete
    time.

    The dealer earns the distance of its quotes from the mid price whenever they are filled, and is penalised for
    inventory: distant quotes earn more and are filled less often, and the inventory is controlled by quoting closer on
    one side. `settings` are those of `MarketModel`; Δ is its `step`.

    - **Observation**: the remaining fraction of time, and the inventories qᵢ / Q, ``(1 + n,)``. Prices are not
      observed: their changes cannot be predicted, and nothing else depends on them.
    - **Action**: ``Box(2n)``, the distances from the mid price of bid 1, ask 1, bid 2, ask 2, …
    - **Dynamics** of a step: each quote is filled, for one unit, with probability 1 − exp(−Λᵢ(δ) Δ), independently;
      then mid prices change by Gaussians of covariance Σ Δ, while the dealer holds its new inventory. A bid on an
      asset with qᵢ = Q, and an ask with qᵢ = −Q, is not filled.
    - **Targets**: ``profit i``, the earned distances and the change in value of the inventory, together the change of
      wealth; ``penalty i``, −φᵢ qᵢ² Δ, and −αᵢ qᵢ² in the last step; with `risk_aversion` γ > 0 also ``portfolio``,
      −½ γ qᵀΣq Δ.
    - **Influence**: both quotes of an asset influence its profit and penalty, and the portfolio. Quotes change only
      their own inventory, on which only these targets depend, so this is also the network of returns, if each quote
      depends only on its own inventory. A quote that depends on other inventories (in a joint policy, or any policy
      with `risk_aversion`) reacts to other quotes, and the resulting change of its later targets is neglected.
    - **Local observation** of a quote: the remaining fraction of time, and ±qᵢ / Q, with − for asks; with
      `risk_aversion` also ±(Σq)ᵢ. The model is symmetric under exchange of bids and asks with a change of sign of the
      inventories, so one function serves both.
    - **End**: terminated after `horizon` steps; the value after it is 0.

    The probability of a fill is that of at least one arrival within the step at constant intensity. In continuous time
    a quote could be filled several times, and change after the first fill. As Δ → 0 the values agree (`optimum` and
    `continuous_values`); with the default of 0.2 the optimal value is 6 % below that in continuous time.

    >>> market(2).network
    InfluenceNetwork(4 actions → 4 targets, 8 edges, density 0.5)
    """
    check_options(settings, [each.name for each in fields(MarketModel) if each.init], "market")
    model = MarketModel(n, **settings)
    dealer = _Dealer(model)
    box = gym.spaces.Box(model.lowest_quote, model.highest_quote, (2 * n,), np.float32)
    network = _network(model)
    return Market(
        name=f"market-{n}",
        reset=dealer.reset,
        step=dealer.trade,
        observation_space=gym.spaces.Box(-1.0, 1.0, (1 + n,), np.float32),
        action_space=box,
        network=network,
        weights=np.ones(network.shape[1]),
        local=dealer.local,
        model=model,
    )


def _network(model: MarketModel) -> InfluenceNetwork:
    """Return the network from quotes to targets."""
    asset_of = np.repeat(np.arange(model.n), 2)
    columns = [asset_of, model.n + asset_of]
    if model.has_portfolio_term:
        columns.append(np.full(2 * model.n, 2 * model.n))
    rows, m = np.arange(2 * model.n), 2 * model.n + model.has_portfolio_term
    index = np.tile(rows, len(columns)), np.concatenate(columns)
    matrix = sparse.csr_array((np.ones(len(index[0]), bool), index), (2 * model.n, m))
    names = range(1, model.n + 1)
    actions = [f"{side} {i}" for i in names for side in ("bid", "ask")]
    targets = [f"{kind} {i}" for kind in ("profit", "penalty") for i in names]
    return InfluenceNetwork(matrix, actions, targets + ["portfolio"] * model.has_portfolio_term)


class _Dealer:
    """The functions of a market: `reset`, `trade` (its step), and `local`."""

    def __init__(self, model: MarketModel):
        self.model = model
        root = np.diag(model.volatility)
        if np.count_nonzero(model.covariance - np.diag(np.diag(model.covariance))):
            values, vectors = np.linalg.eigh(model.covariance)
            root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        self.root = np.asarray(root, np.float32)  # Σ^½
        self.is_diagonal = not np.count_nonzero(root - np.diag(np.diag(root)))

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """Return a state without inventory and cash; prices are relative to their start."""
        zeros = jnp.zeros(self.model.n)
        state = {"inventory": zeros.astype(jnp.int32), "cash": zeros, "price": zeros, "time": jnp.int32(0)}
        return state, self.observe(state)

    def observe(self, state: Any) -> jax.Array:
        """Return the observation of the dealer, ``(1 + n,)``."""
        time_left = 1.0 - state["time"] / self.model.horizon
        return jnp.concatenate([time_left[None], state["inventory"] / self.model.largest_inventory])

    def trade(self, key: jax.Array, state: Any, quotes: jax.Array) -> Step:
        """Simulate one step: fills at the quoted prices, then new mid prices."""
        model, before = self.model, state["inventory"]
        for_fills, for_prices = jax.random.split(key)
        distance = quotes.reshape(model.n, 2)
        rate = model.intensity[:, None] * jnp.exp(-model.decay[:, None] * distance)
        may_fill = jnp.stack([before < model.largest_inventory, before > -model.largest_inventory], axis=-1)
        fills = (jax.random.uniform(for_fills, (model.n, 2)) < -jnp.expm1(-rate * model.step)) & may_fill
        bid, ask = fills[:, 0], fills[:, 1]
        inventory = before + bid - ask
        noise = jax.random.normal(for_prices, (model.n,)) * model.step**0.5
        change = jnp.diag(self.root) * noise if self.is_diagonal else self.root @ noise
        price, time = state["price"], state["time"] + 1
        sides = jnp.array([-1.0, 1.0])  # a bid pays, an ask receives
        cash = state["cash"] + (fills * (sides * price[:, None] + distance)).sum(axis=-1)
        profit = (fills * distance).sum(axis=-1) + inventory * change
        last = time >= model.horizon
        weight = model.running_penalty * model.step + last * model.terminal_penalty
        psi = [profit, -weight * inventory**2]
        if model.has_portfolio_term:
            risk = inventory @ jnp.asarray(model.covariance, jnp.float32) @ inventory
            psi.append(-0.5 * model.risk_aversion * model.step * risk[None])
        following = {"inventory": inventory, "cash": cash, "price": price + change, "time": time}
        return Step(
            state=following,
            obs=self.observe(following),
            psi=jnp.concatenate(psi),
            terminated=last,
            truncated=jnp.array(False),
        )

    def local(self, obs: jax.Array) -> jax.Array:
        """Return the local observation of each quote, ``(..., 2n, 2)``, or ``(..., 2n, 3)`` with a portfolio term."""
        inventory = obs[..., 1:]
        mine = [inventory]
        if self.model.has_portfolio_term:
            norm = np.linalg.norm(self.model.covariance, axis=1)
            mine.append(inventory @ np.asarray(self.model.covariance / np.where(norm > 0, norm, 1), np.float32))
        rows = jnp.repeat(jnp.stack(mine, axis=-1), 2, axis=-2)
        rows = rows * jnp.tile(jnp.array([1.0, -1.0]), self.model.n)[:, None]
        time_left = jnp.broadcast_to(obs[..., :1, None], (*rows.shape[:-1], 1))
        return jnp.concatenate([time_left, rows], axis=-1)
