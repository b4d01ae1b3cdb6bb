import functools
import shutil
import subprocess
import sys

import jax
import pytest
from factorax_paper.harness import experiment
from factorax_paper.harness.bandit_engine import BanditLearner
from tiny_experiments import go

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


@pytest.fixture
def resco_package(tmp_path, monkeypatch):
    """A folder with a package like sumo-rl, with two networks that stand for those of RESCO."""
    pytest.importorskip("libsumo")
    from factorax_traffic.sumo.network import program

    for name, count in (("cologne1", "2"), ("cologne3", "3")):
        folder = tmp_path / "sumo_rl" / "nets" / "RESCO" / name
        folder.mkdir(parents=True)
        command = [program("netgenerate"), "--grid", "--grid.x-number", count, "--grid.y-number", "1"]
        command += ["--grid.length", "150", "--grid.attach-length", "100", "--default-junction-type", "traffic_light"]
        command += ["-o", str(folder / f"{name}.net.xml"), "--no-warnings"]
        subprocess.run(command, check=True, capture_output=True)
        (folder / f"{name}.rou.xml").write_text(
            """<routes><flow id="a" from="left0A0" to="A0B0" begin="25200" end="25300" period="4"/>
            <flow id="b" from="bottom0A0" to="A0B0" begin="25200" end="25300" period="7"/></routes>"""
        )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path
