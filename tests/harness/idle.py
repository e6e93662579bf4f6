"""A task in which nobody makes a step."""

from __future__ import annotations

from typing import Any

from mirror.clock import Clock
from mirror.settings import Flow
from mirror.task.queues import Steppable
from mirror.task.rate_limits import RateLimits
from mirror.task.task_services import TaskServices


class Idle:
    """A plan and a scheduler whose copiers never make a step: only what the fetcher gives them counts here."""

    renew_interval = 3600.0
    flow: Flow

    def schedule(self, item: Steppable, delay: float) -> None:
        """Nobody is woken."""

    def services(self, flow: Flow) -> TaskServices:
        """What a copier needs as long as it makes no step."""
        self.flow = flow
        idle: Any = self
        clock = Clock()
        return TaskServices(idle, idle, idle, idle, b"", idle, idle, idle, clock, RateLimits(clock))
