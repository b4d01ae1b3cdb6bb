"""Plans and iterations for tests of all backends, without JAX, which takes long to load and to compile."""

from functools import partial
from itertools import pairwise

import numpy as np

from factorax.rollouts import InlineBackend, Iteration, NumpyPolicy, Plan, PolicyArrays
from factorax.spaces import ActionSpace

N_ENVS, N_STEPS = 5, 12
factory = partial


def plan_of(make, policy="joint", **options):
    env = make()
    return Plan(
        make=make,
        policy=NumpyPolicy(ActionSpace.of(env.action_space), policy),
        n_envs=N_ENVS,
        n_steps=N_STEPS,
        n_inputs=env.observation_space.shape[0],
        n_factors=3,
        n_targets=3,
        own_local=policy != "joint",
        **options,
    )


def parameters(plan, seed, hidden=8):
    """Random parameters of a policy that fits the plan."""
    rng, policy, space = np.random.default_rng(seed), plan.policy.kind, plan.policy.space
    front = (len(space),) if policy == "independent" else ()
    sizes = {
        "joint": (plan.n_inputs, hidden, len(space) * space.width),
        "shared": (2 + 4, hidden, space.width),
        "independent": (2, hidden, space.width),
    }[policy]

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    return PolicyArrays(
        kernels=tuple(normal(*front, i, o) for i, o in pairwise(sizes)),
        biases=tuple(normal(*front, o) for o in sizes[1:]),
        identity=normal(len(space), 4) if policy == "shared" else None,
        log_std=normal(len(space)),
        mixing=np.zeros((0, 0, 0), np.float32),
        centre=normal(plan.n_inputs),
        scale=1 + normal(plan.n_inputs) ** 2,
    )


def iterations(plan, count):
    return [Iteration(parameters(plan, k), (7, k), 3 if k == 0 else None) for k in range(count)]


def play(rollouts, plan, count=3):
    try:
        return [rollouts.collect(iteration) for iteration in iterations(plan, count)]
    finally:
        rollouts.close()


def inline(plan, count=3):
    return play(InlineBackend(plan), plan, count)


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        for name, x, y in zip(a._fields, a, b, strict=True):
            assert (x is None) == (y is None), name
            if x is not None:
                np.testing.assert_array_equal(x, y, err_msg=name, strict=True)
