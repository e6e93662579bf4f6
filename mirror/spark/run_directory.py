"""The temporary directory of one run, and the removal of those that killed runs have left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX, LOCK = "mirror-run-", "lock"


class RunDirectory:
    """A temporary directory. Its lock ends with the process, so directories of killed runs are found and removed."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Locked before it gets its name, or another run's sweep could come between the two.
        taken = self.path / "taken"
        self._lock = taken.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        taken.rename(self.path / LOCK)
        # systemd-tmpfiles removes old files from the temporary directory, but leaves a directory alone that is locked.
        self._own = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._own, fcntl.LOCK_SH)

    def remove(self) -> None:
        """Remove the directory, as far as possible: a JVM that is still ending may write there."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()
        if self._own >= 0:
            os.close(self._own)
            self._own = -1


def _sweep(parent: Path) -> None:
    for directory in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), _opened(directory, os.O_DIRECTORY) as place:
            # Only directories that mkdtemp could have made: no other user could put anything into them.
            if not os.fstat(place).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                _remove_left(directory, place)


def _remove_left(directory: Path, place: int) -> None:
    with _opened(LOCK, 0, place) as lock:
        if stat.S_ISREG(os.fstat(lock).st_mode):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises BlockingIOError while its process runs
            shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _opened(name: Path | str, flags: int, place: int | None = None) -> Iterator[int]:
    """Open a file or directory of our own; raises OSError for another user's.

    Everybody may write to the temporary directory. So a FIFO must not block us, and a link must not lead us elsewhere.
    """
    found = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=place)
    try:
        if os.fstat(found).st_uid != os.geteuid():
            raise PermissionError(f"{name} is another user's")
        yield found
    finally:
        os.close(found)
