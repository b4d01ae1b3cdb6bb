"""Run folders: killed and continued without a trace, and nothing half done when something is wrong."""

import dataclasses
import json
import shutil
import sys

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from signed_files import write_signed

from factorax import InfluenceNetwork, plugins, runs
from factorax.ppo import Config, FactoredPPO, checkpoints, model
from factorax.ppo.model_files import DamagedWarning
from factorax.problems import Problem, Step
from factorax.runs import training

PROBLEM = "chain:3"
SMALL = {"n_envs": 4, "n_steps": 10, "batch_size": 20, "n_epochs": 2, "hidden": (8,), "normalize_obs": True}
CONFIG = Config(total_timesteps=320, normalize_reward=True, **SMALL)
ROLLOUT = 40


def train(out, config=CONFIG, problem=PROBLEM, **options):
    return runs.train(problem, config, out, progress_bar=False, **options)


class Killed(BaseException):
    """As sudden as a signal."""


@pytest.fixture
def kill(monkeypatch, tmp_path):
    """Train until so many updates have been made and written, then die; checkpoints after every update, or not."""

    def until(updates, out, *, checkpoint=True):
        learn, there = FactoredPPO.learn, tmp_path / "as it was"

        def dying(self, total, callback, **options):
            def then(model, metrics):
                callback.on_rollout_end(model, metrics)
                if model.num_timesteps == updates * ROLLOUT:
                    shutil.copytree(out / "checkpoints", there)
                    raise Killed

            return learn(self, total, callback=then, **options)

        with monkeypatch.context() as patch:
            patch.setattr(training, "SECONDS_BETWEEN_CHECKPOINTS", -1.0 if checkpoint else float("inf"))
            patch.setattr(FactoredPPO, "learn", dying)
            with pytest.raises(Killed):
                train(out)
        shutil.rmtree(out / "checkpoints")  # what is killed saves no more
        there.rename(out / "checkpoints")

    return until


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train(out)
    return out


def rows(out):
    """The metrics but for those of the clock and of memory."""
    return [
        {name: x for name, x in row.items() if name not in ("time/fps", "time/time_elapsed", "time/peak_gib")}
        for row in runs.read_metrics(out)
    ]


def last(out):
    return load_file(out / "checkpoints" / "last.safetensors")


def assert_same(out, other):
    assert rows(out) == rows(other)
    got, want = last(out), last(other)
    assert got.keys() == want.keys()
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], err_msg=name, strict=True)


def test_a_run_folder(whole):
    assert sorted(p.name for p in whole.iterdir() if p.name != ".lock") == [
        "checkpoints",
        "config.json",
        "metrics.jsonl",
        "versions.json",
    ]
    config = json.loads((whole / "config.json").read_text())
    assert config["format"] == 1
    assert config["problem"] == PROBLEM
    assert config["config"]["hidden"] == [8]
    assert [row["time/total_timesteps"] for row in rows(whole)] == list(range(40, 321, 40))
    known = {"rollout/ep_rew_mean", "rollout/ep_len_mean", "train/approx_kl", "train/explained_variance"}
    assert known < rows(whole)[1].keys()  # in the second, episodes of 20 steps end
    assert len(rows(whole)[1]["rollout/ep_targets_mean"]) == 3
    about = checkpoints.about(whole / "checkpoints" / "last.safetensors")
    assert about["timesteps"] == 320


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_killed_run_resumes_bit_for_bit(checkpoint, whole, tmp_path, kill):
    out = tmp_path / "run"
    for updates in (3, 5):
        kill(updates, out, checkpoint=checkpoint)
        assert len(rows(out)) == updates
    train(out)
    assert_same(out, whole)


def test_a_finished_run_is_left_as_it_is(whole):
    before = (whole / "metrics.jsonl").read_bytes(), last(whole)
    assert train(whole).num_timesteps == 320
    assert (whole / "metrics.jsonl").read_bytes() == before[0]
    for name, array in last(whole).items():
        np.testing.assert_array_equal(array, before[1][name])


def test_a_finished_run_can_be_trained_for_longer(whole, tmp_path):
    train(tmp_path / "run", dataclasses.replace(CONFIG, total_timesteps=120))
    assert len(rows(tmp_path / "run")) == 3
    train(tmp_path / "run")
    assert_same(tmp_path / "run", whole)


