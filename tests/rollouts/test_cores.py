"""The cores of this process."""

import os

import pytest

from factorax.rollouts import cores
from factorax.rollouts.cores import available_cores


@pytest.fixture(autouse=True)
def quota(monkeypatch, tmp_path):
    """A file in place of that of the system, which a container may have."""
    monkeypatch.setattr(cores, "QUOTA", tmp_path / "cpu.max")
    return tmp_path / "cpu.max"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_cores_are_those_of_the_process():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert available_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert available_cores() == len(before)


def test_other_systems_tell_the_cores_of_the_machine(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max 100000\n", 16),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("1000 100000\n", 1),
        ("?", 16),
        ("1 0", 16),
    ],
)
def test_a_container_may_have_less_time_than_cores(monkeypatch, quota, text, expected):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    quota.write_text(text)
    assert available_cores() == expected
