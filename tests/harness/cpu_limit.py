"""Holds processes to a part of a core, by a control group of the kernel's."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from tests.harness.waiting import until

ROOT = Path("/sys/fs/cgroup")
PERIOD = 100_000  # microseconds


@contextlib.contextmanager
def limited(processes: Iterable[psutil.Process], cores: float) -> Iterator[None]:
    """These processes, and all that they start meanwhile, get so many cores together. Needs root.

    Raises OSError where control groups can't be made.
    """
    first = ROOT / "cpu" if (ROOT / "cpu").is_dir() else ROOT  # version 1 has a hierarchy for each resource
    group = first / f"mirror-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    try:
        if first == ROOT:
            (group / "cpu.max").write_text(f"{int(cores * PERIOD)} {PERIOD}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(int(cores * PERIOD)))
        for process in processes:
            _put(process.pid, group)
        yield
    finally:
        until("the group is empty", lambda: _emptied(group, first))
        group.rmdir()


def _emptied(group: Path, into: Path) -> bool:
    for pid in _of(group):
        _put(int(pid), into)
    return not _of(group)


def _of(group: Path) -> list[str]:
    return (group / "cgroup.procs").read_text().split()


def _put(pid: int, group: Path) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may have ended meanwhile
        (group / "cgroup.procs").write_text(str(pid))
