"""Experiments that are stopped, and how they continue."""

import dataclasses
import threading

import pytest
from factorax_paper.experiments import find
from factorax_paper.harness import experiment, parts
from tiny_experiments import (
    A_MINUTE,
    DETERMINED,
    contents,
    go,
)

pytestmark = pytest.mark.usefixtures("shared")


def observed(name, under_way=None):
    """The parts of an experiment, and the fractions that each has told; they wait at half-time to be stopped."""
    told = {}

    def watched(index, part):
        def compute(progress):
            def tell(fraction):
                progress.report(fraction)
                told.setdefault(index, []).append(fraction)
                if under_way and fraction >= 0.5:
                    under_way.release()
                    assert progress.stop.wait(A_MINUTE)

            return part.compute(dataclasses.replace(progress, report=tell))

        return dataclasses.replace(part, compute=compute)

    make = find(name).parts
    return told, lambda settings, seed: [watched(i, part) for i, part in enumerate(make(settings, seed))]


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", DETERMINED)
def test_stopped_and_continued_leaves_no_trace(name, finished, tmp_path, monkeypatch):
    out, under_way = tmp_path / "out", threading.Semaphore(0)

    def ctrl_c(futures, return_when):
        assert under_way.acquire(timeout=A_MINUTE)
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(parts, "wait", ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            go(name, out, parts=observed(name, under_way)[1])
    assert not (out / "data.csv").exists()
    kept = {path.name for path in (out / "parts").iterdir()}
    assert kept or name == "variance-decomposition"  # which is short, and restarts its parts
    told, watched = observed(name)
    go(name, out, parts=watched)
    assert told
    for index, fractions in told.items():
        assert f"{index:03d}.npz" not in kept
        assert (fractions[0] > 0.25) == (f"{index:03d}.partial.npz" in kept)
    assert (out / "data.csv").read_bytes() == (finished(name) / "data.csv").read_bytes()
    assert not (out / "parts").exists()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("no space left on device")], ids=repr)
def test_what_is_computed_is_not_lost_when_the_data_cannot_be_written(error, finished, tmp_path, monkeypatch):
    def fail(path, table):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(experiment, "write_csv", fail)
        with pytest.raises(type(error)):
            go("search-aliasing", tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == ["config.json", "parts/000.npz", "parts/001.npz"]
    told, watched = observed("search-aliasing")
    go("search-aliasing", tmp_path / "out", parts=watched)
    assert not told
    assert (tmp_path / "out" / "data.csv").read_bytes() == (finished("search-aliasing") / "data.csv").read_bytes()
