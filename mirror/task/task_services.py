"""What the copiers of one task share, and nothing else of the task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from mirror.clock import Clock
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.throttling import Throttles
from mirror.settings import Flow
from mirror.source.fetcher import Seek
from mirror.target.position_reader import PositionReader
from mirror.task.followed_plan import Plan
from mirror.task.look_budget import LookBudget
from mirror.task.producer_budget import ProducerBudget
from mirror.task.rate_limits import RateLimits
from mirror.task.scheduler import Steps


class Scheduler(Protocol):
    """Has steps made."""

    def schedule(self, item: Steps, delay: float) -> None:
        """Have `item.step` called in `delay` seconds."""


class Moves(Protocol):
    """Hands moves to the fetcher's thread, for only that one may touch the consumer."""

    def put(self, item: Seek[Any], /) -> None:
        """Have the consumer seek."""


@dataclass(frozen=True, slots=True)
class TaskServices:
    """The same for all copiers of a task, but for what the flow says of single topics."""

    plan: Plan
    positions: PositionReader
    source: ClusterAdmin
    throttles: Throttles
    group_metadata: bytes
    moves: Moves
    scheduler: Scheduler
    producers: ProducerBudget
    clock: Clock
    limits: RateLimits
    looks: LookBudget = field(default_factory=LookBudget)
    topic: str | None = None  # of the copiers that have these services; None: they are the task's

    @property
    def flow(self) -> Flow:
        """The flow's settings as they are now: ask again for each use, since a reload changes some of them."""
        return self.plan.flow if self.topic is None else self.plan.flow.of_topic(self.topic)

    def of_topic(self, topic: str) -> TaskServices:
        """The services for copiers of this source topic: their flow has what is different for it."""
        return replace(self, topic=topic)
