"""States of several seeds as one, and taken apart again."""

import equinox as eqx
import jax
import numpy as np
import pytest

from factorax.learning import FactoredPPO, devices
from factorax.learning.stacked_states import apart, stacked

SIZES = {"n_envs": 4, "n_steps": 8, "batch_size": 16, "n_epochs": 1, "hidden": (8,)}


def arrays(state):
    leaves = jax.tree.leaves(eqx.filter(state, eqx.is_array))
    is_key = lambda x: jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    return [np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in leaves]


def test_states_are_stacked_and_taken_apart():
    model = FactoredPPO("chain:4", **SIZES)
    states = [model.learner.init(seed) for seed in (1, 2)]
    together = stacked(states)
    assert all(x.shape[0] == 2 for x in arrays(together))
    for before, after in zip(states, apart(together, 2), strict=True):
        assert jax.tree.structure(before) == jax.tree.structure(after)
        for a, b in zip(arrays(before), arrays(after), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("prepare", [False, True])
def test_one_program_makes_the_states_of_all_seeds(monkeypatch, prepare):
    monkeypatch.setattr(devices, "saves_launches", lambda config, mesh: True)
    program, seeds = FactoredPPO("chain:4", **SIZES).program, (3, 4)
    states = program.init_seeds(seeds, prepare=prepare)
    assert states is not None
    assert len(program._updates) == prepare
    updated, metrics = program.update_seeds(states)  # by programs for these shapes, whether or not they were prepared
    assert updated.timesteps.tolist() == [32, 32]
    assert np.isfinite(metrics["train/loss"]).all()
    for seed, state in zip(seeds, apart(states, 2), strict=True):
        for a, b in zip(arrays(program.init(seed)), arrays(state), strict=True):
            np.testing.assert_array_equal(a, b)


def test_on_a_cpu_every_seed_has_its_own_state():
    assert FactoredPPO("chain:4", **SIZES).program.init_seeds([0, 1]) is None
