"""Files that may change while mirror runs: whether they have, and the text of one that holds a secret."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

# The limit of a Kubernetes ConfigMap.
SIZE_MAX = 2**20  # bytes of a file

# Device, inode, size, the time of the last change of the content, and that of permissions or content.
_Stat = tuple[int, int, int, int, int]


def secret_of(path: Path) -> str:
    """The text of a file without its last line ends: mounted secrets often have one that is not part of them.

    Raises OSError, and ValueError if it is not UTF-8 or too large.
    """
    return content_of(path, SIZE_MAX).decode("utf-8").rstrip("\r\n")


def changed_secret_of(path: Path) -> str:
    """The same of a file that has changed. Raises ValueError also for an empty text, and for one with a NUL.

    Nobody means an empty secret: the file was truncated to be written anew, or the disk is full. A client would take
    what is before a NUL for the whole.
    """
    found = secret_of(path)
    if not found or "\0" in found:
        raise ValueError("empty, or with a NUL")
    return found


def content_of(path: Path, limit: int, which: str = "") -> bytes:
    """The bytes of a file. Raises OSError, and ValueError for more than `limit` bytes."""
    with path.open("rb") as file:
        found = file.read(limit + 1)
    if len(found) > limit:
        raise ValueError(f"larger than {SIZE_MAX:,} bytes{which}")
    return found


class FilesWatch:
    """Compares files with what they were: first what costs little, then their content."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self.note()

    def note(self) -> None:
        """Take the files as they are now for known."""
        self._known = self._last = [_stat(path) for path in self._paths]
        self._digests = [_digest(path) for path in self._paths]

    def has_changed(self) -> bool:
        """True once after the content of a file has changed, as soon as two calls in a row find the file the same.

        So a file that is being written is left alone. A symbolic link is followed, as in a volume of Kubernetes. A file
        that could not be read, and can be read now, has changed, too.
        """
        now = [_stat(path) for path in self._paths]
        before, self._last = self._last, now
        if now == self._known or now != before:
            return False
        self._known = now
        before_digests, self._digests = self._digests, [_digest(path) for path in self._paths]
        return self._digests != before_digests


def _stat(path: Path) -> _Stat | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _digest(path: Path) -> bytes | None:
    """Of the part of a regular file that can count; None if there is no such file, or it can't be read."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.sha256(file.read(SIZE_MAX + 1)).digest()
    except (OSError, ValueError):
        return None
