"""Eight devices do what one does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from factorax.learning import Config, Learner
from factorax.problems import contextual_bandit


@pytest.fixture(scope="module")
def found():
    """Differences between training on one device and on eight of a process of its own."""
    flags = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # it runs for a moment
    }
    script = Path(__file__).with_name("eight_devices.py")
    done = subprocess.run([sys.executable, str(script)], env=flags, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["shared", "normalised", "seeds"])
def test_eight_devices_agree_with_one_to_rounding(found, name):
    assert found[name] < 1e-4
    assert found["another seed"] > 0.01  # so that it means something


def test_a_checkpoint_of_eight_devices_is_one_of_any(found):
    assert found["loaded"] == 0


def test_every_device_has_its_share(found):
    assert set(found["shares"]) == {8}
    (n_envs, size), piece = found["pieces"]
    assert piece == [n_envs // 8, size]
    assert found["reduces"] > 0
    assert found["by itself"] == 8


@pytest.mark.parametrize(("devices", "message"), [(-1, "devices: got -1"), (2, "devices: got 2, and there are 1 here")])
def test_devices_that_are_not_there(devices, message):
    with pytest.raises(ValueError, match=message):
        Learner.of(contextual_bandit(4), config=Config(devices=devices))
