"""A grid of runs in one program: each run is the run that is trained alone, and host problems are trained in turn."""

import dataclasses
import json

import numpy as np
import pytest
from factorax_paper.harness.side_by_side import Grid, _read_rows, main, scores, train
from small_settings import SMALL

from factorax.ppo import FactoredPPO

GRID = Grid(
    problem="queues:1x2",
    method="mappo",
    steps=48,
    settings=SMALL,
    rates=(1e-3, 1e-2),
    bonuses=(0.0,),
    first=3,
    tuning=1,
    seeds=1,
)


def test_scores_are_those_of_episodes_that_ended():
    returns = np.array([[9.0, 1.0]] + [[2.0, 2.0]] * 8 + [[0.0, 7.0]])
    episodes = np.array([[1, 1]] + [[1, 1]] * 8 + [[0, 2]])
    late, first = scores(returns, episodes)
    np.testing.assert_allclose(late, [2.0, (2 + 14) / 3])  # nothing ended in the last rollout of the first run
    np.testing.assert_allclose(first, [9.0, 1.0])


@pytest.mark.slow
def test_a_run_of_the_grid_is_the_run_alone(tmp_path):
    grid = dataclasses.replace(GRID, problem="chain:2,delay=1,horizon=3")
    main([json.dumps(dataclasses.asdict(grid)), str(tmp_path / "out.npz")])
    with np.load(tmp_path / "out.npz") as file:
        result = dict(file)
    assert result["seed"].tolist() == [3, 4, 3, 4]
    assert (result["score"][:2] != result["score"][2:]).any()
    alone = FactoredPPO(grid.problem, method="mappo", **SMALL, seed=4, learning_rate=1e-2, ent_coef=0.0)
    alone.learn(48, progress_bar=False)
    np.testing.assert_allclose(result["score"][3], alone.history[-1]["rollout/ep_rew_mean"], rtol=1e-4)


@pytest.mark.slow
def test_host_problems_tune_first_and_resume(tmp_path):
    settings = SMALL | {"n_steps": 60}
    grid = dataclasses.replace(GRID, problem="CartPole-v1", method="ppo", settings=settings, steps=240)
    kept = tmp_path / "rows.jsonl"
    result = train(grid, kept)
    assert result["seed"].tolist() == [3, 3, 4]
    best = result["rate"][:2][result["score"][:2].argmax()]
    assert result["rate"][2] == best
    alone = FactoredPPO("CartPole-v1", method="ppo", **settings, seed=4, learning_rate=best, ent_coef=0.0)
    alone.learn(240, progress_bar=False)
    np.testing.assert_allclose(result["score"][2], alone.history[-1]["rollout/ep_rew_mean"], rtol=1e-6)
    # Killed while the second row was written: the first is kept as it is, and the others are trained again.
    lines = kept.read_text().splitlines()
    row = json.loads(lines[1])
    kept.write_text("\n".join([lines[0], json.dumps([*row[:5], 0.0, 0.0]), lines[2][:9]]))
    again = train(grid, kept)
    assert {k: v.tolist() for k, v in again.items() if k != "seconds"} == {
        k: v.tolist() for k, v in result.items() if k != "seconds"
    }
    assert (again["seconds"] == 0).sum() == 1
    assert len(kept.read_text().splitlines()) == 4


def test_kept_rows_of_another_grid_are_left_out(tmp_path):
    kept = tmp_path / "rows.jsonl"
    assert _read_rows(GRID, kept) == {}
    with kept.open("a") as file:
        file.write("[0.001, 0.0, 3, 1.0, 0.0, 0.1, 0.0]\n[0.001, 0.")
    assert list(_read_rows(GRID, kept)) == [(0.001, 0.0, 3)]
    assert _read_rows(dataclasses.replace(GRID, steps=49), kept) == {}
    assert _read_rows(GRID, kept) == {}
