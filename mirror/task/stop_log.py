"""The log lines of a partition that an error has stopped, on either data path, and of what it skips."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from mirror.control.partition_state import State
from mirror.errors import MirrorError
from mirror.logs import OnChange

log = logging.getLogger(__name__)


class StopLog:
    """Warns of an error once, until the partition is copied again. `where` are the fields of a log line."""

    def __init__(self, where: Mapping[str, object]) -> None:
        self._where = where
        self._errors = OnChange()

    def stopped(self, error: MirrorError, state: State) -> None:
        """The error has stopped the partition, which is in this state now.

        If a cluster is away, this is only a debug line: the flow leader logs it.
        """
        is_new = self._errors.is_new(str(error))
        level = logging.WARNING if is_new and not error.away else logging.DEBUG
        what = "partition is blocked until a person acts" if error.blocked else "partition is retrying"
        log.log(level, what, extra={**self._where, "state": state.value, "reason": str(error)})

    def copied(self) -> None:
        """The partition is copied again: the next error is new."""
        self._errors.clear()


class SkipLog:
    """Warns of what a partition skips. `where` are the fields of a log line."""

    def __init__(self, where: Mapping[str, object]) -> None:
        self._where = where
        self._skips = OnChange()

    def log(self, what: str, reason: str, **more: object) -> None:
        """Log a skip once, before committing it, so that a crash after the commit cannot lose the message."""
        if self._skips.is_new((what, reason)):
            log.warning(what, extra={**self._where, "reason": reason, **more})
