"""Reads what a flow's tasks report into the flow's status."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from mirror.control.control_topics import ALL_REPORTS, StatusReader
from mirror.errors import ClusterAway
from mirror.settings import Flow
from mirror.status.flow_status import FlowStatus
from mirror.text import BUG

log = logging.getLogger(__name__)

BUG_DELAY = 10.0  # seconds until the reports are followed again after an unexpected error


class StatusFollower:
    """Reads the reports until `stopping` is set or `has_failed` says so, in a thread of its own."""

    def __init__(
        self, flow: Flow, status: FlowStatus, stopping: threading.Event, has_failed: Callable[[], bool]
    ) -> None:
        self._flow = flow
        self._status = status
        self._stopping = stopping
        self._has_failed = has_failed
        self._topic_was_made_again = threading.Event()

    def reconfigure(self, flow: Flow) -> None:
        """Take new settings for the next consumer."""
        self._flow = flow

    def topic_was_made_again(self) -> None:
        """The status topic was deleted and created again: it needs a new consumer."""
        self._topic_was_made_again.set()

    def follow(self) -> None:
        """Read the reports. Use a new consumer after the status topic was deleted and created again.

        librdkafka ignores the new topic's leader if its epoch is lower than the old topic's was (issue 4898 there).
        """
        reader: StatusReader | None = None
        back = 0
        while not self._stopping.is_set() and not self._has_failed():
            try:
                if self._topic_was_made_again.is_set():
                    self._topic_was_made_again.clear()
                    if reader is not None:
                        reader.close()
                    reader, back = None, ALL_REPORTS
                reader = reader or StatusReader(self._flow, back)
                self._status.absorb(reader.poll(0.5))
                self._status.ignored = reader.ignored
            except ClusterAway:
                self._stopping.wait(1.0)
            except Exception:  # copying must go on; the status is tried again later
                log.exception(BUG, extra={"flow": self._flow.name})
                self._stopping.wait(BUG_DELAY)
        if reader is not None:
            reader.close()
