"""The comparison of relatives: equal trials for all, tuning seeds apart from reported ones, and honest verdicts."""

import json

import numpy as np
import pytest
from factorax_paper.experiments import relatives
from factorax_paper.experiments.relatives import (
    CASES,
    METHODS,
    Settings,
    claims,
    draw,
    merge,
    plan,
    reported,
    summarise,
)
from factorax_paper.harness.table import where

TINY = Settings(("queues", "parcels"), seeds=4, tuning=2, rates=(1e-3, 1e-2), bonuses=(0.0,), share=0.01)


def table(lead, settings=TINY):
    """Data in which 1e-2 is the better rate, and `lead` of each method is added to its scores."""
    rows = {name: [] for name in ("problem", "method", *relatives._COLUMNS)}
    rng = np.random.default_rng(0)
    for name, grid in plan(settings, 0):
        for rate, bonus in grid.trials:
            for seed in range(settings.tuning + settings.seeds):
                score = lead.get(grid.method, 0.0) + 5 * (rate == 1e-2) + 0.1 * rng.normal()
                for column, value in zip(
                    rows, (name, grid.method, rate, bonus, seed, score, -10.0, 1.0, 2.0), strict=True
                ):
                    rows[column].append(value)
    return {name: np.array(values) for name, values in rows.items()}


def test_every_method_has_the_same_budget_and_the_same_trials():
    work = plan(Settings(("queues", "traffic", "parcels")), 0)
    for name in ("queues", "traffic", "parcels"):
        grids = [grid for problem, grid in work if problem == name]
        assert [grid.method for grid in grids] == list(CASES[name].methods)
        assert len({(grid.steps, tuple(grid.trials), grid.tuning, grid.seeds) for grid in grids}) == 1
    assert CASES["queues"].methods == METHODS
    assert "coma" not in CASES["parcels"].methods  # its actions are continuous
    for _, grid in work:
        assert grid.config.hidden == (32, 32)


def test_an_unknown_problem_is_refused():
    with pytest.raises(ValueError, match="problems: got 'quues', want some of queues"):
        plan(Settings(("quues",)), 0)


def test_tuning_seeds_choose_and_the_others_are_reported():
    data = table({})
    row = reported(TINY, where(data, problem="queues", method="ppo"))
    assert (row["rate"], len(row["scores"])) == (1e-2, TINY.seeds)
    changed = data | {"score": np.where(data["seed"] < TINY.tuning, -data["score"], data["score"])}
    assert reported(TINY, where(changed, problem="queues", method="ppo"))["rate"] == 1e-3


def test_a_run_that_diverged_counts_as_untrained():
    data = table({})
    data["score"][(data["method"] == "ppo") & (data["seed"] == 5)] = np.nan
    assert min(reported(TINY, where(data, problem="queues", method="ppo"))["scores"]) == -10


@pytest.mark.parametrize(
    ("lead", "verdicts"),
    [
        ({"factored": 3.0}, ["holds"] * 3),
        ({"factored": -3.0}, ["does not hold"] * 3),
        ({"factored": 3.0, "mappo": 6.0}, ["holds in part"] * 3),
    ],
)
def test_the_verdicts_follow_the_data(lead, verdicts):
    summary = summarise(TINY, table(lead))
    rows = claims(TINY, summary)
    assert [row.verdict for row in rows] == verdicts
    assert list(summary["all problems"]) == [m for m in METHODS if m != "coma"]
    assert list(summary["discrete actions"]) == list(METHODS)
    if "mappo" in lead:
        assert "worse than mappo" in rows[0].ours
        assert "mappo did better" in rows[0].note
    json.dumps(summary)


def test_the_best_method_has_the_score_one():
    summary = summarise(TINY, table({"ippo": 2.0}))
    assert np.mean(summary["problems"]["queues"]["ippo"]["normalised"]) == pytest.approx(1, abs=0.05)
    assert len(draw(TINY, table({}), summary).axes) == 3


def test_runs_of_two_machines_are_joined(tmp_path):
    from factorax_paper.harness.table import read_csv, write_csv

    from factorax._files import write_json

    data = table({})
    for name in ("queues", "parcels"):
        (tmp_path / name).mkdir()
        settings = {"problems": [name], "seeds": 4}
        write_json(tmp_path / name / "config.json", {"experiment": "relatives", "settings": settings})
        write_csv(tmp_path / name / "data.csv", where(data, problem=name))
    merge([tmp_path / "queues", tmp_path / "parcels"], tmp_path / "both")
    assert len(read_csv(tmp_path / "both" / "data.csv")["score"]) == len(data["score"])
    with pytest.raises(ValueError, match="want every problem once"):
        merge([tmp_path / "queues", tmp_path / "queues"], tmp_path / "twice")
