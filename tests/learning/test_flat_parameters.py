import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from factorax.learning import flat_parameters
from factorax.learning.flat_parameters import FlatParameters


class Layers(eqx.Module):
    kernel: jax.Array
    bias: jax.Array
    steps: jax.Array
    name: str = eqx.field(static=True, default="layers")


def layers() -> Layers:
    return Layers(jnp.arange(6.0).reshape(2, 3), jnp.array([6.0, 7.0]), jnp.array(3))


def test_a_tree_comes_back_with_what_is_not_learnt():
    flat = FlatParameters(layers())
    np.testing.assert_array_equal(flat.vector, np.arange(8.0))
    back = flat.tree(flat.vector + 1)
    np.testing.assert_array_equal(back.kernel, 1 + np.arange(6.0).reshape(2, 3))
    assert (back.steps, back.name) == (3, "layers")


def test_adam_on_the_vector_is_adam_on_the_tree():
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.1))

    @eqx.filter_jit
    def three_steps(tree):
        learnt = eqx.filter(tree, eqx.is_inexact_array)
        state, flat = optimiser.init(learnt), FlatParameters(tree)
        vector, flat_state = flat.vector, flat.flat_state(state)
        for i in range(3):
            gradient = jax.tree.map(lambda x, i=i: jnp.sin(x + i), learnt)
            updates, state = optimiser.update(gradient, state, learnt)
            changes, flat_state = optimiser.update(FlatParameters(gradient).vector, flat_state, vector)
            learnt, vector = optax.apply_updates(learnt, updates), vector + changes
        return flat.tree(vector), learnt, flat.full_state(flat_state, state), state

    from_vector, learnt, back, state = three_steps(layers())
    np.testing.assert_allclose(from_vector.kernel, learnt.kernel, rtol=1e-6)
    assert jax.tree.structure(back) == jax.tree.structure(state)
    for ours, theirs in zip(jax.tree.leaves(back), jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_what_stays_in_its_arrays(monkeypatch: pytest.MonkeyPatch):
    assert FlatParameters.can_hold(layers())
    assert not FlatParameters.can_hold(jnp.zeros(3))  # one array is a vector already
    assert not FlatParameters.can_hold([jnp.zeros(3), jnp.zeros(3, jnp.float16)])
    monkeypatch.setattr(flat_parameters, "LARGEST", 7)
    assert not FlatParameters.can_hold(layers())
