"""Which partitions a task holds, as the newest plan says, and where each of them starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, OffsetSpec

from mirror.cluster import list_offsets
from mirror.control import ControlReader
from mirror.errors import MirrorError
from mirror.orders import Orders, Skip, is_paused
from mirror.plan import Partition, Topic
from mirror.positions import Positions
from mirror.settings import Flow


class Replaced(MirrorError):
    """A newer task has claimed the slice; Spark has given this one up, or will start another."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition's consumer starts; `known`: where a committed position says, perhaps an old one.

    `epoch` is the position's leader epoch; `foreign`: the position belongs to a topic that was deleted since;
    `unread`: the target refuses to tell of a position now.
    """

    offset: int
    known: bool
    epoch: int = -1
    foreign: bool = False
    unread: bool = False


class Assignment:
    """One task's view of the plan: the slice `index` of `count` under `leader`."""

    def __init__(self, flow: Flow, control: ControlReader, leader: str, index: int, count: int, task: str) -> None:
        self._flow = flow
        self._control = control
        self.leader = leader
        self._index = index
        self._count = count
        self.task = task

    def wanted(self) -> Mapping[Partition, Topic] | None:
        """The partitions to copy now; None once the task has to finish. Raises Replaced."""
        if self._control.claims.get(self._index) != self.task:
            raise Replaced(f"flow {self._flow.name}: slice {self._index} has a newer task")
        plan = self._control.plan
        if plan is None or not self.stands:
            return None
        return {partition: plan.topics[partition.topic] for partition in plan.slices[self._index]}

    @property
    def stands(self) -> bool:
        """Does the newest plan still have this epoch?"""
        plan = self._control.plan
        return plan is not None and plan.leader == self.leader and not plan.stop and len(plan.slices) == self._count

    @property
    def orders(self) -> Orders:
        """What people have ordered; another object after every change."""
        return self._control.orders

    @property
    def skips(self) -> Mapping[Partition, Skip]:
        """What people have chosen to pass over; another object after every change."""
        return self._control.skips

    def is_paused(self, partition: Partition) -> bool:
        """Has somebody ordered that the partition is not to be copied now?"""
        return is_paused(self._control.orders, partition)

    def is_ours(self, partition: Partition) -> bool:
        """Does the newest plan, read to its end, give us the partition? Raises ClusterAway, Replaced."""
        self._control.read_to_end()
        wanted = self.wanted()
        return wanted is not None and partition in wanted

    @property
    def generation(self) -> int:
        """Of the newest plan; 0 when there is none."""
        plan = self._control.plan
        return plan.generation if plan else 0


def find_starts(
    flow: Flow, positions: Positions, source: AdminClient, joining: Mapping[Partition, Topic]
) -> dict[Partition, Start]:
    """Where to begin to look at each partition: its committed position, else where the flow's `start` points.

    A committed position may still be behind a pending one; the replicator loads again once it has fenced.
    Without partitions of which the source gives no offset now. Raises ClusterAway or PartitionError for the target.
    """
    refused: set[tuple[str, int]] = set()  # each of these fails by itself, when it is taken over
    hints = positions.hints(((topic.remote, p.partition) for p, topic in joining.items()), refused)
    starts: dict[Partition, Start] = {}
    fresh: dict[Partition, OffsetSpec] = {}
    for partition, topic in joining.items():
        position = hints.get((topic.remote, partition.partition))
        if position is not None:
            foreign = not position.belongs_to(topic.topic_id)
            starts[partition] = Start(position.offset, True, position.epoch, foreign)
        else:
            seen_first = partition.partition < topic.initial
            fresh[partition] = _spec(flow) if seen_first else OffsetSpec.earliest()
    # A timestamp after the newest record has no offset: it means the end, as it was before anybody looked for it.
    ends = list_offsets(source, dict.fromkeys(fresh, OffsetSpec.latest())) if isinstance(flow.start, int) else {}
    offsets = list_offsets(source, fresh)
    offsets |= {p: ends[p] for p, offset in offsets.items() if offset < 0 and p in ends}
    unread = {p for p in fresh if (joining[p].remote, p.partition) in refused}
    return starts | {p: Start(offset, False, unread=p in unread) for p, offset in offsets.items() if offset >= 0}


def _spec(flow: Flow) -> OffsetSpec:
    if flow.start == "earliest":
        return OffsetSpec.earliest()
    if flow.start == "latest":
        return OffsetSpec.latest()
    return OffsetSpec.for_timestamp(flow.start)
