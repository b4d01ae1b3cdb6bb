"""Seeds side by side: each as if it were alone."""

import signal
import subprocess
import sys

import equinox as eqx
import jax
import numpy as np
import pytest

from factorax import runs
from factorax.ppo import Config, FactoredPPO, checkpoints
from factorax.runs import training
from factorax.runs.seeds import apart, stacked, train_seeds

CONFIG = Config(
    n_envs=4, n_steps=10, batch_size=20, n_epochs=2, hidden=(8,), policy="shared", seed=3, total_timesteps=120
)
PROBLEM = "queues:1x2"


def leaves(model):
    return [np.asarray(x) for x in jax.tree.leaves(model.state.agent)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    outs = [tmp_path_factory.mktemp("runs") / f"seed-{s}" for s in (3, 4)]
    return outs, train_seeds(PROBLEM, CONFIG, outs, progress_bar=False)


@pytest.mark.slow
def test_seeds_trained_together_equal_separate_runs(two, tmp_path):
    outs, models = two
    alone = runs.train(PROBLEM, CONFIG, tmp_path / "alone", progress_bar=False)
    for mine, theirs in zip(leaves(models[0]), leaves(alone), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert any((a != b).any() for a, b in zip(leaves(models[0]), leaves(models[1]), strict=True))
    for out, model in zip(outs, models, strict=True):
        loaded = FactoredPPO.load(out)
        assert (loaded.config.seed, loaded.num_timesteps) == (model.config.seed, 120)
        for a, b in zip(leaves(loaded), leaves(model), strict=True):
            np.testing.assert_array_equal(a, b)
    curves = [[row["train/loss"] for row in runs.read_metrics(out)] for out in (*outs, tmp_path / "alone")]
    assert curves[0] == pytest.approx(curves[2], rel=1e-3, abs=1e-4)
    assert curves[0] != curves[1]


@pytest.mark.slow
def test_interrupted_seeds_resume_bit_for_bit(two, tmp_path, monkeypatch):
    outs = [tmp_path / f"seed-{s}" for s in (3, 4)]
    write, count = training.Recorder.write, []

    def stop_after_three(self, metrics):
        write(self, metrics)
        count.append(metrics)
        if len(count) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(training.Recorder, "write", stop_after_three)
    with pytest.raises(KeyboardInterrupt):
        train_seeds(PROBLEM, CONFIG, outs, progress_bar=False)
    monkeypatch.setattr(training.Recorder, "write", write)
    models = train_seeds(PROBLEM, CONFIG, outs, progress_bar=False)
    for mine, theirs in zip(models, two[1], strict=True):
        for a, b in zip(leaves(mine), leaves(theirs), strict=True):
            np.testing.assert_array_equal(a, b)
    assert [len(runs.read_metrics(out)) for out in outs] == [3, 3]


KILLED = """
import ast, os, signal, sys
from pathlib import Path
from factorax.ppo import Config, FactoredPPO, checkpoints
from factorax.runs import seeds, train_seeds, training

config, after, *outs = sys.argv[1:]
keep, calls = training.Recorder.keep, []
training.SECONDS_BETWEEN_CHECKPOINTS = -1.0
seeds.SECONDS = 0.0  # one update at a time, however fast they are

def killed(self, **options):
    keep(self, **options)
    calls.extend([] if options else [self])  # not those before the first step
    if len(calls) == int(after):
        os.kill(os.getpid(), signal.SIGKILL)

training.Recorder.keep = killed
train_seeds("queues:1x2", Config(**ast.literal_eval(config)), [*map(Path, outs)], progress_bar=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 3])
def test_seeds_killed_between_their_checkpoints_resume_bit_for_bit(two, tmp_path, after):
    outs = [tmp_path / f"seed-{s}" for s in (3, 4)]
    command = [sys.executable, "-c", KILLED, str(CONFIG.to_json()), str(after), *map(str, outs)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    rollout = CONFIG.n_envs * CONFIG.n_steps
    steps = [checkpoints.about(out / "checkpoints" / "last.safetensors")["timesteps"] for out in outs]
    assert steps == [rollout * (after + 1) // 2, rollout * (after - 1) // 2]
    models = train_seeds(PROBLEM, CONFIG, outs, progress_bar=False)
    for mine, theirs, out, undisturbed in zip(models, two[1], outs, two[0], strict=True):
        for a, b in zip(leaves(mine), leaves(theirs), strict=True):
            np.testing.assert_array_equal(a, b)
        losses = [[row["train/loss"] for row in runs.read_metrics(each)] for each in (out, undisturbed)]
        assert losses[0] == losses[1]


@pytest.mark.slow
def test_seeds_at_different_steps_are_refused(two, tmp_path):
    with pytest.raises(ValueError, match="seeds: 'CartPole-v1' is a Gymnasium environment"):
        train_seeds("CartPole-v1", CONFIG, [tmp_path / "a"], progress_bar=False)
    with pytest.raises(ValueError, match=r"seeds: got runs at \[0, 120\] steps"):
        train_seeds(PROBLEM, CONFIG, [two[0][0], tmp_path / "b"], progress_bar=False)


SIZES = {"n_envs": 4, "n_steps": 8, "batch_size": 16, "n_epochs": 1, "hidden": (8,)}


def arrays(state):
    leaves = jax.tree.leaves(eqx.filter(state, eqx.is_array))
    is_key = lambda x: jax.numpy.issubdtype(x.dtype, jax.dtypes.prng_key)  # noqa: E731
    return [np.asarray(jax.random.key_data(x) if is_key(x) else x) for x in leaves]


def test_states_are_stacked_and_taken_apart():
    model = FactoredPPO("chain:4", **SIZES)
    states = [model.learner.init(seed) for seed in (1, 2)]
    together = stacked(states)
    assert all(x.shape[0] == 2 for x in arrays(together))
    for before, after in zip(states, apart(together, 2), strict=True):
        assert jax.tree.structure(before) == jax.tree.structure(after)
        for a, b in zip(arrays(before), arrays(after), strict=True):
            np.testing.assert_array_equal(a, b)
