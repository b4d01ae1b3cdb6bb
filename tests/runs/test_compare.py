"""Comparing runs: groups by settings, interquartile means and the probability of improvement."""

import json

import numpy as np
import pytest

from factorax.runs import compare_groups, draw_curves, group_runs, read_metrics


def write(folder, returns, *, seed=0, problem="chain", episodes=1, every=10, **config):
    """A run folder with nothing but what is compared."""
    folder.mkdir(parents=True)
    config = {"method": "factored", "hidden": [8]} | config | {"seed": seed}
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
        write(tmp_path / f"{method}{seed}", np.arange(20.0) + seed, seed=seed, method=method)
        for method in ("factored", "ppo")
        for seed in range(3)
    ]
    groups = group_runs(folders)
    assert [g.name for g in groups] == ["method factored", "method ppo"]
    assert groups[0].returns.shape == (3, 20)
    np.testing.assert_array_equal(groups[0].steps, np.arange(10, 201, 10))
    np.testing.assert_allclose(groups[0].final, [18.5, 19.5, 20.5])  # the last tenth
    assert [g.name for g in group_runs(folders[:3])] == ["chain"]


def test_curves_of_other_steps_are_read_between_and_cut_to_the_shortest(tmp_path):
    a = write(tmp_path / "a", [0.0, 10.0, 20.0, 30.0], seed=0)
    b = write(tmp_path / "b", [0.0, 100.0], seed=1, every=15)
    (group,) = group_runs([a, b])
    np.testing.assert_array_equal(group.steps, [10, 20, 30])
    np.testing.assert_allclose(group.returns, [[0, 10, 20], [0, 100 / 3, 100]])


def test_a_run_without_an_episode_and_no_run_at_all(tmp_path):
    with pytest.raises(ValueError, match="no episode has ended yet; train for longer"):
        group_runs([write(tmp_path / "a", [0.0], episodes=0)])
    with pytest.raises(ValueError, match="folders: got an empty list, want the folders of one or more runs"):
        group_runs([])
    with pytest.raises(FileNotFoundError, match="want the folder of a run"):
        group_runs([tmp_path])


def test_a_comparison_and_its_picture(tmp_path):
    folders = [
        write(tmp_path / f"{name}{seed}", np.full(12, better + seed), seed=seed, method=name)
        for name, better in (("factored", 10.0), ("ppo", 0.0))
        for seed in range(4)
    ]
    groups = group_runs(folders)
    result = compare_groups(groups)
    assert result["final"]["method factored"]["mean"] == pytest.approx(11.5)
    assert result["final"]["method ppo"]["seeds"] == 4
    ((pair, improvement),) = result["improvement"].items()  # each pair once
    assert (pair, improvement["mean"]) == ("method factored > method ppo", 1)
    json.dumps(result)
    (axes,) = draw_curves(groups).axes
    assert [line.get_label() for line in axes.lines] == ["method factored (4 seeds)", "method ppo (4 seeds)"]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 11.5)


def test_one_seed_has_no_interval_and_no_probability(tmp_path):
    folders = [write(tmp_path / name, np.full(12, 1.0), method=name) for name in ("factored", "ppo")]
    folders.append(write(tmp_path / "second", np.full(12, 3.0), method="factored", seed=1))
    result = compare_groups(group_runs(folders))
    assert result["final"]["method ppo"] == {"mean": 1.0, "low": None, "high": None, "seeds": 1}
    assert result["final"]["method factored"]["low"] == 1.0
    assert result["improvement"] == {}


def test_evaluations_are_compared_if_all_runs_have_one_and_training_otherwise(tmp_path):
    folders = [write(tmp_path / name, np.full(12, 1.0), method=name) for name in ("factored", "ppo")]
    for folder, of, mean in zip(folders, ("training", "evaluation"), (1.0, 5.0), strict=True):
        (folder / "evaluation.json").write_text(json.dumps({"timesteps": 120, "episodes": [4.0, 6.0]}))
        result = compare_groups(group_runs(folders))
        assert result["of"] == of
        assert result["final"]["method factored"]["mean"] == mean
    (folders[0] / "evaluation.json").write_text(json.dumps({"timesteps": 60, "episodes": [4.0, 6.0]}))  # before the end
    assert compare_groups(group_runs(folders))["of"] == "training"


@pytest.mark.parametrize("value", ['"x"', "null", "[1]", "true", "NaN", "1e999", "9" * 400])
def test_returns_that_are_no_numbers_are_refused(value, tmp_path):
    config = {"format": 1, "problem": "chain:3", "network": "own", "config": {}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    row = f'{{"time/total_timesteps": 40, "rollout/ep_rew_mean": {value}}}\n'
    (tmp_path / "metrics.jsonl").write_text(row)
    with pytest.raises(ValueError, match="damaged: rollout/ep_rew_mean is not a number everywhere"):
        group_runs([tmp_path])


@pytest.mark.parametrize("steps", [("1e3",), ("-1",), ("9" * 30,), ("true",), ("80", "40")])
def test_steps_that_are_no_numbers_in_order_are_refused(steps, tmp_path):
    text = "".join(f'{{"time/total_timesteps": {step}}}\n' for step in steps)
    (tmp_path / "metrics.jsonl").write_text(text)
    with pytest.raises(ValueError, match=r"metrics\.jsonl: damaged \(steps are not increasing whole numbers\)"):
        read_metrics(tmp_path)
