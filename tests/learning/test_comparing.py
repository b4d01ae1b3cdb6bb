"""Comparing runs: groups by settings, interquartile means and the probability of improvement."""

import json

import numpy as np
import pytest

from factorax.learning import comparing


def write(folder, returns, *, seed=0, problem="chain", episodes=1, every=10, **config):
    """A run folder with nothing but what is compared."""
    folder.mkdir(parents=True)
    config = {"estimator": "factored", "hidden": [8]} | config | {"seed": seed}
    (folder / "config.json").write_text(
        json.dumps({"format": 1, "problem": problem, "network": "own", "config": config})
    )
    with (folder / "metrics.jsonl").open("w") as file:
        for t, value in enumerate(returns, 1):
            row = {"time/total_timesteps": every * t, "rollout/episodes": episodes}
            file.write(json.dumps(row | ({"rollout/ep_rew_mean": value} if episodes else {})) + "\n")
    return folder


def test_runs_that_differ_in_their_seed_alone_are_one_group(tmp_path):
    folders = [
        write(tmp_path / f"{estimator}{seed}", np.arange(20.0) + seed, seed=seed, estimator=estimator)
        for estimator in ("factored", "vanilla")
        for seed in range(3)
    ]
    groups = comparing.group(folders)
    assert [g.name for g in groups] == ["estimator factored", "estimator vanilla"]
    assert groups[0].returns.shape == (3, 20)
    np.testing.assert_array_equal(groups[0].steps, np.arange(10, 201, 10))
    np.testing.assert_allclose(groups[0].final, [18.5, 19.5, 20.5])  # the last tenth
    assert [g.name for g in comparing.group(folders[:3])] == ["chain"]


def test_groups_are_named_by_all_they_differ_in(tmp_path):
    a = write(tmp_path / "a", [1.0], problem="chain:3", n_envs=2)
    b = write(tmp_path / "b", [1.0], problem="chain:4", n_envs=4)
    assert [g.name for g in comparing.group([a, b])] == ["chain:3, n_envs 2", "chain:4, n_envs 4"]


def test_curves_of_other_steps_are_read_between_and_cut_to_the_shortest(tmp_path):
    a = write(tmp_path / "a", [0.0, 10.0, 20.0, 30.0], seed=0)
    b = write(tmp_path / "b", [0.0, 100.0], seed=1, every=15)
    (group,) = comparing.group([a, b])
    np.testing.assert_array_equal(group.steps, [10, 20, 30])
    np.testing.assert_allclose(group.returns, [[0, 10, 20], [0, 100 / 3, 100]])


def test_a_run_without_an_episode_and_no_run_at_all(tmp_path):
    with pytest.raises(ValueError, match="no episode has ended yet; train for longer"):
        comparing.group([write(tmp_path / "a", [0.0], episodes=0)])
    with pytest.raises(ValueError, match="runs: got none"):
        comparing.group([])
    with pytest.raises(FileNotFoundError, match="want the folder of a run"):
        comparing.group([tmp_path])


def test_the_interquartile_mean():
    x = [100.0, 1.0, 2.0, 3.0, 4.0, -50.0, 2.5, 3.5]  # the middle half: 2, 2.5, 3, 3.5
    got = comparing.iqm(x)
    assert got.mean == pytest.approx(2.75)
    assert got.low < 2.75 < got.high
    same = comparing.iqm([3.0] * 5)
    assert (same.mean, same.low, same.high) == (3, 3, 3)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """Normal samples, 20 a group: at least 85 of 100 intervals of 95 % hold 0 (the bootstrap is a little narrow)."""
    rng = np.random.default_rng(0)
    covered = [i.low < 0 < i.high for i in (comparing.iqm(rng.normal(size=20)) for _ in range(100))]
    assert sum(covered) >= 85


def test_the_probability_of_improvement():
    a, b = [1.0, 2.0, 3.0], [2.0, 0.0]
    got = comparing.probability_of_improvement(a, b)
    assert got.mean == pytest.approx((0 + 1 + 0.5 + 1 + 1 + 1) / 6)
    assert comparing.probability_of_improvement(b, a).mean == pytest.approx(1 - got.mean)
    assert 0 <= got.low <= got.mean <= got.high <= 1
    assert comparing.probability_of_improvement([1.0] * 3, [1.0] * 4).mean == 0.5


def test_a_comparison_and_its_picture(tmp_path):
    folders = [
        write(tmp_path / f"{name}{seed}", np.full(12, better + seed), seed=seed, estimator=name)
        for name, better in (("factored", 10.0), ("vanilla", 0.0))
        for seed in range(4)
    ]
    groups = comparing.group(folders)
    result = comparing.compare(groups)
    assert result["final"]["estimator factored"]["mean"] == pytest.approx(11.5)
    assert result["final"]["estimator vanilla"]["seeds"] == 4
    assert result["improvement"]["estimator factored > estimator vanilla"]["mean"] == 1
    assert result["improvement"]["estimator vanilla > estimator factored"]["high"] == 0
    json.dumps(result)
    (axes,) = comparing.draw(groups).axes
    assert [line.get_label() for line in axes.lines] == ["estimator factored (4 seeds)", "estimator vanilla (4 seeds)"]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 11.5)
