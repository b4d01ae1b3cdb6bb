"""An update as two programs, and the rollout of a CPU in several parts."""

import gc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factorax.learning import Config, FactoredPPO, program
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

    class Noted(UpdateInParts):
        def __init__(self, *args):
            made.append(args)
            super().__init__(*args)

    monkeypatch.setattr(program, "UpdateInParts", Noted)
    model = FactoredPPO("queues:2x2", n_steps=n_steps, **SIZES)
    state = model.state
    expected, metrics = eqx.filter_jit(model.learner.update)(state)
    got, reported = model.program.update(state)
    assert len(made) == (largest == 0)
    for a, b in zip(agent_arrays(expected), agent_arrays(got), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    for a, b in zip(*(jax.tree.leaves(each.environments) for each in (expected, got)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert reported.keys() == metrics.keys()
    for name in ("train/value_loss", "train/policy_gradient_loss", "rollout/ep_rew_mean"):
        np.testing.assert_allclose(reported[name], metrics[name], rtol=1e-4, atol=1e-6)
    assert int(got.timesteps) == 16 * n_steps


def in_two_parts(collect, learn):
    """An update of a state of one number, whose rollout has two parts."""
    return UpdateInParts(collect, learn, jnp.float32(2.0), Config(), None, 2)


def added(state, parts):
    return state + parts[0] + parts[1], {}


def test_parts_have_numbers_and_arrive_in_order():
    update = in_two_parts(lambda state, number: state * 10.0**number, lambda state, parts: (jnp.stack(parts), {}))
    np.testing.assert_allclose(update(jnp.float32(2.0))[0], [2.0, 20.0])


def test_settings_of_the_calling_thread_apply_to_all_parts():
    update = in_two_parts(lambda state, number: jnp.log(state - number), added)
    assert np.isnan(update(jnp.float32(0.0))[0])
    with jax.debug_nans(True), pytest.raises(Exception, match="nan"):  # not a FloatingPointError in all versions
        update(jnp.float32(0.0))


def test_threads_end_with_the_update():
    update = in_two_parts(lambda state, number: state + number, added)
    update(jnp.float32(0.0))
    threads = update._threads._threads
    assert threads
    del update
    gc.collect()
    for thread in list(threads):
        thread.join(60.0)
        assert not thread.is_alive()


def test_a_program_that_could_not_be_compiled_is_compiled_again(monkeypatch):
    monkeypatch.setattr(in_jax, "FIRST_STATES", 0)
    monkeypatch.setattr(in_jax, "available_cores", lambda: 2)
    model = FactoredPPO("queues:2x2", n_steps=3, **SIZES)  # which no other test compiles

    def fail(self, *args, **kwargs):
        raise RuntimeError("out of memory")

    state = model.state
    with monkeypatch.context() as patch:
        patch.setattr(jax.stages.Lowered, "compile", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            model.program.update(state)
    assert int(model.program.update(state)[0].timesteps) == 16 * 3
