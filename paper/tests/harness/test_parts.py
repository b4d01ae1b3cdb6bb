"""Parts: in order, kept when done, and stopped without loss whatever stops them."""

import io
import threading

import numpy as np
import pytest
from factorax_paper.harness import parts
from factorax_paper.harness.bandit_engine import BanditMethod
from factorax_paper.harness.parts import Part, Stopped, run_parts
from factorax_paper.harness.sweep import Job, Search, run, sweeps
from rich.console import Console

A_MINUTE = 60.0  # for what comes at once, or never


def go(todo, folder, workers=2, console=None):
    return run_parts(todo, folder, workers=workers, console=console or Console(file=io.StringIO()), title="test")


def counted(value, log=None, cost=1.0):
    """A part that gives a number back, and says so in the log."""

    def compute(progress):
        if log is not None:
            log.append(value)
        progress.tick(0.5)
        progress.tick(1.0)
        return {"value": np.array(value)}

    return Part(f"part {value}", cost, compute)


def patient(value, under_way, log):
    """A part that works until it is stopped, and has one thing left to do when it is continued."""

    def compute(progress):
        if progress.checkpoint.exists():
            log.append(f"{value} continued")
            return {"value": np.load(progress.checkpoint)["value"]}
        under_way.release()
        assert progress.stop.wait(A_MINUTE), "nobody said stop"
        np.savez(progress.checkpoint, value=value)
        raise Stopped

    return Part(f"part {value}", 1.0, compute)


def failing(error, after=None):
    """A part that fails; once `after` has been released, if given."""

    def compute(progress):
        assert after is None or after.acquire(timeout=A_MINUTE)
        raise error

    return Part("the failing one", 1.0, compute)


def values(results):
    return [result["value"].item() for result in results]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_results_come_in_order_and_the_longest_begins(workers, tmp_path):
    log, costs = [], [1, 5, 2, 4, 3]
    todo = [counted(10 * i, log, cost) for i, cost in enumerate(costs)]
    assert values(go(todo, tmp_path / "parts", workers)) == [0, 10, 20, 30, 40]
    if workers == 1:
        assert log == [10, 30, 40, 20, 0]
    assert sorted(log) == [0, 10, 20, 30, 40]
    assert names(tmp_path / "parts") == ["000.npz", "001.npz", "002.npz", "003.npz", "004.npz"]


def test_what_is_done_is_not_done_again(tmp_path):
    log = []
    todo = [counted(i, log) for i in range(4)]
    go(todo, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert values(go(todo, tmp_path)) == [0, 1, 2, 3]
    assert len(log) == 4
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "002.npz").unlink()
    assert values(go(todo, tmp_path)) == [0, 1, 2, 3]
    assert log[4:] == [2]


def test_a_failing_part_stops_the_others_and_keeps_what_is_done(tmp_path):
    log, under_way = [], threading.Semaphore(0)
    todo = [
        counted(0, log, cost=9.0),
        patient(1, under_way, log),
        failing(RuntimeError("no such luck"), after=under_way),
        *(patient(i, threading.Semaphore(0), log) for i in range(3, 8)),  # more than there are workers
    ]
    with pytest.raises(RuntimeError, match="no such luck"):
        go(todo, tmp_path, workers=3)
    kept = names(tmp_path)
    assert "000.npz" in kept
    assert "001.partial.npz" in kept
    assert not {f"{i:03d}.npz" for i in range(1, 8)} & set(kept)
    todo[2] = counted(2)
    todo[3:] = [counted(i) for i in range(3, 8)]
    assert values(go(todo, tmp_path)) == list(range(8))
    assert log == [0, "1 continued"]
    assert names(tmp_path) == [f"{i:03d}.npz" for i in range(8)]


def interrupted_once(under_way, n):
    """In place of `concurrent.futures.wait`: Ctrl-C when n parts are under way."""

    def wait(futures, return_when):
        for _ in range(n):
            assert under_way.acquire(timeout=A_MINUTE)
        raise KeyboardInterrupt

    return wait


def test_ctrl_c_lets_every_part_write_its_checkpoint(tmp_path, monkeypatch):
    log, under_way = [], threading.Semaphore(0)
    todo = [patient(i, under_way, log) for i in range(4)]
    with monkeypatch.context() as interrupted:
        interrupted.setattr(parts, "wait", interrupted_once(under_way, n=2))
        with pytest.raises(KeyboardInterrupt):
            go(todo, tmp_path, workers=2)
    kept = names(tmp_path)
    assert len(kept) >= 2
    assert all(name.endswith(".partial.npz") for name in kept)
    todo = [part if f"{i:03d}.partial.npz" in kept else counted(i) for i, part in enumerate(todo)]
    assert values(go(todo, tmp_path)) == [0, 1, 2, 3]
    assert sorted(log) == [f"{name[2]} continued" for name in kept]
    assert names(tmp_path) == ["000.npz", "001.npz", "002.npz", "003.npz"]


def no_write(*arguments, **options):
    raise OSError("no space left on device")


def half_a_write(file, **arrays):
    file.write(b"half")
    raise OSError("no space left on device")


@pytest.mark.parametrize(
    ("place", "failure"),
    [((parts, "write_whole"), no_write), ((np, "savez"), half_a_write)],
    ids=["at once", "halfway"],
)
def test_a_full_disk_leaves_no_half_file(place, failure, tmp_path, monkeypatch):
    (tmp_path / "parts").mkdir()
    np.savez(tmp_path / "parts" / "001.partial.npz", value=1)
    todo = [counted(0), patient(1, threading.Semaphore(0), [])]
    with monkeypatch.context() as broken:
        broken.setattr(*place, failure)
        with pytest.raises(OSError, match="no space left"):
            go(todo, tmp_path / "parts", workers=1)
    assert names(tmp_path / "parts") == ["001.partial.npz"]
    assert values(go(todo, tmp_path / "parts")) == [0, 1]
    assert names(tmp_path / "parts") == ["000.npz", "001.npz"]


def test_a_damaged_part_is_named(tmp_path):
    go([counted(0)], tmp_path)
    path = tmp_path / "000.npz"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"000\.npz: .*damaged"):
        go([counted(0)], tmp_path)


def test_a_sweep_as_a_part_is_the_sweep(tmp_path):
    job = Job(Search(2), BanditMethod("fpg"), (0.1,), seeds=2, steps=8, every=4)
    todo = sweeps(lambda settings: [job] * settings)(2, 5)
    assert [(part.name, part.cost) for part in todo] == [(job.name, job.cost)] * 2
    got, again = go(todo, tmp_path)
    want = run(job, 5)
    assert got.keys() == again.keys() == want.keys()
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], strict=True)
        np.testing.assert_array_equal(again[name], want[name], strict=True)
