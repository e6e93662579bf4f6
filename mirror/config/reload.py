"""The configuration of a running service: notices that its files have changed, and reads them again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mirror.config.files import Files
from mirror.config.load import checked, settings_of, spark_references, warnings_of
from mirror.config.model import RootModel
from mirror.config.references import SIZE_MAX
from mirror.config.reload_effects import blend, differing
from mirror.errors import ConfigError
from mirror.settings import Reloaded, Settings

_Stat = tuple[int, int, int, int]  # device, inode, time of the last change, size


class Configuration:
    """The files of a service, and the settings in force."""

    def __init__(self, paths: Sequence[Path], environ: Mapping[str, str] = os.environ) -> None:
        """Read the files. Raises ConfigError as `load` does."""
        self._paths = tuple(paths)
        self._environ = environ
        self._watch = _Watch(self._paths)  # first: a change while the files are read is noticed later
        files, self._root = checked(self._paths, environ)
        self._references = spark_references(files)
        self.settings: Settings = settings_of(self._root, self._references, warnings_of(self._root, files))

    def has_changed(self) -> bool:
        """True once after the content of a file has changed, as soon as two calls in a row find the file the same.

        So a file that is being written is left alone. A symbolic link is followed, as in a ConfigMap of Kubernetes.
        Files that `${file:...}` refers to are not looked at.
        """
        return self._watch.has_changed()

    def reload(self) -> Reloaded:
        """Read the files again, and take what can change while the service runs.

        Raises ConfigError, after which the old settings are in force.
        """
        files, written = self._read_again()
        blended = blend(self._root, written)
        self._root = blended.root
        self.settings = settings_of(blended.root, self._references, warnings_of(written, files))
        return Reloaded(self.settings, blended.applied, blended.waiting)

    def replace(self, check: Callable[[Settings], object]) -> Reloaded:
        """Read the files again, and take all of them, as a start does. So nothing may run with the old settings.

        Raises ConfigError, and what `check` of the new settings raises. After that the old settings are in force.
        """
        files, written = self._read_again()
        references = spark_references(files)
        settings = settings_of(written, references, warnings_of(written, files))
        check(settings)
        changed = differing(self._root, written)
        self._root, self._references, self.settings = written, references, settings
        return Reloaded(settings, changed, ())

    def _read_again(self) -> tuple[Files, RootModel]:
        self._watch.note()
        for path in self._paths:
            if _is_special(path):  # to open a pipe could take for ever
                raise ConfigError(
                    [f"{path}: not a regular file, so it can't be read again: write a file, and start again with that"]
                )
        return checked(self._paths, self._environ)


def _is_special(path: Path) -> bool:
    try:
        return path.exists() and not path.is_file()
    except OSError:  # reading it says why
        return False


class _Watch:
    """Compares files with what they were: first what costs little, then their content."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self.note()

    def note(self) -> None:
        """Take the files as they are now for known."""
        self._known = self._last = [_stat(path) for path in self._paths]
        self._digests = [_digest(path) for path in self._paths]

    def has_changed(self) -> bool:
        """See `Configuration.has_changed`."""
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
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _digest(path: Path) -> bytes | None:
    """Of the part of a regular file that can count; None if there is no such file, or it can't be read."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.sha256(file.read(SIZE_MAX + 1)).digest()
    except (OSError, ValueError):
        return None
