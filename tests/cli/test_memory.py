"""Freed memory that the process keeps: what it costs to use it again, in pages that the system has to clear."""

import os
import platform
import subprocess
import sys

import pytest

from factorax.cli.memory import _OF_USERS, keep_freed_memory

PROGRAM = """
import resource, sys
import numpy as np
from factorax.cli.memory import keep_freed_memory

assert not sys.argv[1:] or keep_freed_memory()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    before = faults()
    np.ones(10_000_000)
print(faults() - before)
"""


def cleared(*options: str) -> int:
    """Return the number of pages that the system clears for a block of 80 MB, which was freed before."""
    own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith(_OF_USERS)}
    command = [sys.executable, "-c", PROGRAM, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=own)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver() < ("glibc", "2.35"), reason="older versions keep at most 32 MiB")
def test_freed_memory_is_used_again():
    assert 2 * cleared("keep") < cleared()


def test_settings_of_the_user_take_precedence(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert not keep_freed_memory()
