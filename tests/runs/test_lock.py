"""The lock of a run folder: one process at a time, for as long as the process lives, and no other file is touched."""

import os
import signal
import subprocess
import sys

import pytest

from factorax.runs.folder import LOCK, lock

HOLD = """
import sys, time
from pathlib import Path
from factorax.runs.folder import lock
with lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""
IN_USE = "is in use by another process; want another folder"


@pytest.fixture
def other(tmp_path):
    """Another process that holds the folder."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_one_process_at_a_time_and_the_hold_ends_with_it(other, tmp_path):
    with pytest.raises(FileExistsError, match=IN_USE), lock(tmp_path):
        pass
    other.kill()
    other.wait()
    with lock(tmp_path):
        pass


FORK = """
import os, signal, sys, time
from pathlib import Path
from factorax.runs.folder import lock
with lock(Path(sys.argv[1])):
    parent = os.getpid()
    if os.fork():
        time.sleep(60)
    print(os.getpid(), flush=True)
    os.kill(parent, signal.SIGKILL)
    time.sleep(60)
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_keep_the_folder_locked(tmp_path):
    """Such as a simulator that an environment starts, which outlives a killed learner."""
    with subprocess.Popen([sys.executable, "-c", FORK, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.wait()
        try:
            with lock(tmp_path):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_one_process_locks_a_folder_only_once(tmp_path):
    with lock(tmp_path):
        with pytest.raises(FileExistsError, match=IN_USE), lock(tmp_path):
            pass
        with pytest.raises(FileExistsError, match=IN_USE), lock(tmp_path):  # the attempt has not released it
            pass
    with lock(tmp_path):
        pass


def test_a_link_is_refused_and_what_it_leads_to_is_left(tmp_path):
    (tmp_path / "thesis.tex").write_text("all of it")
    (tmp_path / LOCK).symlink_to(tmp_path / "thesis.tex")
    with (
        pytest.raises(FileExistsError, match=r"\.lock' is a symbolic link, want a plain file; remove it"),
        lock(tmp_path),
    ):
        pass
    assert (tmp_path / "thesis.tex").read_text() == "all of it"


def test_a_link_that_leads_nowhere_makes_no_file(tmp_path):
    (tmp_path / LOCK).symlink_to(tmp_path / "new")
    with pytest.raises(FileExistsError, match="is a symbolic link"), lock(tmp_path):
        pass
    assert not (tmp_path / "new").exists()
