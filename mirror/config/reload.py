"""The configuration of a running service: notices that its files have changed, and reads them again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mirror.config.explain import key_path
from mirror.config.files import Files
from mirror.config.hiding import without_references
from mirror.config.load import checked, secret_files, settings_of, spark_references, warnings_of
from mirror.config.located_yaml import Location
from mirror.config.model import RootModel
from mirror.config.reload_blend import blend, differing
from mirror.errors import ConfigError
from mirror.service_settings import Reloaded, Settings
from mirror.watched_files import FilesWatch


class Configuration:
    """The files of a service, and the settings in force."""

    def __init__(self, paths: Sequence[Path], environ: Mapping[str, str] = os.environ) -> None:
        """Read the files. Raises ConfigError as `load` does."""
        self._paths = tuple(paths)
        self._environ = environ
        self._watch = FilesWatch(self._paths)  # first: a change while the files are read is noticed later
        files, self._root = checked(self._paths, environ)
        self._references, self._secrets = spark_references(files), secret_files(files)
        self.settings: Settings = settings_of(
            self._root, self._references, self._secrets, warnings_of(self._root, files)
        )
        # How often `replace` has found more changed than what clients read again from files of their own.
        self.replaced = 0

    def has_changed(self) -> bool:
        """True once after the content of a file has changed: see FilesWatch.

        Files that `${file:...}` refers to are not looked at: see kafka/credentials.py for those of clients.
        """
        return self._watch.has_changed()

    def reload(self) -> Reloaded:
        """Read the files again, and take what can change while the service runs.

        Raises ConfigError, after which the old settings are in force.
        """
        files, written = self._read_again()
        blended = blend(self._root, written, self._followed(files))
        self._root = blended.root
        self.settings = settings_of(blended.root, self._references, self._secrets, warnings_of(written, files))
        waiting = dict.fromkeys(
            (*(without_references(each, files) for each in blended.waiting), *self._moved(secret_files(files)))
        )
        return Reloaded(self.settings, blended.applied, tuple(waiting))

    def replace(self, check: Callable[[Settings], object]) -> Reloaded:
        """Read the files again, and take all of them, as a start does. So nothing may run with the old settings.

        Raises ConfigError, and what `check` of the new settings raises. After that the old settings are in force.
        """
        files, written = self._read_again()
        references, secrets = spark_references(files), secret_files(files)
        settings = settings_of(written, references, secrets, warnings_of(written, files))
        check(settings)
        changed = differing(self._root, written, self._followed(files))
        others = references, secrets, _order(written)
        if changed or others != (self._references, self._secrets, _order(self._root)):
            self.replaced += 1
        self._root, self._references, self._secrets, self.settings = written, references, secrets, settings
        return Reloaded(self.settings, changed, ())

    def _moved(self, secrets: Mapping[Location, str]) -> list[str]:
        """The keys whose values come from another file than before, or no longer from one, or only now.

        Their texts may be the same. But whoever needs them goes on to read the files that it had at its start.
        """
        both = dict.fromkeys((*self._secrets, *secrets))
        return [key_path(key) for key in both if self._secrets.get(key) != secrets.get(key)]

    def _followed(self, files: Files) -> frozenset[Location]:
        """The keys whose values come from the same file as before: whoever needs them has read that again already."""
        return frozenset(location for location, _ in secret_files(files).items() & self._secrets.items())

    def _read_again(self) -> tuple[Files, RootModel]:
        self._watch.note()
        for path in self._paths:
            if _is_special(path):  # to open a pipe could take for ever
                raise ConfigError(
                    [f"{path}: not a regular file, so it can't be read again: write a file, and start again with that"]
                )
        return checked(self._paths, self._environ)


def _order(root: RootModel) -> list[tuple[str, str]]:
    return [(flow.source, flow.target) for flow in root.flows]


def _is_special(path: Path) -> bool:
    try:
        return path.exists() and not path.is_file()
    except OSError:  # reading it says why
        return False
