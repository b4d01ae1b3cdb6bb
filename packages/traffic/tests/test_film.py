"""Films of grids, and trained policies elsewhere: on another problem, as a controller."""

import base64
import json
import re

import jax
import numpy as np
import pytest
from factorax_traffic import LaneSimulator, Traffic, lanes
from factorax_traffic.animation import SPEED_UNIT
from factorax_traffic.controllers import always, every, trained
from factorax_traffic.drawing import Ways
from factorax_traffic.episode import play
from factorax_traffic.film import animate, encode_film, write_film
from factorax_traffic.signals import Signals, green_and_yellow
from pages import colours, serious_violations, watched
from PIL import Image

from factorax import runs
from factorax.ppo import Config, FactoredPPO

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
    joint = FactoredPPO(lanes(1, 2, slots=12), policy="joint", **SMALL)
    with pytest.raises(
        ValueError, match=r"got 4 factors with \d+ observed numbers for a joint policy of 2 factors with 82"
    ):
        joint.on(lanes(2, 2, slots=12))


@pytest.mark.slow
def test_gaussian_policies_go_to_other_sizes():
    model = FactoredPPO(lanes(1, 2, slots=12, action="gaussian"), policy="shared", **SMALL)
    moved = model.on(lanes(2, 2, slots=12, horizon=30, action="gaussian"))
    np.testing.assert_allclose(moved.state.agent.policy.spread.log_std, np.full(4, np.log(0.5)), rtol=1e-6)
    assert np.isfinite(moved.evaluate(1)["return"])


@pytest.mark.slow
def test_a_film_has_a_frame_for_every_second(run, tmp_path):
    out = tmp_path / "film.gif"
    assert set(write_film(["always", str(run)], out, seconds=6)) == {"always", "shared"}
    with Image.open(out) as film:
        assert film.n_frames == 6


@pytest.mark.slow
def test_a_film_names_the_wrong_argument(tmp_path, monkeypatch):
    runs.train("contextual-bandit:2", Config(**SMALL), tmp_path / "bandit", progress_bar=False)
    for what, name, grid, error, message in (
        ("nothing", "a.gif", "", FileNotFoundError, "what: got 'nothing'"),
        ("always", "a.gif", "3", ValueError, "grid: got '3'"),
        ("always", "a.avi", "1x1", ValueError, "out: got 'a.avi'"),
        ("always", "none/a.gif", "1x1", FileNotFoundError, "out: no folder"),
        (str(tmp_path / "bandit"), "a.gif", "", ValueError, "what: .*contextual-bandit:2"),
    ):
        with pytest.raises(error, match=message):
            write_film([what], tmp_path / name, grid=grid, seconds=3)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(ImportError, match="mp4 needs ffmpeg"):
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


SECONDS = 20


@pytest.fixture(scope="module")
def scene():
    simulator = LaneSimulator(Traffic(1, 2, horizon=SECONDS), slots=12)
    return simulator.grid, jax.tree.map(np.asarray, played(simulator, every(simulator.grid, 5), jax.random.key(0)))


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


def test_cars_and_lights_are_where_the_simulator_had_them(scene):
    grid, (episode, states) = scene
    film = encode_film(grid, {"every 5": (episode, states)})
    (packed,) = film["scenes"]
    counts = unpacked(packed["counts"], "<u2").reshape(SECONDS, grid.n_routes)
    np.testing.assert_array_equal(counts, states.cars)
    ways, ends = Ways(grid), np.cumsum(counts.ravel())
    along, speeds = unpacked(packed["along"], "<u2") * film["unit"], unpacked(packed["speeds"], np.uint8) * SPEED_UNIT
    assert len(along) == len(speeds) == ends[-1]
    for t in (0, SECONDS - 1):
        for route in range(grid.n_routes):
            end = ends[t * grid.n_routes + route]
            mine = slice(end - counts[t, route], end)
            shown = np.array(film["start"][route]) + along[mine, None] * np.array(film["ahead"][route])
            cars = slice(0, counts[t, route])
            true = ways.where(states.section[t], states.place[t])[cars, route]
            np.testing.assert_allclose(shown, true * [1, -1], atol=0.2)
            np.testing.assert_allclose(speeds[mine], states.speed[t, cars, route], atol=SPEED_UNIT)
    lights = unpacked(packed["lights"], np.uint8).reshape(SECONDS, -1)
    for t in range(SECONDS):
        signals = Signals(*(x[ways.light] for x in np.asarray(states.signals)[:, t]))
        green, yellow = green_and_yellow(signals, (ways.route >= 2 * grid.columns).astype(int))
        np.testing.assert_array_equal(lights[t], 2 * green + yellow)
    assert packed["returns"][-1] == pytest.approx(float(episode.reward.sum()), abs=0.1)


def test_the_page_needs_nothing_else_and_is_small(scene, tmp_path):
    grid, episode = scene
    animate(grid, {"</script><script>alert(1)</script>": episode}, tmp_path / "film.html", speed=7)
    page = (tmp_path / "film.html").read_text()
    assert len(page) < 60_000
    assert not re.search(r"(src|href)\s*=", page)
    assert "https://" not in page
    assert page.count("<script") == 2
    data = json.loads(re.search(r'id="film-data">(.*?)</script>', page).group(1))
    assert data["speed"] == 7
    assert data["scenes"][0]["title"] == "</script><script>alert(1)</script>"
    assert "&lt;/script&gt;" in page


@pytest.mark.browser
@pytest.mark.slow
def test_the_film_plays_pauses_and_scrubs(browser, scene, tmp_path):
    grid, episode = scene
    animate(grid, {"first": episode, "second": episode, "third": episode}, tmp_path / "film.html", speed=50)
    page = browser.new_page(viewport={"width": 390, "height": 800})
    problems = watched(page)
    page.goto((tmp_path / "film.html").as_uri())
    button = page.locator(".film-play")
    assert button.inner_text() == "Pause"  # it plays at once
    button.click()
    assert button.inner_text() == "Play"
    page.locator(".film-time").fill(str(SECONDS - 1))
    captions = page.locator(".film-caption")
    first, second = captions.all_inner_texts()
    assert first.startswith(f"first, {SECONDS} s: ")
    assert second.startswith(f"second, {SECONDS} s: ")
    page.locator(".film-choice").nth(1).select_option("2")
    assert captions.nth(1).inner_text().startswith(f"third, {SECONDS} s: ")
    assert colours(page, "canvas") > 10  # streets, lights and cars
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious_violations(page) == {}
    assert problems == []
    page.close()
