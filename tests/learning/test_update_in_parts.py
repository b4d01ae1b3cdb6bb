"""An update as two programs, and the rollout of a CPU in several parts."""

import equinox as eqx
import jax
import numpy as np
import pytest

from factorax.learning import FactoredPPO, program
from factorax.learning.update_in_parts import UpdateInParts
from factorax.rollouts import in_jax

SIZES = {"n_envs": 16, "batch_size": 48, "n_epochs": 2, "hidden": (8,), "learning_rate": 1e-2}


def agent_arrays(state):
    return jax.tree.leaves(eqx.filter(state.agent, eqx.is_array))


@pytest.mark.parametrize(("largest", "n_steps"), [(0, 6), (in_jax.FIRST_STATES, 9)], ids=["two parts", "one program"])
def test_an_update_in_parts_is_that_of_the_learner(monkeypatch, largest, n_steps):
    monkeypatch.setattr(in_jax, "FIRST_STATES", largest)
    monkeypatch.setattr(in_jax, "available_cores", lambda: 2)
    made = []
    monkeypatch.setattr(program, "UpdateInParts", lambda *args: made.append(args) or UpdateInParts(*args))
    model = FactoredPPO("queues:2x2", n_steps=n_steps, **SIZES)
    state = model.state
    expected, metrics = eqx.filter_jit(model.learner.update)(state)
    got, reported = model.program.update(state)
    assert len(made) == (largest == 0)
    for a, b in zip(agent_arrays(expected), agent_arrays(got), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(expected.environments[1].shape, got.environments[1].shape)
    np.testing.assert_allclose(reported["train/value_loss"], metrics["train/value_loss"], rtol=1e-4)
    assert int(got.timesteps) == 16 * n_steps
