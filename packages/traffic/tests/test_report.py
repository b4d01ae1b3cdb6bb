"""Reports of traffic: the map, strengths of edges, the reference controller, and the film."""

import numpy as np
import pytest
from factorax_traffic.controller_scores import is_grid, scored
from factorax_traffic.drawing import layout
from pages import colours, watched
from runs.report.run_folders import write_run
from small_settings import SMALL

import factorax as fx
from factorax import runs
from factorax.ppo import Config
from factorax.ppo.named_networks import find_network
from factorax.problems import find_problem
from factorax.runs.report.contents import collect


def test_lights_and_streets_are_on_the_map():
    network = find_problem("traffic:2x3,slots=12").network
    shown = layout("traffic:2x3,slots=12", network)
    assert len(shown["actions"]) == 6
    assert len(shown["targets"]) == len(network.targets)
    assert shown["actions"][0] == [0, 0]
    assert shown["actions"][3][1] < 0  # the second row is north of the first, up on a screen
    by_light = find_problem("traffic:1x2,kind=lights").network
    assert layout("traffic:1x2,kind=lights", by_light) is None
    assert layout("chain:3", find_problem("chain:3").network) is None


def test_soft_networks_have_strengths(tmp_path):
    run = write_run(tmp_path / "run", problem="traffic:1x2", network="decay:0.5", updates=2)
    (shown,) = collect([run], play=False)["networks"]
    assert set(shown["soft"]) == {0.5, 1.0}
    assert set(np.unique(find_network(find_problem("traffic:1x2"), "decay:0.5").to_dense())) == {0, 0.5, 1}


def test_only_grids_have_controllers():
    assert all(map(is_grid, ("traffic:3x3", "traffic", "sumo:2x6,norm=fixed", "traffic:")))
    assert not any(map(is_grid, ("sumo:town.net.xml,town.rou.xml", "resco:grid4x4", "traffic.module:make")))
    assert scored("gap-out", "sumo:town.net.xml,town.rou.xml", episodes=1, seed=0) is None


@pytest.mark.slow
def test_the_verdict_names_the_controller_and_the_report_has_a_film(tmp_path):
    run = tmp_path / "run"
    config = Config(policy="shared", total_timesteps=24 * 9, **SMALL)
    runs.train("traffic:1x2,slots=12,horizon=5", config, run, progress_bar=False)
    report = collect([run])
    assert "of the controller gap-out (10 episodes)" in report["verdicts"][0]["sentences"][0]
    (film,) = report["films"]
    assert [scene["title"] for scene in film["scenes"]][1] == "gap-out"


@pytest.mark.slow
@pytest.mark.browser
def test_traffic_is_on_the_map_and_in_a_film(browser, tmp_path):
    config = Config(policy="shared", total_timesteps=24 * 9, **SMALL)
    runs.train_seeds(
        "traffic:1x2,slots=12,horizon=5", config, [tmp_path / f"seed-{k}" for k in range(2)], progress_bar=False
    )
    out = fx.report([tmp_path], tmp_path / "report.html")
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    problems = watched(page)
    page.goto(out.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    page.locator(".network-map").click()
    page.locator(".network-svg circle").first.hover()
    assert "center0 influences" in page.locator(".network-info").inner_text()
    assert page.locator(".film-canvas").count() == 2
    assert colours(page, ".film-canvas") > 10
    page.locator(".film-time").fill("60")
    assert ", 61 s: " in page.locator(".film-caption").first.inner_text()
    page.locator(".film-play").click()
    page.wait_for_function("() => Number(document.querySelector('.film-time').value) > 61")
    page.locator(".film-play").click()
    assert "controller gap-out" in page.locator("#verdict").inner_text()
    assert problems == []
    page.close()
