"""Quotas: whether a cluster throttles a task's clients (KIP-13, KIP-124)."""

from __future__ import annotations

import time

from confluent_kafka import ThrottleEvent

from mirror.model import SIDES, Side
from mirror.settings import Flow

REPORTED_FOR = 5.0  # seconds: report throttling for this long after the last throttled answer
LONGEST = 60.0  # seconds that one answer counts at most: a broker may say any time


class Throttle:
    """A client's `throttle_cb`. librdkafka calls it with each answer that says for how long the client is throttled.

    The batch path's clients call `note`. Any thread may.
    """

    def __init__(self) -> None:
        self._until = 0.0  # monotonic

    def __call__(self, event: ThrottleEvent) -> None:
        if event.throttle_time > 0:  # seconds
            self.note(event.throttle_time)

    def note(self, seconds: float) -> None:
        """The cluster throttles a client for so many seconds."""
        self._until = max(self._until, time.monotonic() + min(seconds, LONGEST) + REPORTED_FOR)

    @property
    def active(self) -> bool:
        """True while the cluster's quotas slow the client down."""
        return time.monotonic() < self._until


class Throttles:
    """The throttles of all clients with which a task copies, one for each cluster."""

    def __init__(self, flow: Flow) -> None:
        self.source, self.target = Throttle(), Throttle()
        self._aliases: dict[Side, str] = {"source": flow.source.alias, "target": flow.target.alias}

    @property
    def active(self) -> list[Side]:
        """The clusters whose quotas slow the task down."""
        return [side for side in SIDES if getattr(self, side).active]

    def reason(self, side: Side) -> str:
        """The reason as a text for people."""
        return f"slowed down by a quota of {self._aliases[side]}"
