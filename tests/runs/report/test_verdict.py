"""The verdict: numbers that are in the folders, the right baseline, and the parts of the gain that runs can tell."""

import json
import re

import numpy as np
import pytest
from runs.report.run_folders import improving, write_run

from factorax import plugins
from factorax.runs.report.contents import group_inputs
from factorax.runs.report.inputs import read_inputs
from factorax.runs.report.verdict import run_verdicts
from factorax.runs.statistics import Interval, iqm, short_number


def verdicts(folder, **options):
    groups = group_inputs(read_inputs([folder]))
    options = {"play": False, "baselines": {}, "notes": []} | options
    return {verdict.title: verdict for verdict in run_verdicts(groups, **options)}


def write_seeds(folder, seeds=4, **options):
    return [write_run(folder / f"{seed}", seed=seed, **options) for seed in range(seeds)]


def finals(seeds, level):
    """Means over the last two of twenty updates."""
    rows = [[*improving(20, seed=seed, level=level)][-2:] for seed in range(seeds)]
    return [np.mean([row["rollout/ep_rew_mean"] for row in each]) for each in rows]


def test_seeds_give_an_interquartile_mean_and_the_untrained_policy_is_the_baseline(tmp_path):
    write_seeds(tmp_path)
    (verdict,) = verdicts(tmp_path).values()
    first, second = verdict.sentences
    reached = str(iqm(finals(4, 0.0))).replace("-", "−")
    assert first.startswith("Factored PPO on chain:3, trained with 4 seeds for 320 steps each, reached ")
    assert reached in first
    assert "interquartile mean of 4 seeds, 95 % interval" in first
    assert "of the untrained policy in its first updates" in first
    assert second.startswith("Splitting the gain into the parts of K")
    assert any("--method ppo" in command for command in verdict.commands)
    assert any("--network complete" in command for command in verdict.commands)


def evaluate(run, *episodes):
    score = {"timesteps": 320, "return": np.mean(episodes), "episodes": episodes, "sampled": 1.0}
    (run / "evaluation.json").write_text(json.dumps(score))


def test_one_seed_has_neither_an_interval_nor_a_share_of_k(tmp_path):
    for name, options in {"f": {}, "c": {"network": "complete"}, "v": {"method": "ppo"}}.items():
        write_run(tmp_path / name, **options)
    (verdict,) = verdicts(tmp_path).values()
    assert "[" not in " ".join(verdict.sentences)
    assert "gain" not in verdict.sentences[1]
    assert "does not tell what K adds" in verdict.sentences[1]


def test_evaluations_are_compared_with_evaluations_and_training_with_training(tmp_path):
    """The most probable actions reach more than exploration does: one must not be set against the other."""
    factored, vanilla = write_run(tmp_path / "f"), write_run(tmp_path / "v", method="ppo", level=-3.0)
    training = finals(1, 0.0)[0], finals(1, -3.0)[0]
    evaluate(factored, 11.0, 13.0)
    (verdict,) = verdicts(tmp_path).values()
    assert "over the last tenth of its training" in verdict.sentences[0]
    against = verdict.sentences[0].replace("−", "-")
    assert f"reached {short_number(training[0])} per episode" in against
    assert f"against {short_number(training[1])} of vanilla PPO" in against
    evaluate(vanilla, 7.0, 7.0)
    (verdict,) = verdicts(tmp_path).values()
    assert "reached 12 per episode (in the evaluation of its final policy" in verdict.sentences[0]
    assert "against 7 of vanilla PPO" in verdict.sentences[0]


def test_the_untrained_policy_is_compared_with_training(tmp_path):
    evaluate(write_run(tmp_path / "run"), 1.0, 2.0, 3.0)
    (verdict,) = verdicts(tmp_path).values()
    assert f"reached {short_number(finals(1, 0.0)[0])} per episode" in verdict.sentences[0].replace("−", "-")
    assert "of the untrained policy in its first updates" in verdict.sentences[0]
    assert "in its evaluation, the final policy reached 2." in verdict.sentences[0]


def test_the_gain_is_split_between_clipping_and_k(tmp_path):
    write_seeds(tmp_path / "factored", level=0.0)
    write_seeds(tmp_path / "complete", level=-2.0, network="complete")
    write_seeds(tmp_path / "vanilla", level=-5.0, method="ppo")
    (verdict,) = verdicts(tmp_path).values()
    first, second = verdict.sentences
    assert "of vanilla PPO with the same settings (4 seeds)" in first
    assert second.startswith("Of the gain of ")
    gain, clipping, k = (float(number) for number in re.findall(r"(\S+) \[", second.replace("−", "-")))
    assert gain == pytest.approx(5, abs=0.2)
    assert clipping == pytest.approx(3, abs=0.2)
    assert k == pytest.approx(2, abs=0.2)
    assert second.endswith("from K.")
    assert verdict.commands == ()


def test_a_controller_is_the_baseline_of_evaluations_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "_FAMILIES", dict(plugins.families()))
    plugins.register("shops", "factorax.problems.families:chain", controllers=("greedy",))
    run = write_run(tmp_path / "run", problem="shops:3")
    baselines = {"shops:3": Interval(-5.0, -6.0, -4.0)}
    (verdict,) = verdicts(tmp_path, baselines=baselines).values()
    assert "against −5" not in verdict.sentences[0]
    assert "only an evaluation can be compared" in verdict.sentences[0]
    evaluate(run, -3.0, -5.0)
    (verdict,) = verdicts(tmp_path, baselines=baselines).values()
    assert "reached −4 per episode" in verdict.sentences[0]
    assert "against −5 [−6, −4] of the controller greedy (10 episodes)" in verdict.sentences[0]
