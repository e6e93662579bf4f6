"""A small file system that can be filled: a tmpfs where we may mount one, else an ordinary directory."""

from __future__ import annotations

import contextlib
import errno
import io
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType


class CannotRun(Exception):
    """A row that needs what this machine does not allow."""


class Disk:
    """A context manager: the directory `place` with room for so many megabytes."""

    def __init__(self, place: Path, megabytes: int) -> None:
        self._place = place
        self._megabytes = megabytes
        self._mounted = False

    def __enter__(self) -> Disk:
        self._place.mkdir(parents=True)
        mount = shutil.which("mount")
        if mount is not None:
            command = [mount, "-t", "tmpfs", "-o", f"size={self._megabytes}m,mode=0700", "tmpfs", str(self._place)]
            done = subprocess.run(command, capture_output=True, check=False)
            self._mounted = done.returncode == 0
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._mounted:
            subprocess.run(["umount", "--lazy", self._place], check=True)

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """A context in which not a byte is free. Raises CannotRun."""
        if not self._mounted:
            raise CannotRun("a tmpfs can't be mounted here (that needs root)")
        filler = self._place / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                for size in (1024 * 1024, 4096):
                    _write_until_full(file, bytes(size))
            yield
        finally:
            filler.unlink()


def _write_until_full(file: io.FileIO, block: bytes) -> None:
    try:
        while True:
            file.write(block)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
