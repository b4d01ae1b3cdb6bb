"""Sweeps: stopped and continued without a trace, and every run the same in any job."""

import dataclasses
import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from factorax_paper.harness import sweep
from factorax_paper.harness.bandit_engine import METHODS, BanditLearner
from factorax_paper.harness.parts import Progress, Stopped
from factorax_paper.harness.sweep import MEASURES, PRETRAINING, Job, Search, run

from factorax.problems import draw_centre

VPG, VPG_S, VPG_SA, FPG, FPG_S = METHODS
PLAIN = Job(Search(6, k=2, penalty=0.5), FPG, (0.02, 0.1), seeds=3, steps=120, every=20, measure="last component")
LEARNT = dataclasses.replace(PLAIN, method=VPG_SA)
DROPPING = dataclasses.replace(PLAIN, method=VPG, step_sizes=(50.0, 0.02, 80.0, 0.01))  # two of four diverge at once
FINISHING = dataclasses.replace(PLAIN, method=FPG_S, step_sizes=(0.02, 0.1, 0.3, 0.5), tolerance=2.0)
JOBS = {"plain": PLAIN, "learnt": LEARNT, "dropping": DROPPING, "finishing": FINISHING}

replace = dataclasses.replace
compile_anew = jax.jit


@functools.cache
def _shared(problem, *rest):
    return compile_anew(BanditLearner(problem.make, *rest).advance, static_argnames="steps")


@pytest.fixture
def shared(monkeypatch):
    """To compile takes longer than to run: jobs of one problem and method share what was compiled."""

    def jit(function, **options):
        learner = getattr(function, "__self__", None)
        if not isinstance(learner, BanditLearner):
            return compile_anew(function, **options)
        return _shared(learner.make.__self__, learner.method, learner.tolerance, learner.measure)

    monkeypatch.setattr(jax, "jit", jit)


sharing = pytest.mark.usefixtures("shared")


@functools.cache
def whole(job, seed=0):
    return run(job, seed)


def stop_after(records, job, path, seed=0):
    """Run a job until it has made so many records, from those in the checkpoint."""
    stop, ticks = threading.Event(), []

    def tick(done):
        ticks.append(done)
        if round(done * job.steps / job.every) == records:
            stop.set()

    with pytest.raises(Stopped):
        run(job, seed, Progress(path, tick, stop))
    assert len(ticks) <= records
    return ticks


def assert_same(got, want):
    assert got.keys() == want.keys()
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], strict=True)


@pytest.mark.slow
@sharing
@pytest.mark.parametrize("cuts", [(1, 3), (2, 6)], ids=str)
@pytest.mark.parametrize("name", JOBS)
def test_stopped_and_continued_is_the_same_to_the_bit(name, cuts, tmp_path):
    job, path = JOBS[name], tmp_path / "state.npz"
    for before, records in zip((0, *cuts), cuts, strict=False):
        ticks = stop_after(records, job, path)
        assert len(ticks) == records - before  # nothing was done twice
    assert_same(run(job, 0, Progress(path)), whole(job))


