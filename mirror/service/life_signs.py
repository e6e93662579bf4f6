"""Gives the signs of life of one flow, and its goodbye: a standby takes over when it has heard none for long enough."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable

from mirror.control.control_topics import ControlWriter
from mirror.control.signs import GOODBYE_KEY, HOST_MAX, SIGN_KEY, Sign
from mirror.errors import MirrorError
from mirror.settings import Flow
from mirror.status.cluster_status import ClusterStatus
from mirror.text import BUG
from mirror.timing import SIGN_INTERVAL, SOURCE_PATIENCE

log = logging.getLogger(__name__)


class SourceSilence:
    """Whether the source has been silent for so long that this service can't do the flow's work any more."""

    def __init__(self) -> None:
        self._since: float | None = None  # monotonic time of the first look without an answer

    def is_long(self, reachable: bool | None, now: float) -> bool:
        """True once the source was not `reachable` (None: not known yet) for SOURCE_PATIENCE; `now` is monotonic."""
        if reachable is not False:
            self._since = None
        elif self._since is None:
            self._since = now
        return self._since is not None and now - self._since >= SOURCE_PATIENCE


class LifeSigns(threading.Thread):
    """Writes a sign every SIGN_INTERVAL while the flow's loop lives and its source answers, until `stopping` is set.

    It lives also while it starts, and while the flow is blocked: no other service could lead the flow then. A service
    whose source is silent gives none: a standby that reaches both clusters can do what this service can't. A
    standby that does not reach the source either goes on waiting.

    One thread and one producer write signs and goodbye, so that no sign comes after the goodbye.
    """

    def __init__(
        self,
        flow: Flow,
        service_id: str,
        lives: Callable[[], bool],
        source: ClusterStatus,
        stopping: threading.Event,
        leaves: Callable[[], bool] = lambda: False,
        waits: Callable[[], bool] = lambda: False,
    ) -> None:
        """`leaves` is asked once `stopping` is set. It waits for the end of the work; True: then say goodbye.

        `waits`: is another flow in the way?
        """
        super().__init__(daemon=True, name=f"signs {flow.name}")
        self._flow = flow
        self._service_id = service_id
        self._waits = waits
        self._lives = lives
        self._source = source
        self._stopping = stopping
        self._leaves = leaves
        self._silence = SourceSilence()
        self._writer: ControlWriter | None = None

    def run(self) -> None:
        """Give signs, and say goodbye at the end."""
        while not self._stopping.wait(SIGN_INTERVAL):
            if not self._silence.is_long(self._source.reachable, time.monotonic()) and self._lives():
                self._write(SIGN_KEY)
        if self._leaves() and self._write(GOODBYE_KEY):
            log.info("service has said goodbye, a standby takes over soon", extra={"flow": self._flow.name})

    def _write(self, key: bytes) -> bool:
        """Write a record, and return whether that went well. No failure ends the thread: the next sign is due soon."""
        try:
            self._writer = self._writer or ControlWriter(self._flow)
            self._writer.write({key: sign_of(self._service_id, self._waits())})
        except MirrorError as error:  # the flow's own thread tells that the target is away
            log.debug("no sign of life", extra={"flow": self._flow.name, "reason": str(error)})
        except Exception:
            log.exception(BUG, extra={"flow": self._flow.name})
        else:
            return True
        return False


def sign_of(service_id: str, waits: bool = False) -> bytes:
    """The sign of life of the service with this id, on this host."""
    return Sign(service_id, "".join(c for c in socket.gethostname() if " " <= c <= "~")[:HOST_MAX], waits).encode()
