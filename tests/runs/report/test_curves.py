"""Metrics of runs, thinned: nothing is invented, nothing is averaged away, and damaged values are left out."""

import json

import numpy as np
import pytest
from runs.report.run_folders import improving, write_run

from factorax.runs.report.curves import MAX_POINTS, bucket_edges, group_curves, read_curves
from factorax.runs.statistics import iqm


def test_few_updates_are_kept_as_they_are(tmp_path):
    run = write_run(tmp_path / "run", updates=20)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    curves = read_curves(run)
    np.testing.assert_array_equal(curves.steps, [row["time/total_timesteps"] for row in rows])
    np.testing.assert_array_equal(curves.returns, [row["rollout/ep_rew_mean"] for row in rows])
    np.testing.assert_array_equal(curves.episodes, 2 * np.arange(1, 21))
    np.testing.assert_array_equal(curves.seconds, 0.5 * np.arange(1, 21))
    assert curves.vectors["factor/gradient_snr"].shape == (20, 3)
    assert curves.updates == 20
    assert curves.final == pytest.approx(np.mean([row["rollout/ep_rew_mean"] for row in rows[-2:]]))
    assert curves.initial == rows[0]["rollout/ep_rew_mean"]


def test_many_updates_become_means_of_buckets_that_cover_all(tmp_path):
    run = write_run(tmp_path / "run", updates=1000)
    returns = np.array([row["rollout/ep_rew_mean"] for row in improving(1000)])
    curves = read_curves(run)
    edges = bucket_edges(1000)
    assert len(curves.steps) == MAX_POINTS
    assert edges[0] == 0
    assert edges[-1] == 1000
    np.testing.assert_allclose(curves.returns[7], returns[edges[7] : edges[8]].mean())
    assert curves.steps[-1] == 16_000
    assert curves.initial == returns[0]  # not the mean of a bucket, in which the policy has been trained
    assert curves.episodes[-1] == 2000


def test_seconds_go_on_when_a_run_is_resumed(tmp_path):
    rows = [*improving(6)]
    for row, elapsed in zip(rows, (1.0, 2.0, 3.0, 0.5, 1.5, 2.5), strict=True):
        row["time/time_elapsed"] = elapsed
    curves = read_curves(write_run(tmp_path / "run", metrics=rows))
    np.testing.assert_allclose(curves.seconds, [1.0, 2.0, 3.0, 3.5, 4.5, 5.5])


def test_updates_without_an_end_of_an_episode_and_odd_values_are_gaps(tmp_path):
    rows = [*improving(6)]
    del rows[0]["rollout/ep_rew_mean"]
    rows[2]["rollout/ep_rew_mean"] = float("nan")
    rows[3]["rollout/ep_rew_mean"] = "text"
    rows[4]["factor/gradient_snr"] = [1.0, float("inf"), None]
    rows[5]["factor/gradient_snr"] = [1.0]
    curves = read_curves(write_run(tmp_path / "run", metrics=rows))
    assert np.isnan(curves.returns).tolist() == [True, False, True, True, False, False]
    assert np.isnan(curves.vectors["factor/gradient_snr"][4]).tolist() == [False, True, True]
    assert np.isnan(curves.vectors["factor/gradient_snr"][5]).all()
    assert curves.not_finite == 2 + 2 + 3


def test_groups_are_interquartile_means_on_common_points(tmp_path):
    runs = [read_curves(write_run(tmp_path / f"{s}", seed=s, updates=20 - s)) for s in range(4)]
    group = group_curves("four", runs)
    assert group is not None
    assert group.steps[-1] == 16 * 17  # where the shortest ends
    drawn = group.as_json()
    expected = iqm(group.runs[:, 5])
    assert drawn["y"][5] == pytest.approx(expected.mean, rel=1e-5)
    assert (drawn["low"][5], drawn["high"][5]) == pytest.approx((expected.low, expected.high), rel=1e-5)
    assert len(drawn["runs"]) == 4
    one = group_curves("one", runs[:1])
    assert one is not None
    assert one.as_json()["low"] is None


def test_a_group_without_returns_has_no_curves(tmp_path):
    rows = [{"time/total_timesteps": 16, "time/iterations": 1, "rollout/episodes": 0}]
    assert group_curves("none", [read_curves(write_run(tmp_path / "run", metrics=rows))]) is None
    assert group_curves("none", []) is None
