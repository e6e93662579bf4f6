"""What the service knows of its own configuration: whether the last reload succeeded, and what waits for a start."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ConfigurationView:
    """How the configuration stands. Times are seconds since the Unix epoch."""

    succeeded_at: float  # when the settings in force were read; the files may have been read in vain since
    problem: str = ""  # why the last reload has failed; empty if it has not
    waiting: tuple[str, ...] = ()  # changed keys that take effect at the next start


class ConfigurationStatus:
    """The newest view. One thread changes it, any thread reads it."""

    def __init__(self) -> None:
        self.view = ConfigurationView(time.time())

    def reloaded(self, waiting: tuple[str, ...]) -> None:
        """The files were read, and all is in force but what waits for the next start."""
        self.view = ConfigurationView(time.time(), waiting=waiting)

    def failed(self, problem: str) -> None:
        """The files are wrong: the old settings stay in force."""
        self.view = replace(self.view, problem=problem)
