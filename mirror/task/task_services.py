"""What the copiers of one task share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from mirror.clock import Clock
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.provenance import ProvenanceFilter
from mirror.kafka.throttling import Throttles
from mirror.model import Partition, Topic
from mirror.settings import Flow
from mirror.source.fetch_moves import Seek
from mirror.target.position_reader import PositionReader
from mirror.target.unconfirmed import UnconfirmedTransactions
from mirror.task.followed_plan import PlanView
from mirror.task.last_entries import LastEntries
from mirror.task.look_budget import LookBudget
from mirror.task.producer_budget import ProducerBudget
from mirror.task.queues import Steppable
from mirror.task.rate_limits import RateLimits


class Scheduler(Protocol):
    """Runs steps."""

    def schedule(self, item: Steppable, delay: float) -> None:
        """Schedule `item.step` in `delay` seconds, in a transaction thread."""


class Moves(Protocol):
    """Hands moves to the main thread, because only that one may touch the consumer."""

    def put(self, item: Seek[Any], /) -> None:
        """Hand over a seek."""


@dataclass(frozen=True, slots=True)
class TaskServices:
    """What all copiers of a task share. Only the settings of single topics differ."""

    plan: PlanView
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
    last_entries: LastEntries = field(default_factory=LastEntries)
    unconfirmed: UnconfirmedTransactions = field(default_factory=UnconfirmedTransactions)
    topic: str | None = None  # of the copiers that have these services; None: these are the whole task's

    @property
    def flow(self) -> Flow:
        """The flow's settings as they are now: ask again for each use, since a reload changes some of them."""
        return self.plan.flow if self.topic is None else self.plan.flow.of_topic(self.topic)

    def of_topic(self, topic: str) -> TaskServices:
        """The services for copiers of this source topic: their `flow` has the topic's own settings."""
        return replace(self, topic=topic)

    def record_filter(self, partition: Partition, topic: Topic) -> ProvenanceFilter | None:
        """What leaves out the records that come back: with `active_active` only."""
        if not self.flow.active_active:
            return None
        source, target = self.plan.clusters
        return ProvenanceFilter(partition, (topic.remote, partition.partition), (source, target))
