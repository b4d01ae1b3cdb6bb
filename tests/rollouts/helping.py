"""Plans and iterations for tests of all backends, without JAX, which takes long to load and to compile."""

from functools import partial
from itertools import pairwise

import numpy as np

from factorax.rollouts import Actor, Components, Inline, Iteration, Parameters, Plan

N_ENVS, N_STEPS = 5, 12
made = partial


def plan_of(make, policy="joint", **options):
    env = make()
    actor = Actor(Components.of(env.action_space), policy)
    size = env.observation_space.shape[0]
    return Plan(make, actor, N_ENVS, N_STEPS, size, 3, 3, own_local=policy != "joint", **options)


def parameters(plan, seed, hidden=8):
    """Of any policy that fits."""
    rng, policy, space = np.random.default_rng(seed), plan.actor.kind, plan.actor.components
    front = (len(space),) if policy == "independent" else ()
    sizes = {
        "joint": (plan.n_inputs, hidden, len(space) * space.width),
        "shared": (2 + 4, hidden, space.width),
        "independent": (2, hidden, space.width),
    }[policy]

    def some(*shape):
        return rng.normal(size=shape).astype(np.float32)

    return Parameters(
        tuple(some(*front, i, o) for i, o in pairwise(sizes)),
        tuple(some(*front, o) for o in sizes[1:]),
        some(len(space), 4) if policy == "shared" else None,
        some(len(space)),
        np.zeros((0, 0, 0), np.float32),
        some(plan.n_inputs),
        1 + some(plan.n_inputs) ** 2,
    )


def iterations(plan, count):
    return [Iteration(parameters(plan, k), (7, k), 3 if k == 0 else None) for k in range(count)]


def play(rollouts, plan, count=3):
    try:
        return [rollouts.collect(iteration) for iteration in iterations(plan, count)]
    finally:
        rollouts.close()


def inline(plan, count=3):
    return play(Inline(plan), plan, count)


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        for name, x, y in zip(a._fields, a, b, strict=True):
            assert (x is None) == (y is None), name
            if x is not None:
                np.testing.assert_array_equal(x, y, err_msg=name, strict=True)
