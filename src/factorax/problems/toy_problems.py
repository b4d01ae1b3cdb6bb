"""Three toy problems with known structure for examples and tests: a contextual bandit, a chain, queues on a grid."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from .._arrays import drawn
from .._checks import Count, Whole, check_each
from ..structure import InfluenceNetwork, LaggedNetwork
from ..structure.patterns import k_hop
from .problem import Problem, Step

_SIZES = dict.fromkeys(("n", "delay", "rows", "columns", "horizon"), Count) | {"hops": Whole}


def contextual_bandit(n: int = 8) -> Problem:
    """Return the problem of setting n switches to match their lights: one step per episode, K = I.

    - **Observation**: n lights, −1 or 1.
    - **Action**: ``MultiBinary(n)``.
    - **Targets**: ψᵢ = 1 if switch i agrees with light i, else 0.
    """

    check_each(_SIZES, n=n)

    def reset(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        lights = jnp.where(jax.random.bernoulli(key, shape=(n,)), 1.0, -1.0)
        return lights, lights

    def step(key: jax.Array, lights: jax.Array, action: jax.Array) -> Step:
        psi = (action == (lights > 0)).astype(jnp.float32)
        return Step(state=lights, obs=lights, psi=psi, terminated=jnp.array(True), truncated=jnp.array(False))

    return Problem(
        name="contextual-bandit",
        reset=reset,
        step=step,
        observation_space=gym.spaces.Box(-1.0, 1.0, (n,), np.float32),
        action_space=gym.spaces.MultiBinary(n),
        network=InfluenceNetwork.identity(n),
        weights=np.ones(n),
        local=lambda obs: obs[..., None],
    )


@dataclass(frozen=True, eq=False)
class Chain(Problem):
    """The problem created by `chain`, with preset networks."""

    delay: int = 3

    def influence(self, preset: str, **options: Any) -> InfluenceNetwork | LaggedNetwork:
        """Return a preset network: ``"near"`` or ``"lagged"``.

        ``"near"`` has only the edges from each action to its own target and thus misses true edges; ``"lagged"`` is the
        network of returns by lag, with all edges after `delay` steps.
        """
        if preset not in ("near", "lagged") or options:
            raise ValueError(f"network: got {preset!r}{f' with {options}' if options else ''}, want 'near' or 'lagged'")
        return InfluenceNetwork.identity(self.network.shape[0]) if preset == "near" else self._by_lag

    @cached_property
    def _by_lag(self) -> LaggedNetwork:
        return LaggedNetwork({self.delay: self.network})


def chain(n: int = 8, *, delay: int = 3, horizon: int = 20) -> Chain:
    """Return the problem of sending n parcels: what is sent now pays `delay` steps later, at its own end and at the
    next.

    Each action enters a queue of length `delay`; when it arrives, target i depends on parcels i and i − 1. No action
    therefore influences a target in the same step, and the network of *returns* is banded: aᵢ → ψᵢ, ψᵢ₊₁.

    - **Observation**: for each i the number that it should send, in (−1, 1), drawn in each step; and the remaining
      time.
    - **Action**: ``Box(n)``, the numbers that are sent.
    - **Targets**: ψᵢ = −(errorᵢ)² − ½ (errorᵢ₋₁)² of the arriving parcels.
    - **End**: truncated after `horizon` steps.
    """
    check_each(_SIZES, n=n, delay=delay, horizon=horizon)
    # Returns, not rewards: no action influences a target of its own step.
    matrix = np.eye(n, dtype=bool) | np.eye(n, k=1, dtype=bool)

    def observe(goals: jax.Array, time: jax.Array) -> jax.Array:
        return jnp.append(goals, 1.0 - time / horizon)

    def reset(key: jax.Array):
        goals = jax.random.uniform(key, (n,), minval=-1.0)
        state = {"wanted": goals, "queue": jnp.zeros((delay, n)), "time": jnp.int32(0)}
        return state, observe(goals, state["time"])

    def step(key: jax.Array, state, action: jax.Array) -> Step:
        arrived = state["queue"][0]
        queue = jnp.concatenate([state["queue"][1:], (action - state["wanted"])[None] ** 2])
        psi = -arrived - 0.5 * jnp.concatenate([jnp.zeros(1), arrived[:-1]])
        time = state["time"] + 1
        goals = jax.random.uniform(key, (n,), minval=-1.0)
        after = {"wanted": goals, "queue": queue, "time": time}
        return Step(
            state=after, obs=observe(goals, time), psi=psi, terminated=jnp.array(False), truncated=time >= horizon
        )

    return Chain(
        name="chain",
        reset=reset,
        step=step,
        observation_space=gym.spaces.Box(-1.0, 1.0, (n + 1,), np.float32),
        action_space=gym.spaces.Box(-2.0, 2.0, (n,), np.float32),
        network=InfluenceNetwork(matrix),
        weights=np.ones(n),
        local=lambda obs: jnp.stack([obs[..., :n], jnp.broadcast_to(obs[..., n:], obs[..., :n].shape)], axis=-1),
        delay=delay,
    )


def queues(rows: int = 3, columns: int = 3, *, horizon: int = 50, hops: int = 1) -> Problem:
    """Return a grid of queues, each served from one of two sides; served cars move on to the next node.

    - **Observation**: the lengths of both queues of each node, divided by 10.
    - **Action**: ``MultiDiscrete([2] * n)``, which of its two queues (from the west, from the north) each node serves.
    - **Targets**: ψᵢ = −(cars waiting at node i) / 10.
    - **End**: truncated after `horizon` steps.

    The choice of a node reaches all nodes downstream after some steps, so a K with fewer edges is an approximation;
    `hops` is the distance that the network covers.
    """
    check_each(_SIZES, rows=rows, columns=columns, horizon=horizon, hops=hops)
    n = rows * columns
    place = np.arange(n).reshape(rows, columns)
    arrivals = np.zeros((rows, columns, 2), np.float32)
    # Cars enter at the western and northern edges only.
    arrivals[:, 0, 0] = arrivals[0, :, 1] = 0.6

    def observe(cars: jax.Array) -> jax.Array:
        return cars.reshape(-1) / 10

    def reset(key: jax.Array):
        cars = drawn(jax.random.randint, key, (rows, columns, 2), 0, 5).astype(jnp.float32)
        return {"cars": cars, "time": jnp.int32(0)}, observe(cars)

    def step(key: jax.Array, state, action: jax.Array) -> Step:
        cars = state["cars"]
        serves = jax.nn.one_hot(action.reshape(rows, columns), 2)
        leaving = jnp.minimum(cars, 1.5 * serves)
        east = jnp.pad(leaving[:, :-1, 0], ((0, 0), (1, 0)))  # cars from the west continue to the east
        south = jnp.pad(leaving[:-1, :, 1], ((1, 0), (0, 0)))
        new = jax.random.bernoulli(key, arrivals).astype(jnp.float32)
        # A limit of 20 keeps observations bounded; arrivals beyond it are lost.
        cars = jnp.minimum(cars - leaving + jnp.stack([east, south], axis=-1) + new, 20.0)
        time = state["time"] + 1
        psi = -cars.sum(axis=-1).reshape(-1) / 10
        return Step(
            state={"cars": cars, "time": time},
            obs=observe(cars),
            psi=psi,
            terminated=jnp.array(False),
            truncated=time >= horizon,
        )

    def local(obs: jax.Array) -> jax.Array:
        cars = obs.reshape(*obs.shape[:-1], rows, columns, 2)
        edge = [(0, 0)] * (obs.ndim - 1)
        padded = jnp.pad(cars, [*edge, (1, 1), (1, 1), (0, 0)])
        middle, before, after = slice(1, -1), slice(None, -2), slice(2, None)
        around = [(middle, after), (after, middle), (middle, before), (before, middle)]
        views = jnp.concatenate([cars, *(padded[(..., *where, slice(None))] for where in around)], axis=-1)
        return views.reshape(*obs.shape[:-1], n, -1)

    # Imported here, because the other problems do not need it.
    import networkx as nx

    roads = nx.DiGraph()
    roads.add_nodes_from(range(n))
    for start, end in ((place[:, :-1], place[:, 1:]), (place[:-1], place[1:])):  # to the east and to the south
        roads.add_edges_from(zip(start.ravel().tolist(), end.ravel().tolist(), strict=True))
    return Problem(
        name="queues",
        reset=reset,
        step=step,
        observation_space=gym.spaces.Box(0.0, 2.0, (2 * n,), np.float32),
        action_space=gym.spaces.MultiDiscrete([2] * n),
        network=InfluenceNetwork(k_hop(roads, hops).matrix),
        weights=np.ones(n),
        local=local,
    )
