"""Temporary directories of services that were killed."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirror.spark.run_directory import RunDirectory
from tests.harness.waiting import PATIENCE

HOLD = "from mirror.spark.run_directory import RunDirectory; s = RunDirectory(); print(s.path, flush=True); input()"


def test_what_a_killed_service_left_is_removed_and_what_runs_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is found through the environment, as services find theirs."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    killed, running = (subprocess.Popen([sys.executable, "-c", HOLD], **pipes) for _ in range(2))  # type: ignore[call-overload]
    try:
        left, used = (Path(process.stdout.readline().strip()) for process in (killed, running))
        assert left.is_dir() and used.is_dir()
        killed.kill()
        killed.wait()
        own = RunDirectory()
        assert not left.exists() and used.is_dir() and own.path.is_dir()
        own.remove()
        assert not own.path.exists()
    finally:
        for process in (killed, running):
            process.kill()
            process.communicate()


def plant(directory: Path, mode: int = 0o700) -> Path:
    """A directory as a killed service leaves it, with a lock that nobody holds; returns the lock."""
    directory.mkdir()
    directory.chmod(mode)
    lock = directory / "lock"
    lock.touch()
    return lock


def swept(parent: Path) -> None:
    """What a service does at its start, in a process that may hang."""
    code = "from mirror.spark.run_directory import RunDirectory; RunDirectory().remove()"
    environment = {**os.environ, "TMPDIR": str(parent)}
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=PATIENCE, check=True)


def test_a_fifo_in_place_of_the_lock_does_not_hold_the_start(tmp_path: Path) -> None:
    lock = plant(tmp_path / "mirror-run-x")
    lock.unlink()
    os.mkfifo(lock)
    swept(tmp_path)
    assert lock.exists(), "nothing that a service has left"


def test_a_fifo_in_place_of_the_directory_does_not_hold_the_start(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mirror-run-x")
    swept(tmp_path)
    assert (tmp_path / "mirror-run-x").exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link is not followed in place of the directory, nor in place of the lock."""
    elsewhere = plant(tmp_path / "elsewhere")
    (tmp_path / "mirror-run-x").symlink_to(elsewhere.parent)
    linked = plant(tmp_path / "mirror-run-y")
    linked.unlink()
    linked.symlink_to(elsewhere)
    swept(tmp_path)
    assert elsewhere.exists() and linked.is_symlink()


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o1777])
def test_a_directory_that_others_can_enter_is_left_alone(tmp_path: Path, mode: int) -> None:
    lock = plant(tmp_path / "mirror-run-x", mode)
    swept(tmp_path)
    assert lock.exists()


@pytest.mark.parametrize("whole", [True, False], ids=["directory", "lock"])
def test_what_belongs_to_another_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    lock = plant(tmp_path / "mirror-run-x")
    if os.geteuid() == 0:
        os.chown(lock.parent if whole else lock, 12345, 12345)
    else:  # who can't give anything away is somebody else meanwhile
        stranger = os.geteuid() + 1
        monkeypatch.setattr("os.geteuid", lambda: stranger)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    RunDirectory().remove()
    assert lock.exists()


def test_what_removes_old_files_leaves_the_directory_of_a_long_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd-tmpfiles passes over a directory that it can't lock, with all that is in it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = RunDirectory()
    place = os.open(own.path, os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        own.remove()
        own.remove()
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(place)


def test_what_is_left_is_removed(tmp_path: Path) -> None:
    """The same directory, but as a service leaves it: so the tests above can fail."""
    lock = plant(tmp_path / "mirror-run-x")
    swept(tmp_path)
    assert not lock.parent.exists()
