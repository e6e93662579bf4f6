"""Keeps a task's claim of its slice on the control topic, also after that topic was deleted and created again."""

from __future__ import annotations

import logging
import time

from mirror.control.control_reader import ControlReader
from mirror.control.control_topics import Claim, ControlWriter
from mirror.errors import ClusterAway, FlowError
from mirror.settings import Flow

log = logging.getLogger(__name__)

RETRY_DELAY = 1.0  # seconds


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
        """Write the claim and wait until it is acknowledged. Raises ClusterAway, FlowError."""
        recreations = self._control.recreations
        self._writer.claim(self._claim)
        self._claimed_in = recreations

    def keep(self) -> None:
        """Claim again if the topic was recreated: an older task of the slice may not have read the first claim."""
        if self._control.recreations == self._claimed_in or time.monotonic() < self._retry_at:
            return
        try:
            self.claim()
        except (ClusterAway, FlowError) as error:
            self._retry_at = time.monotonic() + RETRY_DELAY
            log.debug("slice not claimed again yet", extra={"flow": self._flow.name, "reason": str(error)})
