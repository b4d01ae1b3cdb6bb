"""A grid of runs in one program: each run is the run that is trained alone, and host problems are trained in turn."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from small_settings import SMALL

from factorax.experiments.harness.side_by_side import Grid, main, scores, train
from factorax.learning import FactoredPPO

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
def test_host_problems_tune_first():
    grid = dataclasses.replace(GRID, problem="CartPole-v1", method="ppo", settings=SMALL | {"n_steps": 60}, steps=240)
    result = train(grid)
    assert result["seed"].tolist() == [3, 3, 4]
    best = result["rate"][:2][result["score"][:2].argmax()]
    assert result["rate"][2] == best


OWNER = """
import multiprocessing, os, signal, time
from concurrent.futures import ProcessPoolExecutor
from factorax.experiments.harness.side_by_side import end_with_parent

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=end_with_parent)
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 60)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for a process in /proc")
def test_a_pool_ends_with_its_owner(tmp_path):
    (tmp_path / "owner.py").write_text(OWNER)
    done = subprocess.run([sys.executable, str(tmp_path / "owner.py")], stdout=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL
    worker = Path("/proc") / done.stdout.strip() / "cmdline"
    until = time.monotonic() + 20
    while time.monotonic() < until and worker.exists() and worker.read_bytes():
        time.sleep(0.1)
    assert not worker.exists() or not worker.read_bytes()
