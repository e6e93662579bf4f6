"""Quotas: whether a cluster slows a task's clients down (KIP-13, KIP-124)."""

from __future__ import annotations

import time
from typing import Literal, get_args

from confluent_kafka import ThrottleEvent

from mirror.settings import Flow

Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = get_args(Side)
STILL = 5.0  # seconds after which the next answer would have said it again


class Throttle:
    """A client's `throttle_cb`, called with each answer that a broker has held back."""

    def __init__(self) -> None:
        self._until = 0.0  # monotonic

    def __call__(self, event: ThrottleEvent) -> None:
        if event.throttle_time > 0:  # seconds
            self._until = max(self._until, time.monotonic() + event.throttle_time + STILL)

    @property
    def active(self) -> bool:
        """Do the cluster's quotas slow the client down?"""
        return time.monotonic() < self._until


class Throttles:
    """Of all clients with which a task copies."""

    def __init__(self, flow: Flow) -> None:
        self.source, self.target = Throttle(), Throttle()
        self._aliases: dict[Side, str] = {"source": flow.source.alias, "target": flow.target.alias}

    @property
    def active(self) -> list[Side]:
        """Whose quotas slow the task down."""
        return [side for side in SIDES if getattr(self, side).active]

    def reason(self, side: Side) -> str:
        """For people."""
        return f"slowed down by a quota of {self._aliases[side]}"