@pytest.fixture
def two(tmp_path, kill):
    """A run with two checkpoints, of updates 2 and 3, and metrics up to 3."""
    out = tmp_path / "run"
    kill(3, out)
    assert sorted(p.name for p in (out / "checkpoints").iterdir()) == ["last.safetensors", "previous.safetensors"]
    return out


def test_a_damaged_checkpoint_gives_way_to_the_one_before(two, whole):
    path = two / "checkpoints" / "last.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    before = (two / "checkpoints" / "previous.safetensors").read_bytes()
    with pytest.warns(DamagedWarning, match=r"last.safetensors: .*; continuing from .*previous.safetensors"):
        train(two)
    assert_same(two, whole)
    assert (two / "checkpoints" / "previous.safetensors").read_bytes() == before  # never replaced by the damaged one


def test_a_checkpoint_lost_between_two_names(two, whole):
    (two / "checkpoints" / "last.safetensors").unlink()
    train(two)
    assert_same(two, whole)


def test_half_a_line_of_metrics_is_written_anew(two, whole):
    with (two / "metrics.jsonl").open("a") as file:
        file.write('{"train/loss": 0.12')
    train(two)
    assert_same(two, whole)


DAMAGE = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "noise": lambda data: bytes(range(256)) * 40,
    "header": lambda data: b"\xff" * 8 + data[8:],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_checkpoints_are_refused_whole(damage, two):
    for path in (two / "checkpoints").iterdir():
        path.write_bytes(damage(path.read_bytes()))
    before = {p: p.read_bytes() for p in two.rglob("*") if p.is_file()}
    with pytest.raises(ValueError, match=r"last\.safetensors: not a factorax checkpoint, or damaged"):
        train(two)
    with pytest.raises(ValueError, match="not a factorax checkpoint"):
        FactoredPPO.load(two)
    assert {p: p.read_bytes() for p in two.rglob("*") if p.is_file()} == before


def test_foreign_checkpoints_are_refused_whole(two, tmp_path):
    path, other = two / "checkpoints" / "last.safetensors", tmp_path / "other.safetensors"
    model = FactoredPPO.load(two)
    state = model.state
    cases = {
        "not a factorax checkpoint": lambda: save_file({"x": np.ones(3)}, other),
        "format 99, want 1": lambda: rewrite(path, other, {"format": 99}),
        r"a checkpoint of something else: 1 entry does not match, such as x": lambda: rewrite(
            path, other, x=np.ones(2)
        ),
        r"has shape \(7,\).*was it written with other settings": lambda: rewrite(
            path, other, **{".agent.policy.spread.log_std": np.ones(7, np.float32)}
        ),
        r"log_std has shape \(3,\) and type float64, want \(3,\) and float32": lambda: rewrite(
            path, other, **{".agent.policy.spread.log_std": np.ones(3)}
        ),
    }
    for message, write in cases.items():
        write()
        with pytest.raises(ValueError, match=message):
            checkpoints.load(other, state._replace(hyper=None))
    assert model.state is state


def rewrite(path, other, about=None, **arrays):
    write_signed(other, load_file(path) | arrays, checkpoints.about(path) | (about or {}))


def test_a_changed_setting_is_listed_and_refused(two):
    before = {p: p.read_bytes() for p in two.rglob("*") if p.is_file()}
    changed = dataclasses.replace(CONFIG, learning_rate=1e-3, seed=4)
    with pytest.raises(FileExistsError) as error:
        train(two, changed, "chain:4")
    text = str(error.value)
    assert "learning_rate: 0.0003 in the folder, 0.001 requested" in text
    assert "seed: 0 in the folder, 4 requested" in text
    assert "problem: 'chain:3' in the folder, 'chain:4' requested" in text
    assert "clip_range" not in text
    assert "--force" in text
    assert {p: p.read_bytes() for p in two.rglob("*") if p.is_file()} == before
    model = train(two, dataclasses.replace(CONFIG, seed=4), force=True)
    assert model.num_timesteps == 320
    assert json.loads((two / "config.json").read_text())["config"]["seed"] == 4
    assert rows(two)[2]["time/total_timesteps"] == 120


def test_force_does_not_help_where_shapes_differ(two):
    before = {p: p.read_bytes() for p in two.rglob("*") if p.is_file()}
    with pytest.raises(ValueError, match="was it written with other settings"):
        train(two, dataclasses.replace(CONFIG, hidden=(4,)), force=True)
    assert {p: p.read_bytes() for p in two.rglob("*") if p.is_file()} == before


