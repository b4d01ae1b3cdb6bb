"""The search bandit with states: in each state s another point π*(s) must be found (App. D, "Implications for MDPs").

The paper treats an MDP as a set of bandits, one per state, with Cost(a) = ‖a − π*(s)‖ₚ, p ≥ 1.
"""

from typing import Any, Literal

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from factorax._checks import Count, Seed, check_each
from factorax.problems.bandits import draw_centre, search_bandit
from factorax.problems.problem import Problem, Step

_SIZES = {"n": Count, "features": Count, "seed": Seed}


def draw_targets(n: int, features: int, seed: Any = 0) -> np.ndarray:
    """Return W of π*(s) = W s, shape ``(n, features)``, scaled so that π*(s) has the variance of the bandit's
    centres."""
    return draw_centre(n * features, seed).reshape(n, features) / np.sqrt(features)


def contextual_search(n: int = 8, *, features: int = 4, norm: Literal[1, 2] = 1, seed: int = 0) -> Problem:
    """Return the problem of finding π*(s) = W s in ℝⁿ, with s drawn from N(0, I) in each episode of one step.

    - **Observation**: s, shape ``(features,)``.
    - **Action**: ``Box`` of shape ``(n,)``, unbounded.
    - **Targets**: ψᵢ = −|aᵢ − π*ᵢ(s)| / n; with `norm` 2 a single target of all actions, −‖a − π*(s)‖₂ / n.
    - **End**: every step is terminal.

    >>> contextual_search(5).network, contextual_search(5, norm=2).network.shape
    (InfluenceNetwork(5 actions → 5 targets, 5 edges, density 0.2), (5, 1))
    """
    check_each(_SIZES, n=n, features=features, seed=seed)
    matrix = jnp.asarray(draw_targets(n, features, seed), jnp.float32)
    bandit = search_bandit(np.zeros(n), norm=norm)

    def reset(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = jax.random.normal(key, (features,))
        return state, state

    def step(key: jax.Array, state: jax.Array, action: jax.Array) -> Step:
        psi = bandit.targets(action - matrix @ state)
        return Step(state=state, obs=state, psi=psi, terminated=jnp.array(True), truncated=jnp.array(False))

    return Problem(
        name="contextual-search",
        reset=reset,
        step=step,
        observation_space=gym.spaces.Box(-np.inf, np.inf, (features,), np.float32),
        action_space=gym.spaces.Box(-np.inf, np.inf, (n,), np.float32),
        network=bandit.network,
        weights=bandit.weights,
        local=lambda obs: jnp.broadcast_to(obs[..., None, :], (*obs.shape[:-1], n, features)),
    )
