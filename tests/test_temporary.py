"""Temporary folders: removed with their owner, or by the next process if that was killed; never those of others."""

import gc
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from factorax import _temporary
from factorax._temporary import TemporaryFolder, remove_abandoned

KILLED = """
import os, signal, sys
from factorax._temporary import TemporaryFolder
folder = TemporaryFolder("test")
(folder.path / "big").write_text("left")
print(folder.path, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """An own folder for temporary ones, here and in processes that are started."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_goes_with_its_owner(temporary):
    one, other = TemporaryFolder("a"), TemporaryFolder("b")
    assert {path.name.split("-")[1] for path in temporary.iterdir()} == {"a", "b"}
    (one.path / "file").touch()
    (one.path / "folder").mkdir()
    (one.path / "link").symlink_to(other.path)
    one.empty()
    assert not list(one.path.iterdir())
    assert other.path.is_dir()
    one.remove()
    del other
    gc.collect()
    assert not list(temporary.iterdir())


def test_what_a_killed_process_left_is_removed_and_nothing_else(temporary):
    killed = subprocess.run([sys.executable, "-c", KILLED, "killed"], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    left = temporary / killed.stdout.strip().rpartition("/")[2]
    assert (left / "big").exists()
    user_folder = temporary / "factorax-my-own-files"
    user_folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, "alive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as living:
        theirs = temporary / living.stdout.readline().strip().rpartition("/")[2]  # it has removed what was left
        assert not left.exists()
        ours = TemporaryFolder("test")
        os.utime(theirs, (0, 0))  # as if old: it is locked all the same
        remove_abandoned(temporary)
        assert sorted(temporary.iterdir()) == sorted([user_folder, theirs, ours.path])
        living.communicate("")
    assert sorted(temporary.iterdir()) == sorted([user_folder, ours.path])
    ours.remove()


def gone():
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_folders_of_other_users_and_links_stay(temporary, monkeypatch):
    target = temporary / "target"
    target.mkdir()
    link, folder = (temporary / f"factorax-test-{gone()}-{name}" for name in ("link", "folder"))
    link.symlink_to(target)
    folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    remove_abandoned(temporary)
    assert folder.is_dir()
    monkeypatch.undo()
    remove_abandoned(temporary)
    assert not folder.exists()
    assert link.is_symlink()
    assert target.is_dir()


def test_a_number_that_was_given_to_another_process_counts_for_an_hour(temporary):
    folder = temporary / f"factorax-test-{os.getppid()}-x"
    folder.mkdir()
    remove_abandoned(temporary)
    assert folder.is_dir()
    os.utime(folder, (0, 0))
    remove_abandoned(temporary)
    assert not folder.exists()


def test_without_locks_nothing_is_removed(temporary, monkeypatch):
    monkeypatch.setattr(_temporary, "fcntl", None)
    folder = temporary / f"factorax-test-{gone()}-x"
    folder.mkdir()
    TemporaryFolder("test").remove()
    assert list(temporary.iterdir()) == [folder]


TRAINING = """
import os, signal, sys
from factorax.learning import FactoredPPO
def end(model, metrics):
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
settings = {"n_envs": 1, "n_steps": 8, "batch_size": 8, "n_epochs": 1, "hidden": (4,), "rollouts": "processes"}
FactoredPPO("CartPole-v1", **settings).learn(8, end, progress_bar=False)
"""


@pytest.mark.slow
def test_a_run_removes_what_the_workers_of_a_killed_one_left(temporary):
    command = [sys.executable, "-W", "ignore", "-c", TRAINING]
    assert subprocess.run([*command, "killed"], check=False).returncode == -signal.SIGKILL
    assert [path.name.split("-")[1] for path in temporary.glob("factorax-*")] == ["workers"]
    subprocess.run([*command, "whole"], check=True)
    assert not list(temporary.glob("factorax-*"))
