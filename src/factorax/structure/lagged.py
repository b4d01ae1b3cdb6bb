"""Networks by lag: influence takes time to spread, and rewards that it cannot have reached yet are noise."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from .._checks import Whole, check_type, checked, real_array
from .._text import shown
from .base_network import BaseNetwork, RolloutCredit, RolloutView, refuse_critic_of_factors
from .closure import influences
from .factorisation import namespace
from .labels import edge_label, sizes_label
from .network import InfluenceNetwork, as_network


class LaggedNetwork(BaseNetwork):
    """Networks K[τ] of the targets that an action can have changed τ steps later, with K[0] ⊆ K[1] ⊆ ….

    The return of target j from time t on is Σ_τ γ^τ r_j(t+τ). An action at time t can only have changed the rewards at
    lag ℓᵢⱼ and later. Earlier rewards are noise for its gradient, so

        kᵢ = Σ_τ γ^τ [K[τ](λ∘r(t+τ))]ᵢ

    has the same expected gradient as the network of returns K[∞] and less variance.

    **Arguments**

    - `parts`: a dictionary from each lag to the network of the edges that start at this lag. An edge is in one part.

    >>> chain = LaggedNetwork.from_lags([[0, 2], [-1, 0]])  # action 1 reaches target 2 after two steps
    >>> chain
    LaggedNetwork(2 actions → 2 targets, 3 edges, lags 0 to 2)
    >>> chain.at(1).to_dense().astype(int), chain.returns_network.to_dense().astype(int)
    (array([[1, 0],
           [0, 1]]), array([[1, 1],
           [0, 1]]))
    """

    def __init__(self, parts: Mapping[int, InfluenceNetwork]):
        check_type("parts", parts, Mapping, "a dictionary from lags to networks")
        if not parts:
            raise ValueError("parts: got {}, want at least one lag and its network")
        for lag in parts:
            checked("parts", lag, Whole)
        self.parts: dict[int, InfluenceNetwork] = {
            int(lag): as_network(parts[lag], f"parts[{lag!r}]") for lag in sorted(parts)
        }
        first = next(iter(self.parts.values()))
        if any((net.actions, net.targets) != (first.actions, first.targets) for net in self.parts.values()):
            raise ValueError("parts: got networks of different actions or targets, want the same for all lags")
        count: Any = 0 * first.matrix.astype(int)
        for net in self.parts.values():
            count = count + net.matrix.astype(bool).astype(int)
        # An edge in two parts would be credited twice.
        if count.max() > 1:
            i, j = np.argwhere(count.toarray() > 1)[0]
            raise ValueError(
                f"parts: the edge {edge_label(first.actions[i], first.targets[j])} starts at two lags; want it only at "
                "the first one, after which it stays"
            )

    @classmethod
    def from_lags(
        cls, lags: Any, actions: Iterable[Hashable] | None = None, targets: Iterable[Hashable] | None = None
    ) -> "LaggedNetwork":
        """Create a network from a matrix ``(n, m)`` of the number of steps that influence takes; −1 means no edge."""
        matrix = real_array("lags", lags)
        if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.integer) or matrix.min(initial=0) < -1:
            raise ValueError(
                f"lags: got {shown(lags)}, {matrix.dtype} of shape {matrix.shape}, want whole numbers (n, m), "
                "−1 for no edge"
            )
        if matrix.max(initial=-1) < 0:
            raise ValueError(f"lags: got {shown(lags)}, which has no edge; want at least one entry of 0 or more")
        network = InfluenceNetwork(matrix >= 0, actions, targets)
        names = network.actions, network.targets
        return cls(
            # One lag alone may leave actions without edges, which is no reason to warn.
            {int(lag): InfluenceNetwork._derive(matrix == lag, *names) for lag in np.unique(matrix[matrix >= 0])}
        )

    @classmethod
    def over(cls, net: Any, dynamics: Any, *, local_actors: bool = True) -> "LaggedNetwork":
        """Create a network from a one-step network and a dynamics graph, with the arguments of `close_over`.

        Each change of state takes one step. Rewards depend on the current state, so an action that changes a state
        variable influences the rewards that depend on it from the next step on.

        >>> rooms = [("heat1", "temp1"), ("temp1", "temp2"), ("temp2", "bill2")]
        >>> net = InfluenceNetwork.from_edges([("heat1", "bill1"), ("heat2", "bill2")])
        >>> LaggedNetwork.over(net, rooms).lags
        array([[ 0,  2],
               [-1,  0]])
        """
        from scipy.sparse.csgraph import dijkstra  # slow to import

        net = as_network(net, "net")
        n, m = net.shape
        edges, size = influences(net, dynamics, local_actors=local_actors)
        # States change at the next step; rewards and actors read the current state.
        state_changes = {(u, v) for u, v in edges if v >= n + m or (n <= u < n + m and n <= v < n + m)}
        u, v = np.array(sorted(edges), dtype=np.int64).reshape(-1, 2).T
        takes = [float(edge in state_changes) for edge in sorted(edges)]
        steps = dijkstra(sparse.csr_array((takes, (u, v)), (size, size)), indices=np.arange(n))[:, n : n + m]
        return cls.from_lags(np.where(np.isfinite(steps), steps, -1).astype(int), net.actions, net.targets)

    @property
    def shape(self) -> tuple[int, int]:
        """``(n_actions, n_targets)``."""
        return self.returns_network.shape

    @cached_property
    def returns_network(self) -> InfluenceNetwork:
        """K[∞], the network of returns: all edges, at whatever lag they start."""
        return self.at(max(self.parts))

    @property
    def lags(self) -> np.ndarray:
        """The number of steps that influence takes, shape ``(n, m)``; −1 where there is no edge."""
        lags = np.full(self.shape, -1)
        for lag, net in self.parts.items():
            lags[net.matrix.nonzero()] = lag
        return lags

    def at(self, lag: int) -> InfluenceNetwork:
        """Return K[τ], the network of the edges that start at this lag or earlier."""
        lag = checked("lag", lag, Whole)
        nets = list(self.parts.values())
        # Before the first lag there are no edges, but the same shape.
        total = sum((net.matrix for at, net in self.parts.items() if at <= lag), start=0 * nets[0].matrix)
        return InfluenceNetwork._derive(total, nets[0].actions, nets[0].targets)

    is_fixed = True
    for_credit = (
        "a network with one K. For rewards that come lag steps after the actions, use credit(net.at(lag), psi) times "
        "gamma**lag and sum over the lags. For returns, use credit(net.returns_network, psi), which is unbiased but "
        "has more variance. FactoredPPO(problem, net) does the former"
    )

    @property
    def static(self) -> InfluenceNetwork:
        """K[∞], the network of returns."""
        return self.returns_network

    @property
    def n_factor_values(self) -> int:
        """One per factor, because the expected credit of a factor is not the sum of the values of its targets."""
        return self.shape[0]

    def check_settings(self, config: Any) -> None:
        """Raise for critics of factors and for variance reports: credits are built from returns that start later."""
        refuse_critic_of_factors(self, config)
        if config.variance_report:
            raise ValueError(
                "variance_report: got True with a LaggedNetwork, want an InfluenceNetwork, such as its returns_network"
            )

    def for_rollout(self, state: Any, rollout: RolloutView) -> "LaggedNetwork":
        """Return this network, which `credit_rollout` applies."""
        return self

    def credit_rollout(self, k: Any, estimates: Any, apply: Callable[[Any, Any], Any]) -> RolloutCredit:
        """Return uᵢ(t) = Σⱼ λⱼ γ^ℓ Rⱼ(t + ℓ) minus its baseline, with ℓ = ℓᵢⱼ the lag of the edge.

        If all returns are of whole episodes (γ-discounted, λ = 1), uᵢ is Σ_τ γ^τ [K[τ](λ∘r(t+τ))]ᵢ. The baseline is the
        critic's prediction for all targets plus the value of the factor, which the critic learns in addition.

        uᵢ is a return, not a sum of TD errors over the same K[τ]. Such a sum would be wrong: γ v(s') − v(s)
        telescopes, so errors before the lag contain what the critic already knows of the coming change. With an exact
        critic they contain all of it.
        """
        parts = zip(self.parts.values(), estimates.returns_from(self.parts), strict=True)
        credits = [apply(net, later) for net, later in parts]
        total = sum(credits[1:], start=credits[0])
        value, returns, factor_value = estimates.value, estimates.returns, estimates.factor_value
        if factor_value is None:
            return RolloutCredit(total, value, returns)
        xp = namespace(value)
        # minus rewards that come too early to be an effect of the action
        early = total - apply(self.returns_network, value)
        value, returns = xp.concat([value, factor_value], axis=-1), xp.concat([returns, early], axis=-1)
        return RolloutCredit(early - factor_value, value, returns)

    def __repr__(self) -> str:
        n, m = self.shape
        first, last = min(self.parts), max(self.parts)
        return f"LaggedNetwork({sizes_label(n, m, self.returns_network.n_edges)}, lags {first} to {last})"
