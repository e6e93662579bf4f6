"""Keeps a task's claim of its slice on the control topic, also after that topic was deleted and created again."""

from __future__ import annotations

import logging
import time

from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import READ_TIMEOUT, Claim, ControlWriter
from mirror.errors import ClusterAway, FlowError
from mirror.settings import Flow
from mirror.timing import ABORT_INTERVAL, LEADER_TRANSACTION

log = logging.getLogger(__name__)

RETRY_DELAY = 1.0  # seconds
POLL_TIMEOUT = 0.2  # seconds
# Seconds within which a claim can be read back, also if a flow leader has died in a transaction right before it.
READ_BACK = LEADER_TRANSACTION + ABORT_INTERVAL + READ_TIMEOUT


class Claimant:
    """Writes a claim, and writes it again when the control topic was deleted and created again."""

    def __init__(self, flow: Flow, control: ControlReader, writer: ControlWriter, claim: Claim) -> None:
        self._flow = flow
        self._control = control
        self._writer = writer
        self._claim = claim
        self._claimed_in = -1  # how often the control topic had been recreated when the claim was written
        self._retry_at = 0.0

    def claim(self) -> None:
        """Write the claim and wait until it can be read back. Raises ClusterAway, FlowError.

        A transaction of the flow leader that is still open hides what follows it, and the topic seems to end there.
        Until its own claim has been read, a task sees that of the task before it, and would take that for a newer one.
        Afterwards it may see that a newer one has claimed the slice since.
        """
        self._write()
        deadline = time.monotonic() + READ_BACK
        while not self._is_read:
            if time.monotonic() > deadline:
                self._read_at_last()
            self._control.poll(POLL_TIMEOUT)
            self.keep()

    @property
    def _is_read(self) -> bool:
        return self._claim.task in self._control.kept_claims.recent

    def _read_at_last(self) -> None:
        self._control.read_to_end()  # raises ClusterAway if the target gives no answer
        if not self._is_read:
            where = f"flow {self._flow.name}: the claim of slice {self._claim.slice} on {self._flow.control_topic}"
            raise FlowError(f"{where} can't be read back: a transaction hides it")

    def _write(self) -> None:
        recreations = self._control.recreations
        self._writer.claim(self._claim)
        self._claimed_in = recreations

    def keep(self) -> None:
        """Claim again if the topic was recreated: an older task of the slice may not have read the first claim."""
        if self._control.recreations == self._claimed_in or time.monotonic() < self._retry_at:
            return
        try:
            self._write()
        except (ClusterAway, FlowError) as error:
            self._retry_at = time.monotonic() + RETRY_DELAY
            log.debug("slice not claimed again yet", extra={"flow": self._flow.name, "reason": str(error)})
