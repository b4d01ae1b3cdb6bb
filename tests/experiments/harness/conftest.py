import functools
import shutil

import jax
import pytest
from tiny_experiments import go

from factorax.experiments.harness import experiment
from factorax.experiments.harness.bandit_engine import BanditLearner

compile_again = jax.jit


@functools.cache
def _compiled(problem, *rest):
    return compile_again(BanditLearner(problem.make, *rest).advance, static_argnames="steps")


@pytest.fixture(scope="module")
def shared():
    """To compile takes longer than to run: sweeps of one problem and method share what was compiled."""

    def jit(function, **options):
        learner = getattr(function, "__self__", None)
        problem = getattr(learner.make, "__self__", None) if isinstance(learner, BanditLearner) else None
        if problem is None:
            return compile_again(function, **options)
        return _compiled(problem, learner.method, learner.tolerance, learner.measure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "jit", jit)
        yield
    _compiled.cache_clear()


@pytest.fixture(scope="module")
def finished(shared, tmp_path_factory):
    """Folders of experiments that were run once, to look at; `copied` gives one to work in."""

    @functools.cache
    def folder(name):
        out = tmp_path_factory.mktemp(name) / "new" / "folder"
        go(name, out)
        return out

    return folder


@pytest.fixture
def copied(finished, tmp_path):
    return lambda name: shutil.copytree(finished(name), tmp_path / name)


@pytest.fixture
def undrawn(monkeypatch):
    """Most of the time goes into figures."""
    monkeypatch.setattr(experiment, "_save_figure", lambda figure, out: None)
