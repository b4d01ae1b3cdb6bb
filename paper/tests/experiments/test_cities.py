"""Cities: which trainings there are, and what is said of their delays."""

import json

import numpy as np
import pytest
from factorax_paper.experiments import find
from factorax_paper.experiments.cities import (
    CONTROLLERS,
    GLOBAL,
    NEAR,
    PUBLISHED,
    TARGETS,
    Settings,
    cities_played,
    claims,
    plan,
    summarise,
    tabulate,
)
from factorax_paper.harness.experiment import reproduce

from factorax.ppo.presets import read_preset

EXPERIMENT = find("cities")
SMALL = Settings(("cologne3", "cologne8"), episodes=(4, 4), seeds=3, evaluations=2, evaluation_seeds=3)


def outcome(delays, settings=SMALL, moved=18.0):
    """Results of trainings that end with these delays, by city and method, half a second more with every seed."""
    results = []
    for run in plan(settings, 0):
        delay = delays[run.city, run.method] + run.seed / 2
        shape = settings.evaluations, settings.played
        results.append(
            {
                "training": np.linspace(100, delay, run.episodes),
                "episode": np.arange(run.episodes - settings.evaluations, run.episodes) + 1,
                "delays": np.full(shape, delay),
                "moved": np.full(settings.evaluation_seeds * bool(run.moved_to), moved),
            }
        )
    for _ in cities_played(settings):
        delays_of = [np.full(settings.evaluation_seeds, 20.0 + 10 * i) for i in range(len(CONTROLLERS))]
        results.append({"delays": np.array(delays_of)})
    return tabulate(settings, 0, results)


GOOD = {
    ("cologne3", NEAR): 15.0,
    ("cologne3", GLOBAL): 19.0,
    ("cologne8", NEAR): 14.0,
    ("cologne8", GLOBAL): 18.0,
}


def test_the_paper_budget_is_that_of_the_study():
    paper = EXPERIMENT.budgets["paper"]
    assert (paper.seeds, paper.evaluations, paper.evaluation_seeds) == (5, 10, 10)
    assert len(paper.episodes) == 4
    assert max(paper.episodes) <= 400
    assert set(paper.cities) == TARGETS.keys() == PUBLISHED.keys()
    runs = plan(paper, 1)
    assert len({run.name for run in runs}) == len(runs) == (4 * 2 - 1) * 5
    assert {run.seed for run in runs} == {5, 6, 7, 8, 9}
    assert [(run.city, run.method) for run in runs if run.moved_to == "cologne8"] == [("cologne3", NEAR)] * 5
    assert {run.method for run in runs if run.city == "cologne1"} == {NEAR}
    assert "identity" not in str(read_preset("resco").config.policy)  # so that policies can move
    assert all("policy" not in run.settings for run in runs if run.moved_to)
    assert {run.city: (run.settings, run.environment) for run in runs} == {
        "cologne1": ({}, {}),
        "cologne3": ({}, {}),
        "cologne8": ({"policy": "shared,identity=4"}, {}),
        "grid4x4": ({"gamma": 0.87}, {"turns": False, "all_red": 0}),
    }


def test_all_claims_hold():
    summary = summarise(SMALL, outcome(GOOD))
    near = summary["cities"]["cologne8"]["methods"][NEAR]
    assert near["seeds"] == [14.0, 14.5, 15.0]
    assert near["delay"]["mean"] == pytest.approx(14.5)
    assert summary["cities"]["cologne8"]["near less global"]["mean"] == pytest.approx(-4.0)
    made = claims(SMALL, summary)
    assert [claim.verdict for claim in made] == ["holds"] * 3
    json.dumps(summary, allow_nan=False)


def test_one_episode_in_gridlock_is_enough():
    table = outcome(GOOD)
    place = np.flatnonzero((table["city"] == "cologne3") & (table["kind"] == "evaluation") & (table["method"] == NEAR))
    table["delay"][place[0]] = 101.0
    summary = summarise(SMALL, table)
    row = summary["cities"]["cologne3"]["methods"][NEAR]
    assert (row["gridlock"], row["worst"], row["played"]) == (1, 101.0, 18)
    assert claims(SMALL, summary)[0].verdict == "holds in part"


def test_what_does_not_hold():
    bad = GOOD | {(city, NEAR): 30.0 for city in SMALL.cities}
    verdicts = [claim.verdict for claim in claims(SMALL, summarise(SMALL, outcome(bad, moved=25.0)))]
    assert verdicts == ["does not hold"] * 3


def test_one_seed_has_no_interval():
    one = Settings(("cologne8",), transfer=(), episodes=(4,), seeds=1, evaluations=2, evaluation_seeds=3)
    summary = summarise(one, outcome(GOOD, one))
    assert summary["cities"]["cologne8"]["near less global"] == {"mean": -4.0, "low": None, "high": None}
    made = claims(one, summary)
    assert [claim.verdict for claim in made] == ["holds", "does not hold"]
    assert "14.0 (one seed)" in made[0].ours


def test_without_sumo_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("factorax_paper.harness.city_parts.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="SUMO is not installed, want libsumo; pip install"):
        reproduce(EXPERIMENT, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
