"""What the tests of JAX environments of other packages share."""

import jax
import jax.numpy as jnp
import numpy as np

from factorax.spaces import ActionSpace

TINY = {"n_envs": 2, "n_steps": 4, "batch_size": 8, "n_epochs": 1, "hidden": (4,)}
KEY = jax.random.key(7)


def random_actions(problem, steps, seed=3):
    """Elements of the action space, in JAX arrays."""
    components = ActionSpace.of(problem.action_space)
    low, high = np.nan_to_num(components.low, neginf=-1), np.nan_to_num(components.high, posinf=1)
    rows = np.random.default_rng(seed).uniform(low, high + 0.999 * components.discrete, (steps, len(components)))
    rows = np.where(components.discrete, np.floor(rows), rows)
    return [components.to_environment(jnp.asarray(row, jnp.float32), jnp) for row in rows]


def play(problem, actions, key=KEY):
    """What the problem gives for these actions: the first observation, and every step. Ends are ignored."""
    for_reset, *keys = jax.random.split(key, len(actions) + 1)
    state, first = jax.jit(problem.reset)(for_reset)
    step, steps = jax.jit(problem.step), []
    for key, action in zip(keys, actions, strict=True):
        new = step(key, state, action)
        state = new.state
        steps.append(new)
    return first, steps


def keys_of(actions, key=KEY):
    """The keys that `play` uses: of the reset, and of the steps."""
    first, *rest = jax.random.split(key, len(actions) + 1)
    return first, rest


def same_types(problem):
    """Whether the state after a step has the structure, the shapes and the types of that after a reset."""
    (action,) = random_actions(problem, 1)
    before, _ = jax.eval_shape(problem.reset, KEY)
    after = jax.eval_shape(problem.step, KEY, before, action).state
    described = [[(x.shape, x.dtype, x.weak_type) for x in jax.tree.leaves(tree)] for tree in (before, after)]
    return jax.tree.structure(before) == jax.tree.structure(after) and described[0] == described[1]


def contains(space, element):
    """Whether a space has an element that is made of JAX arrays."""
    return space.contains(_host(space, element))


def _host(space, element):
    if isinstance(element, dict):
        return {name: _host(space[name], part) for name, part in element.items()}
    array = np.asarray(element)
    return array if array.shape else array.astype(space.dtype)[()]
