"""Everything that changes in training, and how it begins."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..problems.problem import Problem
from ..structure import LaggedNetwork
from . import influence
from .adaptive import Evidence
from .config import Hyper
from .networks import Critic, Policy, network
from .normalising import Running
from .ppo import Agent
from .validity import Validity

if TYPE_CHECKING:
    from .learner import Learner


class TrainState(NamedTuple):
    """Everything that changes in training: a pytree of arrays, ready to be saved."""

    agent: Agent
    optimiser: Any
    kl_coef: jax.Array
    obs: Running
    """Of observations."""
    reward: Running
    """Of discounted returns."""
    discounted: jax.Array
    """The discounted return of every episode so far, ``(B,)``."""
    environments: Any
    """Of a JAX problem; None for host environments, which have a state of their own."""
    key: jax.Array
    timesteps: jax.Array
    hyper: Hyper
    """Settings that may differ between states of one compiled program."""
    evidence: Evidence | None
    """Of an adaptive network."""
    validity: Validity | None
    """Of the edges that the network lacks; None if they are not tested."""


def begin(learner: "Learner", seed: int | jax.Array | None, hyper: Mapping[str, Any]) -> TrainState:
    """A state that has learnt nothing; see `Learner.init`."""
    c = learner.config
    unknown = hyper.keys() - set(Hyper._fields)
    if unknown:
        raise ValueError(
            f"hyper: got {', '.join(sorted(unknown))}, want some of {', '.join(Hyper._fields)}: the others shape "
            "the program, so give them to Config"
        )
    key = jax.random.key(c.seed if seed is None else seed)
    key, for_policy, for_critic, for_environments = jax.random.split(key, 4)
    agent = _agent(learner, for_policy, for_critic)
    state = learner.environments.init(for_environments) if isinstance(learner.problem, Problem) else None
    return TrainState(
        agent,
        learner.update_rule.optimiser().init(eqx.filter(agent, eqx.is_array)),
        jnp.float32(c.kl_coef or (0.2 if c.kl_target is not None else 0.0)),
        Running.of((learner.n_inputs,)),
        Running.of(()),
        jnp.zeros(c.n_envs),
        state,
        key,
        jnp.int32(0),
        jax.tree.map(jnp.float32, c.hyper._replace(**hyper)),
        *influence.nothing_known(learner, agent.policy),
    )


def _agent(learner: "Learner", for_policy: jax.Array, for_critic: jax.Array) -> Agent:
    """A policy and a critic of the shapes that settings and network want, with random weights."""
    c = learner.config
    shape = len(learner.space), learner.space.width
    seen = learner.see(jnp.zeros(learner.n_inputs)).shape[-1] if c.policy != "joint" else learner.n_inputs
    net = network(c.policy, for_policy, seen, shape, c.hidden, 0.01, identity=c.identity)
    policy = Policy(net, learner.space.spread(c.initial_log_std))
    if c.critic == "none":
        critic = None
    elif c.critic == "target":
        # By lag, what a factor can expect is not the sum of its targets' values: it has a value of its own to add.
        values = learner.n_targets + (learner.n_factors if isinstance(learner.network, LaggedNetwork) else 0)
        critic = Critic(network("joint", for_critic, learner.n_inputs, (values, 1), c.hidden, 1.0))
    elif c.estimator == "vanilla":
        critic = Critic(network("joint", for_critic, learner.n_inputs, (1, 1), c.hidden, 1.0))
    else:
        kind = c.policy if learner.factors is None else "joint"
        inputs = seen if kind != "joint" else learner.n_inputs
        shape = learner.n_factors, 1
        critic = Critic(network(kind, for_critic, inputs, shape, c.hidden, 1.0, identity=c.identity))
    return Agent(policy, critic)
