"""Where the numbers of training are written to."""

import csv
import time

import numpy as np
import pytest
from small_settings import SMALL

import factorax as fx
from factorax.ppo import FactoredPPO, Logger, configure
from factorax.ppo.logger import TableWriter, TensorBoardWriter, numbered_folder, scalars


class Keep:
    def __init__(self):
        self.rows, self.closed = [], False

    def write(self, values, step):
        self.rows.append((step, dict(values)))

    def close(self):
        self.closed = True


def test_numbers_are_kept_until_they_are_dumped():
    keep = Keep()
    logger = Logger(writers=[keep])
    logger.record("a", np.float32(1))
    logger.record("a", 2)
    for value in (1, 2, 6):
        logger.record_mean("b", value)
    logger.dump(10)
    logger.dump(20)
    assert keep.rows == [(10, {"a": 2.0, "b": 3.0}), (20, {})]
    logger.close()
    assert keep.closed


def test_a_table_is_grouped_by_the_first_part_of_names(capsys):
    TableWriter().write({"train/loss": 0.5, "rollout/ep_rew_mean": 1234567.0, "train/kl": 0.25}, 1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip("| ").split()[0] for line in lines[1:-1]] == [
        "rollout/", "ep_rew_mean", "train/", "kl", "loss",
    ]  # fmt: skip
    assert len({len(line) for line in lines}) == 1
    assert "1.23457e+06" in lines[2]


def test_the_screen_shows_no_vectors_and_files_do(tmp_path, capsys):
    model = FactoredPPO("contextual-bandit:3", **SMALL)
    model.set_logger(configure(tmp_path, ["stdout", "csv"]))
    model.learn(24, lambda m, _: m.logger.record("custom/file", 1, exclude=("stdout", "log")), progress_bar=False)
    lines = capsys.readouterr().out.splitlines()
    assert 15 < len(lines) < 26
    assert not any("a1" in line or "custom" in line for line in lines)
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert {"factor/entropy/a1", "custom/file", "train/loss"} <= set(header.split(","))


def test_a_csv_file_gains_columns(tmp_path):
    logger = configure(tmp_path, ["csv"])
    for step, values in enumerate(({"a": 1}, {"a": 2, "b": 3}, {"b": 4})):
        for name, value in values.items():
            logger.record(name, value)
        logger.dump(step)
    with (tmp_path / "progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{"a": "1.0", "b": ""}, {"a": "2.0", "b": "3.0"}, {"a": "", "b": "4.0"}]
    assert logger.get_dir() == str(tmp_path)


def test_folders_of_runs_are_numbered(tmp_path):
    assert numbered_folder(tmp_path, "PPO") == tmp_path / "PPO_1"
    assert numbered_folder(tmp_path, "PPO", latest=True) == tmp_path / "PPO_1"
    for name in ("PPO_1", "PPO_9", "PPO_x", "PPO_extra_30"):
        (tmp_path / name).mkdir()
    assert numbered_folder(tmp_path, "PPO") == tmp_path / "PPO_10"
    assert numbered_folder(tmp_path, "PPO", latest=True) == tmp_path / "PPO_9"


def test_vectors_are_named_by_factors_and_targets():
    net, long = fx.InfluenceNetwork.complete(2, 2).relabel(["a", "b"], ["x", "y"]), np.arange(301)
    metrics = {"factor/kl": np.array([1, 2]), "rollout/ep_targets_mean": np.array([3, 4]), "time/fps": 2.0}
    assert dict(scalars(metrics | {"factor/long": long, "network/came": np.array(["a → x"])}, net)) == {
        "factor/kl/a": 1,
        "factor/kl/b": 2,
        "rollout/ep_targets_mean/x": 3,
        "rollout/ep_targets_mean/y": 4,
        "time/fps": 2.0,
        "factor/long/median": 150,
    }


def test_a_model_writes_to_its_logger(tmp_path, capsys):
    keep, model = Keep(), FactoredPPO("contextual-bandit:3", **SMALL)
    model.set_logger(Logger(writers=[keep]))
    model.learn(72, lambda m, metrics: m.logger.record("custom/one", 1), log_interval=2, progress_bar=False)
    steps, rows = zip(*keep.rows, strict=True)
    assert steps == (48,)  # of three updates
    assert rows[0]["custom/one"] == 1.0
    assert {"rollout/ep_rew_mean", "train/loss", "time/total_timesteps"} <= rows[0].keys()
    assert sum(name.startswith("factor/entropy/") for name in rows[0]) == 3
    assert not keep.closed  # it is the user's


def test_tensorboard_and_the_screen_from_python(tmp_path, capsys):
    pytest.importorskip("tensorboardX")
    model = FactoredPPO("contextual-bandit:3", tensorboard_log=tmp_path / "tb", verbose=1, **SMALL)
    model.learn(24, progress_bar=False)
    assert "ep_rew_mean" in capsys.readouterr().out
    (first,) = (tmp_path / "tb" / "FactoredPPO_1").iterdir()
    size = first.stat().st_size
    assert b"rollout/ep_rew_mean" in first.read_bytes()
    model.learn(24, reset_num_timesteps=False, progress_bar=False)
    files = list((tmp_path / "tb" / "FactoredPPO_1").iterdir())
    assert sum(file.stat().st_size for file in files) > size
    model.learn(24, progress_bar=False, tb_log_name="other")
    assert {path.name for path in (tmp_path / "tb").iterdir()} == {"FactoredPPO_1", "other_1"}


def test_two_writers_of_one_second_keep_two_event_files(tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX")
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.0)
    for step in range(2):
        writer = TensorBoardWriter(tmp_path)
        writer.write({"value": step}, step)
        writer.close()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.wandb
def test_weights_and_biases_offline(tmp_path):
    pytest.importorskip("wandb")
    model = FactoredPPO("contextual-bandit:3", **SMALL)
    logger = configure(tmp_path, ["wandb"])
    model.set_logger(logger)
    model.learn(48, progress_bar=False)
    logger.close()
    (run,) = (tmp_path / "wandb").glob("offline-run-*")
    (data,) = run.glob("*.wandb")
    until = time.monotonic() + 60  # a process of wandb's writes it, soon after
    while b"rollout/ep_rew_mean" not in data.read_bytes():
        assert time.monotonic() < until
        time.sleep(0.1)
