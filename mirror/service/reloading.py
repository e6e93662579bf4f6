"""A thread that reads the configuration again when a file of it has changed, or on SIGHUP."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from typing import Protocol

from mirror import logs
from mirror.errors import ConfigError
from mirror.service_settings import Reloaded, Settings
from mirror.status.configuration import ConfigurationStatus
from mirror.text import BUG, listed

log = logging.getLogger(__name__)

LOOK_INTERVAL = 0.5  # seconds between two looks at the files
LISTED_MAX = 50  # problems, or keys, in one log line


class Configuration(Protocol):
    """The configuration files of the service."""

    def has_changed(self) -> bool:
        """True once after the content of a file has changed."""

    def reload(self) -> Reloaded:
        """Read the files again. Raises ConfigError, after which the old settings are in force."""


class Hangups:
    """Counts SIGHUPs, each of which would end the process otherwise. Child processes do not inherit this."""

    def __init__(self) -> None:
        self.count = 0

    def listen(self) -> None:
        """Count from now on. Only the main thread may call this."""
        signal.signal(signal.SIGHUP, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.count += 1


class Reloader(threading.Thread):
    """Looks at the files until the service ends. An invalid configuration changes nothing.

    It is not the main thread, since a file system that does not answer must not keep the service from stopping.
    """

    def __init__(
        self,
        configuration: Configuration,
        hangups: Hangups,
        status: ConfigurationStatus,
        apply: Callable[[Settings], object],
    ) -> None:
        """`apply` gets the settings that are in force from now on."""
        super().__init__(daemon=True, name="configuration")
        self._configuration = configuration
        self._hangups = hangups
        self._status = status
        self._apply = apply
        self._answered = 0  # hangups; one that came while the files were first read is not answered yet
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()

    def run(self) -> None:
        """Look again and again."""
        while not self._stopping.wait(LOOK_INTERVAL):
            self.look()

    def look(self, now: bool = False) -> bool:
        """Read the files again if one has changed, if a hangup asks for it, or `now`. False if that was in vain."""
        try:
            asked = self._hangups.count
            if now or asked != self._answered or self._configuration.has_changed():
                self._answered = asked
                return self._reload()
        except Exception as error:  # the service goes on with the settings that it has
            log.exception(BUG)
            self._status.failed(f"{BUG}: {type(error).__name__}; the log has it")
            return False
        return True

    def _reload(self) -> bool:
        try:
            found = self._configuration.reload()
        except ConfigError as error:
            reason = listed(error.problems, LISTED_MAX, noun="problem")
            said = "configuration not reloaded, the old settings stay in force"
            log.error(said, extra={"reason": reason, **logs.EACH_TIME})
            self._status.failed(reason)
            return False
        logs.set_level(found.settings.log.level)
        self._apply(found.settings)
        self._status.reloaded(found.waiting)
        log.info(
            "configuration reloaded", extra={"changed": listed(found.applied, LISTED_MAX, noun="key") or "nothing"}
        )
        if found.waiting:
            said = "these keys changed, and take effect at the next start"
            log.warning(said, extra={"keys": listed(found.waiting, LISTED_MAX, noun="key"), **logs.EACH_TIME})
        return True
