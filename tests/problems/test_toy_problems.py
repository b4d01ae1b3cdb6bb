"""Small problems have the shapes and the networks that they claim."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import factorax as fx
from factorax.problems import chain, contextual_bandit, queues

PROBLEMS = {
    "bandit": contextual_bandit(3),
    "chain": chain(3, delay=2, horizon=6),
    "queues": queues(2, 3, horizon=12, hops=3),
}
every = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


@every
def test_problems_keep_their_shapes(problem):
    fx.check_problem(problem, steps=20)
    n, m = problem.network.shape
    _, obs = jax.jit(problem.reset)(jax.random.key(0))
    assert obs.shape == problem.observation_space.shape
    assert problem.observation_space.contains(np.asarray(obs))
    assert problem.weights.shape == (m,)
    local = jax.eval_shape(problem.local, jnp.zeros((5, 2, len(obs))))
    assert local.shape[:-1] == (5, 2, n)


@eqx.filter_jit
def returns(problem, actions, key):
    """Undiscounted returns of every target, under fixed actions ``(T, n)`` and one noise."""
    first, *noise = jax.random.split(key, 1 + len(actions))

    def one(state, now):
        new = problem.step(now[0], state, now[1])
        return new.state, new.psi

    return jax.lax.scan(one, problem.reset(first)[0], (jnp.stack(noise), actions))[1].sum(axis=0)


def reached(problem, T=12, trials=30):
    """Which returns move when one action of the first step changes, with the other actions and the noise the same."""
    n = problem.network.shape[0]
    play = eqx.filter_vmap(returns, in_axes=(None, 0, None))
    rng, moves = np.random.default_rng(0), np.zeros(problem.network.shape, bool)
    for trial in range(trials):
        actions = np.stack([rng.integers(0, 2, (T, n))] * (n + 1))
        actions[np.arange(1, n + 1), 0, np.arange(n)] ^= 1
        got = np.asarray(play(problem, actions, jax.random.key(trial)))
        moves |= np.abs(got[1:] - got[0]) > 1e-4
    return moves


def test_problems_have_the_network_they_claim():
    bandit, chain = PROBLEMS["bandit"], PROBLEMS["chain"]
    np.testing.assert_array_equal(reached(bandit, T=1), bandit.network.to_dense())
    np.testing.assert_array_equal(reached(chain), chain.network.to_dense())


def test_cars_drive_straight_on_and_never_upstream():
    """Along their row or column; round a corner a choice is felt only by actors that see the queues."""
    moves, allowed = reached(PROBLEMS["queues"]), PROBLEMS["queues"].network.to_dense()
    assert (moves <= allowed).all()
    row, column = np.divmod(np.arange(6), 3)
    straight = (row[:, None] == row) & (column[:, None] <= column)
    straight |= (column[:, None] == column) & (row[:, None] <= row)
    np.testing.assert_array_equal(moves, straight)


def test_fewer_hops_are_fewer_edges():
    nets = [queues(2, 3, hops=h).network.to_dense() for h in range(4)]
    for near, far in itertools.pairwise(nets):
        assert (near <= far).all()
    np.testing.assert_array_equal(nets[0], np.eye(6))
    assert nets[3].sum() == 18  # a rectangle to the south-east of every node
