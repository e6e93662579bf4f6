"""The directory that one run of the service fills and nobody needs afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from pathlib import Path

PREFIX, LOCK = "mirror-run-", "lock"


class Scratch:
    """A temporary directory. Its lock ends with the process: so what a killed service left is known, and removed."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        # Locked before it has its name, or another service's sweep could come between.
        taken = self.path / "taken"
        self._lock = taken.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        taken.rename(self.path / LOCK)

    def remove(self) -> None:
        """Remove it with all it holds; a JVM that still ends may be writing there."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _sweep(parent: Path) -> None:
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError), lock.open() as file:  # another user's, or still in use
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