def test_a_folder_of_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it")
    with pytest.raises(FileExistsError, match="contains files that do not belong to a run"):
        train(tmp_path)
    (tmp_path / "thesis.tex").rename(tmp_path / "config.json")
    with pytest.raises(ValueError, match=r"config\.json: damaged"):
        train(tmp_path)


def test_other_folders_are_not_loaded_as_runs(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        FactoredPPO.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no config\.json; want the folder of a run"):
        runs.read_config(tmp_path)
    with pytest.raises(FileNotFoundError, match="no metrics; want the folder of a run"):
        runs.read_metrics(tmp_path)


def spoilt():
    """Fine for 12 steps; in the next, target 1 is not a number."""

    def reset(key):
        return jnp.int32(0), jnp.zeros(1)

    def step(key, state, action):
        psi = jnp.where(state == 12, jnp.array([0.0, jnp.nan]), 1.0)
        return Step(state + 1, jnp.zeros(1), psi, jnp.array(False), jnp.array(False))

    box = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    return Problem(
        name="spoilt",
        reset=reset,
        step=step,
        observation_space=box,
        action_space=gym.spaces.MultiBinary(2),
        network=InfluenceNetwork.identity(2),
        weights=np.ones(2),
    )


@pytest.mark.slow
def test_a_target_that_is_not_finite_stops_the_run_and_keeps_the_last_good_state(tmp_path, monkeypatch):
    """The 13th step of an environment is the 3rd of the second rollout of ten."""
    monkeypatch.setattr(model, "find_problem", lambda _: spoilt())
    config = Config(total_timesteps=400, **SMALL)
    with pytest.raises(FloatingPointError, match="environment 0, step 2 of the rollout after step 40: target 1 is not"):
        train(tmp_path / "run", config, "spoilt")
    assert last(tmp_path / "run")[".timesteps"] == ROLLOUT
    assert all(np.isfinite(x).all() for x in last(tmp_path / "run").values())
    assert len(rows(tmp_path / "run")) == 1
    assert FactoredPPO.load(tmp_path / "run").num_timesteps == ROLLOUT


@pytest.mark.slow
def test_networks_by_name_and_by_file(tmp_path):
    file, out = tmp_path / "k.json", tmp_path / "run"
    InfluenceNetwork.identity(3).save(file)
    train(out, network=str(file))
    assert FactoredPPO.load(out).spec.network == InfluenceNetwork.identity(3)
    InfluenceNetwork.complete(3, 3).save(file)
    with pytest.raises(FileExistsError, match="network: has changed since the run in"):
        train(out, network=str(file))
    assert FactoredPPO.load(out).spec.network == InfluenceNetwork.identity(3)  # the folder has its own
    with pytest.raises(FileExistsError, match=r"network: '.*k.json' in the folder, 'complete' requested"):
        train(out, network="complete")
    train(tmp_path / "other", network="complete")
    assert FactoredPPO.load(tmp_path / "other").spec.network == InfluenceNetwork.complete(3, 3)


@pytest.mark.slow
def test_loading_a_folder_imports_no_untrusted_module(tmp_path, monkeypatch):
    """Its problem may be a function of some module: that is imported if its name is given again, and not otherwise."""
    out = tmp_path / "run"
    (tmp_path / "stranger.py").write_text("from factorax.problems import chain\nprint('it runs')\nmake = chain\n")
    monkeypatch.chdir(tmp_path)
    runs.train("stranger:make", Config(total_timesteps=40, **SMALL), out, progress_bar=False)
    del sys.modules["stranger"]
    with pytest.raises(ValueError, match="which leads to code to be run; if you trust it, confirm with"):
        FactoredPPO.load(out)
    assert "stranger" not in sys.modules
    assert FactoredPPO.load(out, trusted="stranger:make").num_timesteps == 40


@pytest.mark.slow
def test_loading_a_folder_uses_no_untrusted_family(tmp_path, monkeypatch):
    """A family that was registered in this process is code as well."""
    monkeypatch.setattr(plugins, "_FAMILIES", dict(plugins._FAMILIES))
    plugins.register("mine", "factorax.problems.families:chain")
    runs.train("mine:3", Config(total_timesteps=40, **SMALL), tmp_path / "run", progress_bar=False)
    with pytest.raises(ValueError, match="was trained on 'mine:3', which leads to code to be run"):
        FactoredPPO.load(tmp_path / "run")
    assert FactoredPPO.load(tmp_path / "run", trusted="mine:3").num_timesteps == 40
