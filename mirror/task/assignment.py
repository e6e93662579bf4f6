"""Which partitions a task holds, as the newest plan says, and where each of them starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, OffsetSpec

from mirror.control.control_reader import ControlReader
from mirror.control.decisions import Decision
from mirror.control.orders import Orders, is_paused
from mirror.control.plan import RENEW_INTERVAL
from mirror.errors import MirrorError
from mirror.kafka.cluster import list_offsets
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.target.positions import Positions


class Replaced(MirrorError):
    """A newer task has claimed the slice; Spark has given this one up, or will start another."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition's consumer starts.

    `hint` is its committed position, perhaps an old one; `reported` the one that its last task has reported. `unread`:
    the target refuses to tell of a position now.
    """

    offset: int
    hint: Position | None = None
    reported: Position | None = None
    unread: bool = False

    @property
    def known(self) -> bool:
        """Does the offset come from a position?"""
        return self.hint is not None

    @property
    def epoch(self) -> int:
        """The position's leader epoch; -1 if not known."""
        return self.hint.epoch if self.hint else -1

    @property
    def newest(self) -> Position | None:
        """The newest position of ours that is known; None: none is."""
        ours = [each for each in (self.reported, self.hint) if each is not None and each.topic_id]
        if len({each.topic_id for each in ours}) > 1:
            return self.hint  # of a topic that was made again
        return max(ours, key=lambda each: each.progress, default=None)


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
    def decisions(self) -> Mapping[Partition, Decision]:
        """What people have decided about incidents; another object after every change."""
        return self._control.decisions

    @property
    def renew_interval(self) -> float:
        """Seconds between two commits of a position that stays the same."""
        plan = self._control.plan
        return plan.renew_interval if plan else RENEW_INTERVAL

    def is_paused(self, partition: Partition) -> bool:
        """Has somebody ordered that the partition is not to be copied now?"""
        return is_paused(self._control.orders, partition)

    def is_ours(self, partition: Partition) -> bool:
        """Does the newest plan, read to its end, give us the partition? Raises ClusterAway, Replaced."""
        self._control.read_to_end()
        wanted = self.wanted()
        return wanted is not None and partition in wanted

    @property
    def size(self) -> int:
        """How many partitions the newest plan has."""
        plan = self._control.plan
        return sum(map(len, plan.slices)) if plan else 0

    @property
    def generation(self) -> int:
        """Of the newest plan; 0 when there is none."""
        plan = self._control.plan
        return plan.generation if plan else 0


def find_starts(
    flow: Flow,
    positions: Positions,
    source: AdminClient,
    joining: Mapping[Partition, Topic],
    reports: Callable[[], Mapping[Partition, Position]],
) -> dict[Partition, Start]:
    """Where to begin to look at each partition: its committed position, else where the flow's `start` points.

    `reports` gives the positions that were reported last.

    A committed position may still be behind a pending one; the replicator loads again once it has fenced.
    Without partitions of which the source gives no offset now. Raises ClusterAway or PartitionError for the target.
    """
    refused: set[tuple[str, int]] = set()  # each of these fails by itself, when it is taken over
    hints = positions.hints(((topic.remote, p.partition) for p, topic in joining.items()), refused)
    reported = reports()
    starts: dict[Partition, Start] = {}
    fresh: dict[Partition, OffsetSpec] = {}
    for partition, topic in joining.items():
        position = hints.get((topic.remote, partition.partition))
        if position is not None:
            starts[partition] = Start(position.offset, position, reported.get(partition))
        else:
            seen_first = partition.partition < topic.initial
            fresh[partition] = _spec(flow) if seen_first else OffsetSpec.earliest()
    # A timestamp after the newest record has no offset: it means the end, as it was before anybody looked for it.
    ends = list_offsets(source, dict.fromkeys(fresh, OffsetSpec.latest())) if isinstance(flow.start, int) else {}
    offsets = list_offsets(source, fresh)
    offsets |= {p: ends[p] for p, offset in offsets.items() if offset < 0 and p in ends}
    unread = {p for p in fresh if (joining[p].remote, p.partition) in refused}
    return starts | {
        p: Start(offset, reported=reported.get(p), unread=p in unread) for p, offset in offsets.items() if offset >= 0
    }


def _spec(flow: Flow) -> OffsetSpec:
    if flow.start == "earliest":
        return OffsetSpec.earliest()
    if flow.start == "latest":
        return OffsetSpec.latest()
    return OffsetSpec.for_timestamp(flow.start)