@sharing
def test_the_checkpoint_holds_the_batch_without_what_was_dropped(tmp_path):
    stop_after(1, DROPPING, tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz") as archive:
        np.testing.assert_array_equal(archive["columns"], [1, 3])
        assert archive["runs_mu"].shape == (3, 2, 6)
        assert archive["records"].shape == (2, 6, 3, 4)


@pytest.mark.slow
@sharing
@pytest.mark.parametrize("name", JOBS)
def test_a_sweep_is_the_engine_record_by_record(name):
    job, seed = JOBS[name], 0
    learner = BanditLearner(job.problem.make, job.method, job.tolerance, MEASURES["last component"])
    advance = jax.jit(learner.advance, static_argnames="steps")
    keys = jnp.array([[seed, r] for r in range(3)], jnp.uint32)
    centres = jnp.stack([jnp.float32(draw_centre(6, [seed, r])) for r in range(3)])
    etas = jnp.float32(job.step_sizes)
    runs = learner.init(centres, len(etas))
    if job.method.baseline != "none":
        runs, _, _ = advance(runs, keys, centres, 0 * etas, 2**30, steps=PRETRAINING)
        assert not runs.mu.any()
        assert jnp.abs(runs.baseline).max() > 0.1
    for t in range(6):
        runs, gap, measure = advance(runs, keys, centres, etas, 20 * t, steps=20)
        np.testing.assert_allclose(whole(job)["gap"][t], gap, rtol=1e-5)
        np.testing.assert_allclose(whole(job)["measure"][t], measure, rtol=1e-4)
    finite = np.isfinite(gap)
    np.testing.assert_allclose(measure[finite], (runs.mu - centres[:, None])[finite][:, -1] ** 2, rtol=1e-5)
    np.testing.assert_array_equal(whole(job)["reached"], runs.reached)
    np.testing.assert_array_equal(whole(job)["step"], [20, 40, 60, 80, 100, 120])


@pytest.mark.slow
@sharing
def test_records_are_filled_to_the_end():
    diverged = whole(DROPPING)
    for name in ("gap", "measure"):
        assert (diverged[name][:, :, [0, 2]] == np.inf).all()
        assert np.isfinite(diverged[name][:, :, [1, 3]]).all()
    finished = whole(FINISHING)
    tolerance, t = FINISHING.tolerance, finished["step"][:, None, None]
    within = (finished["reached"] > 0) & (t >= finished["reached"])
    np.testing.assert_array_equal(finished["gap"] <= tolerance, within)
    for name in ("gap", "measure"):
        last = np.broadcast_to(finished[name][-1], within.shape)
        np.testing.assert_array_equal(finished[name][within], last[within])


@sharing
def test_a_job_all_of_whose_runs_diverge_ends_early(tmp_path):
    job = replace(DROPPING, step_sizes=(50.0, 80.0))
    got = run(job, 0, Progress(tmp_path / "state.npz"))
    assert (got["gap"] == np.inf).all()
    assert got["gap"].shape == (6, 3, 2)
    assert stop_after(1, job, tmp_path / "other.npz") == [1 / 6]
    ticks = []
    assert_same(run(job, 0, Progress(tmp_path / "other.npz", ticks.append)), got)
    assert ticks == [1.0]


@pytest.mark.slow
@sharing
def test_a_run_is_the_same_in_any_job():
    alone = whole(replace(DROPPING, step_sizes=(0.02, 0.01)))  # beside none that leave the batch
    for name in ("gap", "measure"):
        np.testing.assert_allclose(whole(DROPPING)[name][:, :, [1, 3]], alone[name], rtol=1e-5)
    more = whole(replace(LEARNT, step_sizes=(0.1, 0.05, 0.02), seeds=5))
    for name in ("gap", "measure"):
        np.testing.assert_allclose(more[name][:, :3, [2, 0]], whole(LEARNT)[name], rtol=1e-4)
    fewer = whole(replace(LEARNT, seeds=1))
    np.testing.assert_array_equal(fewer["gap"], whole(LEARNT)["gap"][:, :1])
    assert (np.abs(whole(LEARNT, seed=1)["gap"] - whole(LEARNT)["gap"]) > 1e-3).mean() > 0.9


@sharing
def test_how_often_records_are_made_does_not_matter():
    seldom = whole(replace(LEARNT, every=60))
    np.testing.assert_array_equal(seldom["step"], [60, 120])
    for name in ("gap", "measure"):
        np.testing.assert_allclose(seldom[name], whole(LEARNT)[name][[2, 5]], rtol=1e-4)


@sharing
@pytest.mark.parametrize(
    "other", [(replace(PLAIN, steps=240), 0), (replace(PLAIN, step_sizes=(0.1, 0.02)), 0), (PLAIN, 1)]
)
def test_the_checkpoint_of_another_job_is_refused(other, tmp_path):
    path = tmp_path / "state.npz"
    stop_after(1, PLAIN, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"state\.npz: a checkpoint of another job; remove it"):
        run(*other, Progress(path))
    assert path.read_bytes() == before


@sharing
def test_a_checkpoint_every_few_seconds_and_none_before(tmp_path, monkeypatch):
    path, done = tmp_path / "state.npz", []

    def look(_):
        if path.exists():
            with np.load(path) as archive:
                done.append(int(archive["done"]))

    monkeypatch.setattr(sweep, "_SECONDS_BETWEEN_CHECKPOINTS", float("inf"))
    run(PLAIN, 0, Progress(path, look))
    assert done == []
    monkeypatch.setattr(sweep, "_SECONDS_BETWEEN_CHECKPOINTS", -1.0)
    run(PLAIN, 0, Progress(path, look))
    assert done == [1, 2, 3, 4, 5, 6]
    ticks = []
    assert_same(run(PLAIN, 0, Progress(path, ticks.append)), whole(PLAIN))
    assert ticks == [1.0]


@dataclasses.dataclass(frozen=True)
class WronglyBest(Search):
    """Its best action is the centre, though the penalty is strong: zero is better."""

    def make(self, centre):
        return dataclasses.replace(super().make(centre), best=centre)


def test_a_wrong_best_action_is_an_error():
    """It was clipped to a gap of 0 as if by rounding."""
    job = Job(WronglyBest(3, k=3, penalty=10.0), FPG, (0.001,), seeds=2, steps=20, every=20)
    with pytest.raises(ValueError, match=r"problem: the gap of FPG n=3 k=3 .* came to -.*; want `best` of the bandit"):
        run(job, 0)
    right = run(replace(job, problem=Search(3, k=3, penalty=10.0)), 0)
    assert (right["gap"] >= 0).all()
    assert (right["gap"] > 0).any()
