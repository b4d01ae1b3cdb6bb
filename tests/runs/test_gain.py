"""Which part of a gain over vanilla PPO is K's: the parts add up, settings must agree, and what is missing is named."""

import json
import shlex

import pytest

from factorax.cli import main
from factorax.ppo.config import Config
from factorax.runs import group_runs, split_gains
from factorax.runs.gain import explain

ROLES = {
    "vanilla": {"method": "ppo", "network": "own"},
    "complete": {"method": "factored", "network": "complete"},
    "factored": {"method": "factored", "network": "own"},
}


def runs(folder, finals, problem="chain:8", **config):
    """Run folders with a constant return for every seed of every role."""
    folders = []
    for role, returns in finals.items():
        for seed, value in enumerate(returns):
            out = folder / f"{role}-{seed}"
            out.mkdir(parents=True)
            roles = dict(ROLES[role])
            content = {"format": 1, "problem": problem, "network": roles.pop("network")}
            settings = roles | {"n_steps": 64} | config.get(role, {}) | {"seed": seed}
            (out / "config.json").write_text(json.dumps(content | {"config": settings}))
            rows = [{"time/total_timesteps": 10 * t, "rollout/ep_rew_mean": value} for t in range(1, 6)]
            (out / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            folders.append(out)
    return folders


def test_the_parts_add_up_to_the_gain(tmp_path):
    finals = {"vanilla": [0.0, 1.0, 2.0, 3.0], "complete": [4.0, 4.0, 6.0, 6.0], "factored": [9.0, 10.0, 10.0, 11.0]}
    (entry,) = split_gains(group_runs(runs(tmp_path, finals)))
    assert entry["gain"]["mean"] == pytest.approx(10 - 1.5)
    assert entry["per_factor_ratios"]["mean"] == pytest.approx(5 - 1.5)
    assert entry["k"]["mean"] == pytest.approx(10 - 5)
    assert entry["per_factor_ratios"]["mean"] + entry["k"]["mean"] == pytest.approx(entry["gain"]["mean"])
    assert 3 <= entry["k"]["low"] <= 5 <= entry["k"]["high"] <= 7
    assert "train" not in entry
    assert explain(entry) == ["K increases the return beyond per-factor ratios."]
    json.dumps(entry)


def test_one_seed_has_a_difference_and_no_part_of_k(tmp_path):
    (entry,) = split_gains(group_runs(runs(tmp_path, {"vanilla": [0.0], "complete": [4.0], "factored": [9.0]})))
    assert entry["gain"] == {"mean": 9.0, "low": None, "high": None}
    assert not {"k", "per_factor_ratios"} & entry.keys()
    assert "one seed per group" in explain(entry)[0]


def test_without_a_complete_run_the_commands_that_train_it_are_given(tmp_path, monkeypatch):
    settings = {
        "hidden": [32, 16],
        "normalize_obs": True,
        "check_network": False,
        "target_kl": 0.02,
        "anneal": ["learning_rate"],
        "policy": "shared",
    }
    problem = "rddl:a b/1; rm x"
    folders = runs(
        tmp_path, {"vanilla": [0.0, 1.0], "factored": [2.0, 3.0]}, problem, factored=settings, vanilla=settings
    )
    (entry,) = split_gains(group_runs(folders))
    assert entry["gain"]["mean"] == pytest.approx(2)
    assert "k" not in entry
    (said, *commands) = explain(entry)
    assert said.startswith("There is no run with complete K with per-factor ratios")
    assert [line.strip() for line in commands] == entry["train"]["complete"]
    asked = []
    monkeypatch.setattr("factorax.runs.train", lambda *a, **k: asked.append((*a, k)) or 1 / 0)
    for command in entry["train"]["complete"]:
        words = shlex.split(command)
        assert words[:3] == ["factorax", "train", problem]
        monkeypatch.setattr("sys.argv", words)
        with pytest.raises(ZeroDivisionError):
            main()
    for seed, (name, config, out, options) in enumerate(asked):
        assert name == problem
        assert options["network"] == "complete"
        assert out.parent == tmp_path
        assert config == Config.of(settings | {"n_steps": 64, "seed": seed})


def test_settings_must_agree(tmp_path):
    finals = {"vanilla": [0.0, 1.0], "complete": [1.0, 2.0], "factored": [2.0, 3.0]}
    folders = runs(tmp_path, finals, complete={"gamma": 0.9}, vanilla={"rollouts": "processes", "gamma": 0.99})
    (entry,) = split_gains(group_runs(folders))
    assert entry["differ"] == {"complete": {"gamma": [0.99, 0.9]}}  # what is left out is the default
    assert "k" not in entry
    assert "gain" in entry
    assert "differ in gamma 0.99 against 0.9. Want the same settings." in explain(entry)[0]


def test_without_vanilla_there_is_k_alone_and_without_both_their_commands(tmp_path):
    (entry,) = split_gains(group_runs(runs(tmp_path / "a", {"complete": [1.0, 2.0], "factored": [2.0, 3.0]})))
    assert entry["k"]["mean"] == pytest.approx(1)
    assert [*entry["train"]] == ["vanilla"]
    assert "--method ppo" in entry["train"]["vanilla"][0]
    (alone,) = split_gains(group_runs(runs(tmp_path / "b", {"factored": [2.0, 3.0]})))
    assert [*alone["train"]] == ["vanilla", "complete"]
    assert split_gains(group_runs(runs(tmp_path / "c", {"vanilla": [2.0], "complete": [3.0]}))) == []
