"""An update on one device and on eight; what does not fit the memory of a device is refused before it runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from factorax.ppo import Config, FactoredPPO, Learner, devices
from factorax.problems import contextual_bandit

CONFIG = Config(n_envs=64, n_steps=25, batch_size=100, n_epochs=1)


def test_an_update_that_fits_is_let_through():
    devices.check_memory(2**30, 2**30, CONFIG)
    devices.check_memory(2**40, None, CONFIG)


@pytest.mark.parametrize(
    ("free", "want"), [(2**29, "n_envs=32"), (2**29 - 1, "n_envs=28"), (2**20, "a smaller n_steps")]
)
def test_what_would_fit_is_named(free, want):
    with pytest.raises(MemoryError, match=f"n_envs: got 64.* needs 1 GiB and the device has .*want {want}$"):
        devices.check_memory(2**30, free, CONFIG)


def test_seeds_count():
    with pytest.raises(MemoryError, match="25 steps × 5 seeds"):
        devices.check_memory(2, 1, CONFIG, seeds=5)


@pytest.mark.slow
def test_a_run_that_cannot_fit_does_not_start(monkeypatch):
    monkeypatch.setattr(devices, "available_memory", lambda config: 10**6)
    model = FactoredPPO(contextual_bandit(100), n_envs=1000, n_steps=100, batch_size=1000, n_epochs=1)
    with pytest.raises(MemoryError, match="n_envs: got 1000"):
        model.learn(100_000, progress_bar=False)
    assert model.num_timesteps == 0


def test_what_is_needed_covers_what_is_kept():
    """A program that keeps a thousand copies of its argument needs at least as much."""
    n = 1000

    def keeps(x):
        return jnp.broadcast_to(x, (1000, n)) * jnp.arange(1000.0)[:, None], {}

    with pytest.MonkeyPatch.context() as patch:
        needs = []
        patch.setattr(devices, "check_memory", lambda needed, *_: needs.append(needed))
        devices.compiled(keeps, jnp.ones(n), CONFIG, None)
    assert 4 * 1000 * n <= needs[0] <= 1.1 * 4 * 1000 * n + 10**5


@pytest.mark.slow
def test_peak_memory_is_a_metric():
    model = FactoredPPO(contextual_bandit(4), n_envs=4, n_steps=4, batch_size=16, n_epochs=1)
    model.learn(16, progress_bar=False)
    assert 0.05 < model.history[0]["time/peak_gib"] < 100


@pytest.fixture(scope="module")
def comparison():
    """Differences between training on one device and on eight of a process of its own."""
    flags = os.environ | {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # it runs for a moment
    }
    script = Path(__file__).with_name("eight_devices.py")
    done = subprocess.run([sys.executable, str(script)], env=flags, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shared", "normalised", "seeds"])
def test_eight_devices_agree_with_one_to_rounding(comparison, name):
    assert comparison[name] < 1e-4
    assert comparison["another seed"] > 0.01  # so that it means something


@pytest.mark.slow
def test_a_checkpoint_of_eight_devices_is_one_of_any(comparison):
    assert comparison["loaded"] == 0


@pytest.mark.slow
def test_every_device_has_its_share(comparison):
    assert set(comparison["shares"]) == {8}
    (n_envs, size), piece = comparison["pieces"]
    assert piece == [n_envs // 8, size]
    assert comparison["reduces"] > 0


@pytest.mark.parametrize(("count", "message"), [(-1, "devices: got -1"), (2, "devices: got 2, want at most 1")])
def test_devices_that_are_not_there(count, message):
    with pytest.raises(ValueError, match=message):
        Learner.of(contextual_bandit(4), config=Config(devices=count))


TWO_DEVICES = """
import jax
from factorax.ppo import Config, Learner
from factorax.problems import chain

SMALL = {"n_envs": 4, "n_steps": 6, "batch_size": 12, "n_epochs": 1, "hidden": (8,)}
assert len(jax.devices()) == 2
assert Learner.of(chain(3), config=Config(**SMALL)).devices is None  # a share of the same cores gains nothing
learner = Learner.of(chain(3), config=Config(**SMALL, devices=2))
update, compilations = jax.jit(learner.update), []
state, _ = update(learner.init(0))
jax.monitoring.register_event_duration_secs_listener(lambda event, seconds, **_: compilations.append(event))
update(state)
assert not [event for event in compilations if "compile" in event], compilations
"""


@pytest.mark.slow
def test_a_cpu_uses_one_device_by_default_and_two_compile_once():
    flags = "--xla_force_host_platform_device_count=2"
    subprocess.run([sys.executable, "-c", TWO_DEVICES], env=os.environ | {"XLA_FLAGS": flags}, check=True, timeout=300)


def test_double_precision_is_refused():
    with jax.enable_x64(True), pytest.raises(ValueError, match=r"jax_enable_x64: .*single precision"):
        Learner.of(contextual_bandit(3)).init(0)
