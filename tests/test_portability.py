"""Every module imports, and training runs, where what only POSIX has is missing, as on Windows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import factorax

SOURCE = Path(factorax.__file__).parent
POSIX_ONLY = ("fcntl", "resource")
EXTRAS = (
    *("ev2gym", "libsumo", "mo_gymnasium", "mpe2", "pettingzoo", "pyRDDLGym", "ray", "rddlrepository"),
    *("stable_baselines3", "sumo", "tensorboardX", "torch", "traci"),
)
POSIX_ONLY_NAMES = {
    "os": ("fork", "forkpty", "posix_fallocate", "posix_fadvise", "sched_getaffinity", "getuid", "geteuid", "killpg"),
    "signal": ("SIGHUP", "SIGUSR1", "SIGALRM", "alarm", "setitimer", "pthread_sigmask", "pthread_kill"),
}
WITHOUT_THEM = f"""
import sys

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {POSIX_ONLY + EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing)
"""
"""Hides these modules from imports. An entry of None in `sys.modules` would not do: SciPy looks up `torch` there."""
LIKE_WINDOWS = f"""
{WITHOUT_THEM}
import importlib, os, subprocess

for module, names in {POSIX_ONLY_NAMES!r}.items():
    for name in names:
        vars(importlib.import_module(module)).pop(name, None)

class Popen(subprocess.Popen):
    def __init__(self, *arguments, pass_fds=(), start_new_session=False, preexec_fn=None, **options):
        if pass_fds or start_new_session or preexec_fn:
            raise ValueError("pass_fds, start_new_session and preexec_fn are not supported on Windows platforms")
        super().__init__(*arguments, **options)

def kill(process, number, kill=os.kill):
    assert number != 0, "on Windows this ends the process"
    kill(process, number)

subprocess.Popen, os.kill = Popen, kill
"""
"""Run as `sitecustomize`, that is, at the start of every process, workers included."""


def module_name(path):
    return ".".join(("factorax", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


MODULES = sorted(module_name(path) for path in SOURCE.rglob("*.py") if path.name != "__main__.py")
PACKAGES = sorted(module_name(path) for path in SOURCE.rglob("__init__.py"))


@pytest.fixture(scope="module")
def import_errors():
    """The errors of importing every module of factorax without POSIX modules and without extras, by module."""
    program = f"""
{LIKE_WINDOWS}
import importlib, json, traceback
errors = {{}}
for name in {MODULES!r}:
    try:
        importlib.import_module(name)
    except Exception:
        errors[name] = traceback.format_exc()
print(json.dumps(errors))
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_imports_without_posix_modules_and_extras(package, import_errors):
    modules = [name for name in MODULES if name == package or name.rpartition(".")[0] == package]
    assert {name: import_errors[name] for name in modules if name in import_errors} == {}


TRAINING = """
import os, signal, subprocess, sys
import gymnasium as gym
import jax
import numpy as np
import factorax as fx
from factorax import cli

assert not hasattr(os, "fork") and not hasattr(os, "sched_getaffinity") and not hasattr(signal, "SIGHUP")
SETTINGS = dict(n_envs=2, n_steps=8, batch_size=16, n_epochs=1, hidden=(4,), seed=3)

class Bandit(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1.0, 1.0, (1,)), gym.spaces.MultiBinary(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert not hasattr(os, "fork")  # in workers, too
        return np.zeros(1, np.float32), float(action.sum()), True, False, {"vector_reward": action.astype(float)}

def trained(rollouts):
    make = fx.wrap(Bandit, fx.InfluenceNetwork.identity(2))
    model = fx.FactoredPPO(make, rollouts=rollouts, **SETTINGS).learn(32)
    model.close()
    leaves = jax.tree.leaves(model.state)
    return [np.asarray(leaf) for leaf in leaves if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)]

for a, b in zip(trained("inline"), trained("processes,workers=2"), strict=True):
    np.testing.assert_array_equal(a, b)
sys.argv[1:] = ["train", "chain:3", "--preset", "none", "--total-timesteps", "32", "--n-envs", "2", "--n-steps", "8"]
sys.argv += ["--batch-size", "16", "--hidden", "4", "--out", "run"]
sys.exit(cli.main())
"""


@pytest.mark.slow
def test_training_runs_without_posix_modules(tmp_path):
    """Inline and by two workers, to the same bits, and by the command line into a folder."""
    (tmp_path / "sitecustomize.py").write_text(LIKE_WINDOWS, encoding="utf-8")
    (tmp_path / "program.py").write_text(TRAINING, encoding="utf-8")
    path = os.pathsep.join((str(tmp_path), str(SOURCE.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    process = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert {"config.json", "checkpoints"} <= {file.name for file in (tmp_path / "run").iterdir()}
