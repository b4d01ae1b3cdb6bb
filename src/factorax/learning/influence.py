"""Networks in training: which K counts in an update, and what a rollout tells of it."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..rollouts import Transition
from ..structure import Blend, InfluenceNetwork, KArray, LaggedNetwork, NetworkSchedule, StateNetwork
from . import adaptive, validity
from .adaptive import AdaptiveNetwork, Evidence
from .config import Config
from .networks import Policy
from .ppo import Batch
from .validity import Validity

if TYPE_CHECKING:
    from .learner import Learner
    from .state import TrainState

AnyNetwork = InfluenceNetwork | NetworkSchedule | StateNetwork | LaggedNetwork | AdaptiveNetwork
"""What may say which factor influences which target; all but the first have a `start` with their shape and names."""


def named(network: Any, own: InfluenceNetwork) -> Any:
    """What was given, or if nothing was the problem's own; ``"adaptive"`` begins with all edges."""
    if network is None:
        return own
    if not isinstance(network, str):
        return network
    if network != "adaptive":
        raise ValueError(
            f"network: got {network!r}, want 'adaptive', or a network itself (InfluenceNetwork.load reads)"
        )
    every = InfluenceNetwork._derive(np.ones(own.shape, bool), own.actions, own.targets)
    return AdaptiveNetwork(every)


def start_of(network: Any) -> InfluenceNetwork:
    """The network itself, or that which one that varies begins with."""
    if not isinstance(network, AnyNetwork):
        raise TypeError(
            f"network: got {type(network).__name__}, want an InfluenceNetwork, or one that varies: a NetworkSchedule, "
            "a StateNetwork, a LaggedNetwork or an AdaptiveNetwork"
        )
    return network if isinstance(network, InfluenceNetwork) else network.start


def check(network: AnyNetwork, config: Config) -> None:
    """Raise if settings do not fit this kind of network."""
    if isinstance(network, StateNetwork | LaggedNetwork) and config.critic == "factor":
        raise ValueError(
            f"critic: got 'factor' with a {type(network).__name__}, whose credits are not those of one step after the "
            "other; want critic='target', or 'none'"
        )
    if isinstance(network, LaggedNetwork) and config.variance_report:
        raise ValueError(
            "variance_report: got True with a LaggedNetwork, want an InfluenceNetwork, such as the network's start"
        )


def nothing_known(learner: "Learner", policy: Policy) -> tuple[Evidence | None, Validity | None]:
    """What a state that has learnt nothing knows of the network: for an adaptive one, and for one to be tested."""
    network = learner.network
    obs = jnp.zeros((1, learner.n_inputs))
    width = 1 + jax.eval_shape(policy.net.features, obs, learner.see(obs)).shape[-1]
    if isinstance(network, AdaptiveNetwork):
        if learner.factors is not None:
            raise ValueError("network: adaptive wants a row for each component of the action space, got a factored one")
        return network.init(learner.space.width * width), None
    fixed = isinstance(network, InfluenceNetwork | LaggedNetwork) and learner.network_at_start.density < 1
    if not fixed or not learner.config.check_network or learner.config.estimator != "factored":
        return None, None
    return None, Validity.none(len(learner.space), width, learner.n_targets)


def network_now(
    learner: "Learner", state: "TrainState", seen: Transition
) -> InfluenceNetwork | Blend | KArray | LaggedNetwork:
    """The network that counts for this rollout."""
    network = learner.network
    if isinstance(network, NetworkSchedule):
        return network.at(state.timesteps)
    if isinstance(network, StateNetwork):
        info = {name: seen.obs[..., start:end] for name, start, end in learner.observed_info}
        return network.at(seen.obs, info if seen.factor_mask is None else info | {"factor_mask": seen.factor_mask})
    if isinstance(network, AdaptiveNetwork):
        assert state.evidence is not None
        return KArray(state.evidence.weights)  # of earlier rollouts: what chooses edges is not what they are used on
    return network


def watch(
    learner: "Learner", state: "TrainState", batch: Batch
) -> tuple[Evidence | None, Validity | None, dict[str, jax.Array]]:
    """What this rollout tells of the network: of the edges of an adaptive one, and of those that a fixed one lacks."""
    evidence, found, rule = state.evidence, state.validity, learner.update_rule
    if evidence is None and found is None:
        return None, None, {}
    scores, advantage = rule.pairs(state.agent, batch, state.hyper)
    if found is not None:
        return None, found.seen(rule.location(scores), scores.inner, advantage), {}
    assert evidence is not None
    assert isinstance(learner.network, AdaptiveNetwork)
    gradients = adaptive.pair_gradients(scores, advantage * learner.weights, learner.config.n_envs)
    new = adaptive.seen(learner.network, evidence, *gradients)
    changed = jnp.sign(new.weights) - jnp.sign(evidence.weights)
    return new, None, {"network/edges": (new.weights > 0).sum(), "network/changed": changed}


def present(learner: "Learner", state: "TrainState") -> InfluenceNetwork:
    """The network as it is now; of one that depends on state or lag, all edges that it may have."""
    network, start = learner.network, learner.network_at_start
    if isinstance(network, NetworkSchedule):
        return network.at(int(state.timesteps)).network()
    if state.evidence is not None:
        return InfluenceNetwork._derive(np.asarray(state.evidence.weights), start.actions, start.targets)
    return start


def warn_if_edges_are_missing(learner: "Learner", found: Validity | None, rollouts: int) -> bool:
    """At some rollouts: do the data say that the network lacks edges? If so warn; tells whether it did."""
    number = validity.look(rollouts)
    if found is None or not number:
        return False
    factors = learner.factors
    edges = learner.network_at_start.to_dense() > 0
    pairs = validity.missing(found, edges if factors is None else edges[factors], number)
    if pairs:
        validity.warn_of_missing(pairs, learner.network_at_start, factors)
    return bool(pairs)
