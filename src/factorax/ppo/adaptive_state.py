"""`AdaptiveStateNetwork`: a separate adaptive network for each of a few regimes of the observation.

The worthwhile edges may depend on the state: the wake of a turbine turns with the wind. One network for all states must
keep an edge that is worthwhile in some of them, or lose it there. Here each regime has its own estimates and K.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import Count, NotNegative, Range, check_function, check_type, checked, listed, real_array
from ..structure import BaseNetwork, InfluenceNetwork, KArray
from ..structure.base_network import RolloutView, TrainingSizes, refuse_critic_of_factors
from ..structure.network import as_network
from .adaptive import LARGEST, AdaptiveNetwork, EdgeEstimates, pair_gradients
from .diagnostics import Evidence, Scores


@dataclass(frozen=True, eq=False)
class AdaptiveStateNetwork(BaseNetwork):
    """An adaptive network with a separate K for each regime of the state.

          Gᵢⱼ(r) = E[1(s in r) zᵢ λⱼ Aⱼ],    and the edge i → j is worthwhile in r by the rule of `AdaptiveNetwork`

    The gradient is the sum over regimes, so bias² and noise of a regime are those of its part. Regimes that were hardly
    visited keep their initial network.

    **Arguments**

    - `initial`: the initial network of all regimes.
    - `regime`: a function from observations ``(..., d)`` to integers ``(...)`` from 0 to `regimes` − 1, written with
      `jax.numpy`. `bins` creates one.
    - `regimes`: the number of regimes. Use few: each must find its edges from its share of the samples.
    - `every`, `window`, `margin`: as in `AdaptiveNetwork`.

    >>> net = AdaptiveStateNetwork.bins(InfluenceNetwork.complete(2, 2), [0], [[0.0]])
    >>> net.regimes, net.regime(jnp.array([[-1.0, 3.0], [2.0, 3.0]]))
    (2, Array([0, 1], dtype=int32))
    """

    initial: InfluenceNetwork
    regime: Callable[[Any], Any]
    regimes: int
    every: int = 2
    window: int = 10
    margin: float = 8.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", as_network(self.initial, "initial"))
        check_function("regime", self.regime, "a function from observations (..., d) to numbers of regimes (...)")
        checked("regimes", self.regimes, Count)
        checked("every", self.every, Count)
        checked("window", self.window, Count)
        checked("margin", self.margin, NotNegative)

    @classmethod
    def bins(cls, initial: InfluenceNetwork, features: Any, edges: Any, **options: Any) -> "AdaptiveStateNetwork":
        """Create a network with one regime per combination of bins of a few features.

        - `features`: indices of features in the observation.
        - `edges`: for each feature, the increasing boundaries between its bins.
        """
        listed("features", features, "indices in the observation")
        listed("edges", edges, "a list of increasing numbers for each feature")
        places = [checked("features", each, Annotated[int, Range(0)]) for each in features]
        limits = [real_array("edges", each) for each in edges]
        if not places or len(places) != len(limits):
            raise ValueError(
                f"features, edges: got {len(places)} and {len(limits)}, want one or more features with one list of "
                "edges each"
            )
        for each in limits:
            if each.ndim != 1 or not each.size or (np.diff(each) <= 0).any():
                raise ValueError(f"edges: got {each.tolist()}, want increasing boundaries of bins, such as [-0.5, 0.5]")

        def regime(obs: Any) -> Any:
            if max(places) >= obs.shape[-1]:  # JAX would use the last entry instead
                raise ValueError(
                    f"features: got {max(places)}, want indices of the {obs.shape[-1]} entries of an observation, from "
                    f"0 to {obs.shape[-1] - 1}"
                )
            index = jnp.zeros(obs.shape[:-1], jnp.int32)
            for place, limit in zip(places, limits, strict=True):
                bin_of = jnp.searchsorted(jnp.asarray(limit, jnp.float32), obs[..., place])
                index = index * (len(limit) + 1) + bin_of.astype(jnp.int32)
            return index

        return cls(initial, regime, int(np.prod([len(each) + 1 for each in limits])), **options)

    @property
    def static(self) -> InfluenceNetwork:
        """The initial network of all regimes."""
        return self.initial

    @property
    def _rule(self) -> AdaptiveNetwork:
        return AdaptiveNetwork(self.initial, every=self.every, window=self.window, margin=self.margin)

    def check_settings(self, config: Any) -> None:
        """Raise for a critic of factors: it predicts credits, which change with the state."""
        refuse_critic_of_factors(self, config)

    def check_observations(self, obs: Any, info: Mapping[str, Any]) -> None:
        """Raise if the function does not return one regime per observation."""
        got = jax.eval_shape(self.regime, obs)
        check_type("regime", got, jax.ShapeDtypeStruct, "a function that returns one array")
        if got.shape != obs.shape[:-1] or not jnp.issubdtype(got.dtype, jnp.integer):
            raise ValueError(
                f"regime: returned {got.dtype} of shape {got.shape} for observations of shape {tuple(obs.shape)}, want "
                f"whole numbers of shape {tuple(obs.shape[:-1])}"
            )

    def init_state(self, sizes: TrainingSizes) -> EdgeEstimates:
        """Return empty estimates for each regime."""
        one = self._rule.init_state(sizes)
        if self.regimes * one.gradient.size > LARGEST:
            raise ValueError(
                f"regimes: got {self.regimes}, with estimates of {self.regimes * one.gradient.size:,} numbers, more "
                f"than {LARGEST:,}; want fewer regimes or pairs, or smaller hidden layers"
            )
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.regimes, *x.shape)), one)

    def for_rollout(self, state: Any, rollout: RolloutView) -> KArray:
        """Return K of the regime of each observation, ``[T, B, n, m]``."""
        return KArray(state.matrix[self._regime(rollout.obs)])

    def update_state(self, state: Any, evidence: Evidence) -> tuple[EdgeEstimates, dict[str, Any]]:
        """Return the estimates with one more rollout in each visited regime and, at revisions, new edges."""
        obs = evidence.rollout.obs
        regime = self._regime(obs.reshape(-1, obs.shape[-1]))
        psi = evidence.advantage * evidence.weights
        rule = self._rule

        def one(which: jax.Array, estimates: EdgeEstimates) -> EdgeEstimates:
            inside = (regime == which).astype(psi.dtype)
            scores = Scores(evidence.scores.outer * inside[:, None, None], evidence.scores.inner)
            # Centred within the regime, as advantages are over all samples: a common offset would be noise.
            mean = (psi * inside[:, None]).sum(axis=0) / jnp.maximum(inside.sum(), 1)
            gradients, noise = pair_gradients(scores, (psi - mean) * inside[:, None], evidence.n_envs)
            new = rule.revised(estimates, gradients, noise)
            # Without data, estimates would decay all the same, and a revision would follow noise.
            visited = inside.sum() > 0
            return jax.tree.map(lambda a, b: jnp.where(visited, a, b), new, estimates)

        # One after the other, so that the masked scores of only one regime take memory.
        new = jax.lax.map(lambda each: one(*each), (jnp.arange(self.regimes), state))
        share = jnp.bincount(regime, length=self.regimes) / len(regime)  # edges in use: regimes count by their visits
        edges = (new.matrix > 0).sum(axis=(1, 2))
        return new, {"network/edges": (edges * share).sum()}

    def present(self, state: Any, timesteps: int) -> InfluenceNetwork:
        """Return the union of the current edges of all regimes."""
        return self._named(np.asarray(state.matrix).max(axis=0))

    def of_regimes(self, state: EdgeEstimates) -> list[InfluenceNetwork]:
        """Return the network of each regime, given the training state ``model.state.network``."""
        check_type("state", state, EdgeEstimates, "the state of this network, model.state.network")
        return [self._named(matrix) for matrix in np.asarray(state.matrix)]

    def _named(self, matrix: np.ndarray) -> InfluenceNetwork:
        return InfluenceNetwork._derive(matrix, self.initial.actions, self.initial.targets)

    def _regime(self, obs: Any) -> Any:
        # The values of a user's function are known only inside the program, which cannot raise.
        return jnp.clip(self.regime(obs), 0, self.regimes - 1)
