"""An update on one device and on eight."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from factorax.ppo import FactoredPPO, Learner
from factorax.problems import contextual_bandit


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


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("auto,count=-1", "device: count: got -1"),
        ("auto,count=2", "device: got count=2, want at most 1"),
        ("tpu", "device: got 'tpu', but JAX finds only cpu"),
    ],
)
def test_devices_that_are_missing_are_refused(device, message):
    with pytest.raises(ValueError, match=message):
        FactoredPPO(contextual_bandit(4), device=device)


TWO_DEVICES = """
import jax
from factorax.ppo import Compiled, Config, Learner
from factorax.problems import chain

SMALL = {"n_envs": 4, "n_steps": 6, "batch_size": 12, "n_epochs": 1, "hidden": (8,)}
assert len(jax.devices()) == 2
assert Compiled(Learner.of(chain(3), config=Config(**SMALL))).mesh is None  # a share of the same cores gains nothing
programs = Compiled(Learner.of(chain(3), config=Config(**SMALL, device="auto,count=2")))
assert programs.mesh.size == 2
state, _ = programs.updates(programs.init(0))
compilations = []
jax.monitoring.register_event_duration_secs_listener(lambda event, seconds, **_: compilations.append(event))
programs.updates(state, 3)
assert not [event for event in compilations if "compile" in event], compilations
"""


@pytest.mark.slow
def test_a_cpu_uses_one_device_by_default_and_two_compile_once():
    flags = "--xla_force_host_platform_device_count=2"
    subprocess.run([sys.executable, "-c", TWO_DEVICES], env=os.environ | {"XLA_FLAGS": flags}, check=True, timeout=300)


def test_double_precision_is_refused():
    with jax.enable_x64(True), pytest.raises(ValueError, match=r"jax_enable_x64: .*single precision"):
        Learner.of(contextual_bandit(3)).init(0)
