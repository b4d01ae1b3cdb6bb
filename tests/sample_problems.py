"""Small problems whose every expectation is a finite sum."""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from factorax import InfluenceNetwork
from factorax.gradients import joint_actions


class Finite(NamedTuple):
    """Factors of finitely many choices, random targets that follow a network, all joint actions and probabilities."""

    log_prob: object
    params: object
    actions: np.ndarray
    probabilities: np.ndarray
    psi: np.ndarray
    net: InfluenceNetwork
    lam: np.ndarray

    @property
    def samples(self):
        return {"actions": self.actions, "psi": self.psi, "weights": self.lam, "probabilities": self.probabilities}

    def objective(self, params):
        """J(θ) = Σ_a π(a) Σⱼ λⱼ ψⱼ(a)."""
        log_probs = jax.vmap(lambda a: self.log_prob(params, None, a))(self.actions)
        return jnp.exp(log_probs.sum(axis=1)) @ (self.psi @ self.lam)


@jax.jit
def independent(logits, obs, action):
    """One categorical a factor, parameters of its own: logits ``(n, choices)``."""
    return jax.nn.log_softmax(logits, axis=-1)[jnp.arange(logits.shape[0]), action]


@cache
def shared(sizes, seed):
    """Categoricals that all read the same parameter vector θ through fixed random maps: scores overlap."""
    maps = np.random.default_rng(seed).normal(size=(len(sizes), max(sizes), 5))

    @jax.jit
    def log_prob(theta, obs, action):
        return jax.nn.log_softmax(jnp.tanh(maps @ theta), axis=-1)[jnp.arange(len(sizes)), action]

    return log_prob


def targets_of(matrix, sizes, actions, seed, scale=1.0):
    """ψⱼ(σⱼ(a)) for every action: a random table over the actions that reach target j, and no others."""
    rng = np.random.default_rng(seed)
    columns = []
    for j in range(matrix.shape[1]):
        parents = np.flatnonzero(matrix[:, j])
        table = scale * rng.normal(size=[sizes[i] for i in parents]) + rng.normal()
        columns.append(table[tuple(np.asarray(actions)[:, i] for i in parents)])
    return np.stack([np.broadcast_to(column, (len(actions),)) for column in columns], axis=1)


def finite(matrix, *, sizes=None, seed=0, share=False):
    """A random problem on the influence matrix given."""
    matrix = np.asarray(matrix, dtype=bool)
    rng = np.random.default_rng(seed + 1000)
    sizes = sizes or (3,) * matrix.shape[0]
    if share:
        log_prob, params = shared(sizes, seed), rng.normal(size=5)
    else:
        log_prob, params = independent, rng.normal(size=(len(sizes), max(sizes)))
    actions, probabilities = map(np.asarray, joint_actions(log_prob, params, sizes))
    psi = targets_of(matrix, sizes, actions, seed)
    lam = rng.normal(size=matrix.shape[1])
    return Finite(log_prob, params, actions, probabilities, psi, InfluenceNetwork(matrix), lam)


FORK_COLLIDER = [[1, 1], [0, 1]]
THREE = [[1, 1, 0], [1, 1, 0], [0, 1, 1]]
CHAIN = [[1, 1, 0], [0, 1, 1], [0, 0, 1]]
BLOCKS = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]]
DIAGONAL = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
ALL = {"fork/collider": FORK_COLLIDER, "three": THREE, "chain": CHAIN, "blocks": BLOCKS, "diagonal": DIAGONAL}
