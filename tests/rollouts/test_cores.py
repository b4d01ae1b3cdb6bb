"""The cores of this process."""

import os

import pytest

from factorax.rollouts.cores import available_cores


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
