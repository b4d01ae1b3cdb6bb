"""All backends give the same batches, bit for bit, in the same order, with any number of workers."""

import pytest
from rollouts.environments import Broken, Drift, Sensitive, Sized, Spy
from rollouts.helping import assert_same, factory, inline, plan_of, play

from factorax.rollouts import InlineBackend, LostWarning, ProcessBackend

KINDS = {
    "categorical, joint": (factory(Drift, "categorical"), {}),
    "mixed, shared, masks": (factory(Drift, "mixed", masks=True), {"policy": "shared", "log_probs": True}),
    "gaussian, independent": (factory(Drift, "gaussian"), {"policy": "independent"}),
    "a lambda": (lambda: Drift("bernoulli"), {}),
}


@pytest.mark.parametrize(("kind", "workers"), [(k, w) for w, k in zip((1, 2, 3, 5), KINDS, strict=True)])
def test_processes_give_what_this_process_gives(kind, workers):
    make, settings = KINDS[kind]
    plan = plan_of(make, **settings)
    assert_same(play(ProcessBackend(plan, workers, 60.0), plan), inline(plan))


def test_lost_episodes_do_not_depend_on_workers():
    plan = plan_of(Sensitive)
    with pytest.warns(LostWarning, match="fell over the edge") as of_inline:
        want = inline(plan)
    with pytest.warns(LostWarning, match="fell over the edge") as of_processes:
        assert_same(play(ProcessBackend(plan, 2, 60.0), plan), want)
    assert [str(w.message) for w in of_inline] == [str(w.message) for w in of_processes]


def test_errors_of_environments_come_back_as_what_they_are():
    plan = plan_of(Broken)
    with pytest.raises(KeyError, match="lane 7") as caught:
        play(ProcessBackend(plan, 2, 60.0), plan)
    (note,) = caught.value.__notes__  # the first of either worker
    assert note in [f"in environment {i} (Broken), step 1 of its episode with seed {3 + i}" for i in (0, 2)]
    assert "environments.py" in str(caught.value.__cause__)  # where it arose, in the worker


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_an_observation_of_another_size_is_named(backend):
    plan = plan_of(Sized)
    rollouts = InlineBackend(plan) if backend == "inline" else ProcessBackend(plan, 1, 60.0)
    with pytest.raises(ValueError, match=r"environment 0 \(Sized\), reset .*: observation: got 6 numbers .*, want 5"):
        play(rollouts, plan)


def test_what_cannot_be_sent_is_refused():
    import threading

    lock = threading.Lock()
    plan = plan_of(lambda: Drift() if lock else None)
    with pytest.raises(ValueError, match=r"problem: cannot be sent to a worker \(cannot pickle '_thread.lock'"):
        ProcessBackend(plan, 1, 60.0)


def test_as_many_workers_as_environments_at_most():
    plan = plan_of(Drift)
    assert len(ProcessBackend(plan, 6, 60.0).workers) == 5


def test_workers_need_no_jax(tmp_path):
    """It takes longer to load than all the rest."""
    plan = plan_of(factory(Spy, str(tmp_path / "modules")))
    (tmp_path / "modules").unlink()
    play(ProcessBackend(plan, 1, 60.0), plan, 1)
    loaded = (tmp_path / "modules").read_text().split()
    assert "numpy" in loaded
    assert not {"jax", "equinox", "optax", "matplotlib"} & set(loaded)
