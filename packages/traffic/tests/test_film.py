"""Trained policies elsewhere: on another problem, as a controller, in a film."""

import jax
import numpy as np
import pytest
from factorax_traffic import LaneSimulator, Traffic, lanes
from factorax_traffic.animation import animate
from factorax_traffic.controllers import always, trained
from factorax_traffic.episode import play
from factorax_traffic.film import write_film
from PIL import Image

from factorax import runs
from factorax.learning import Config, FactoredPPO

SMALL = {"n_envs": 2, "n_steps": 20, "batch_size": 40, "n_epochs": 1, "hidden": (8,), "total_timesteps": 40}


def played(simulator, controller, key):
    """Compiled as a whole, in less time than its operations one by one."""
    return jax.jit(lambda key: play(simulator, controller, key))(key)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A shared policy on one light and another, hardly trained."""
    out = tmp_path_factory.mktemp("runs") / "shared"
    config = Config(policy="shared", learning_rate=0.1, **SMALL)
    runs.train("traffic:1x2,slots=12,horizon=60", config, out, progress_bar=False)
    return out


@pytest.mark.slow
def test_a_controller_does_what_the_policy_does(run):
    """The return of its most probable actions, by the learner's own evaluation and by an episode of the simulator."""
    model = FactoredPPO.load(run)
    simulator = LaneSimulator(Traffic(1, 2, horizon=60, speed_deviation=0.0), slots=12)
    key = jax.random.key(0)
    episode, _ = played(simulator, trained(model), key)
    same = model.on(lanes(1, 2, slots=12, horizon=60, speed_deviation=0.0))
    assert same.evaluate(1)["return"] == pytest.approx(float(episode.reward.sum()), rel=1e-5)
    draws = [trained(model, sampled=True, seed=s) for s in (0, 0, 1)]  # which differ in what they remember first
    reward = jax.jit(lambda memory: play(simulator, draws[0]._replace(memory=memory), key)[0].reward)
    drawn = [reward(controller.memory) for controller in draws]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


@pytest.mark.slow
def test_a_shared_policy_goes_to_other_sizes_and_others_do_not(run):
    model = FactoredPPO.load(run)
    moved = model.on(lanes(2, 2, slots=12, horizon=30))
    identity = moved.state.agent.policy.net.identity
    np.testing.assert_allclose(identity, np.tile(model.state.agent.policy.net.identity.mean(0), (4, 1)), rtol=1e-6)
    assert np.isfinite(moved.evaluate(1)["return"])
    joint = FactoredPPO(lanes(1, 2, slots=12), **SMALL)
    with pytest.raises(
        ValueError, match=r"got 4 factors with \d+ observed numbers for a joint policy of 2 factors with 82"
    ):
        joint.on(lanes(2, 2, slots=12))


@pytest.mark.slow
def test_gaussian_policies_go_to_other_sizes():
    model = FactoredPPO(lanes(1, 2, slots=12, action="gaussian"), policy="shared", identity=0, **SMALL)
    moved = model.on(lanes(2, 2, slots=12, horizon=30, action="gaussian"))
    np.testing.assert_allclose(moved.state.agent.policy.spread.log_std, np.full(4, np.log(0.5)), rtol=1e-6)
    assert np.isfinite(moved.evaluate(1)["return"])


@pytest.mark.slow
def test_a_film_has_a_picture_for_every_second(run, tmp_path):
    out = tmp_path / "film.gif"
    returns = write_film(["always", str(run)], out, seconds=6)
    assert set(returns) == {"always", "shared"}
    with Image.open(out) as film:
        assert film.n_frames == 6
        first, last = (np.asarray(film.seek(i) or film.convert("RGB"), int) for i in (0, 5))
    assert (np.abs(first - last).sum(axis=-1) > 100).sum() > 20  # cars have moved


@pytest.mark.slow
def test_what_is_wrong_is_said(run, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="got 'nothing', want the folder of a run or one of always"):
        write_film(["nothing"], tmp_path / "a.gif", seconds=3)
    with pytest.raises(ValueError, match="grid: got '3', want rows and columns, as in 3x3"):
        write_film(["always"], tmp_path / "a.gif", grid="3", seconds=3)
    with pytest.raises(ValueError, match=r"want a name that ends in .gif, .mp4, .html"):
        write_film(["always"], tmp_path / "a.avi", grid="1x1", seconds=3)
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_film(["always"], tmp_path / "none" / "a.gif", grid="1x1", seconds=3)
    config = Config(**SMALL)
    runs.train("contextual-bandit:2", config, tmp_path / "bandit", progress_bar=False)
    with pytest.raises(ValueError, match="is a run on contextual-bandit:2, which is not a traffic problem"):
        write_film([str(tmp_path / "bandit")], tmp_path / "a.gif", seconds=3)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(ImportError, match="mp4 needs ffmpeg: pip install imageio-ffmpeg"):
        write_film(["always"], tmp_path / "a.mp4", grid="1x1", seconds=3)
    assert [p.name for p in tmp_path.iterdir()] == ["bandit"]


@pytest.mark.slow
def test_a_film_that_fails_leaves_nothing(tmp_path):
    simulator = LaneSimulator(Traffic(1, 1, horizon=3))
    episode, states = played(simulator, always(simulator.grid), jax.random.key(0))
    broken = states._replace(place=states.place[:2])
    with pytest.raises(IndexError):
        animate(simulator.grid, {"broken": (episode, broken)}, tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []
