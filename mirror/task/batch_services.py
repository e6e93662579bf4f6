"""What the batch copiers of a task share, and what each of them keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirror.clock import Clock
from mirror.control.reports import NOWHERE, Counters
from mirror.model import Partition, Topic
from mirror.settings import Flow
from mirror.source.batch_fetcher import BatchFetcher
from mirror.target.loading import Tokens
from mirror.target.take_over_places import Places
from mirror.target.unconfirmed import UnconfirmedTransactions
from mirror.task.followed_plan import PlanView
from mirror.task.known_positions import KnownPositions
from mirror.task.look_budget import LookBudget
from mirror.task.ownership import Ownership
from mirror.task.rate_limits import RateLimits, Turns
from mirror.wire.cluster import Cluster


@dataclass(slots=True)
class Books:
    """What the batch copier keeps while it takes over again and again."""

    known: KnownPositions
    counters: Counters
    turns: Turns
    foreign: tuple[int, int] = NOWHERE  # the last offsets at which somebody else has written to the remote partition


@dataclass(frozen=True, slots=True)
class BatchServices:
    """What the batch copiers of one task share."""

    plan: PlanView
    fetcher: BatchFetcher
    target: Cluster
    tokens: Tokens
    limits: RateLimits
    clock: Clock
    ownership: Ownership
    taking_over: Places = field(default_factory=Places)
    looks: LookBudget = field(default_factory=LookBudget)
    unconfirmed: UnconfirmedTransactions = field(default_factory=UnconfirmedTransactions)  # the record path's, too

    def flow(self, topic: str) -> Flow:
        """The flow's settings for a source topic as they are now: a reload changes some of them."""
        return self.plan.flow.of_topic(topic)


@dataclass(frozen=True, slots=True)
class Route:
    """From where to where one partition is copied."""

    partition: Partition
    topic: Topic
