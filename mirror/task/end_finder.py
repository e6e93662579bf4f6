"""Finds where what was copied of a partition ends, for `mirror resume --continue`: reads both sides and compares."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing

from confluent_kafka.admin import OffsetSpec

from mirror.errors import MirrorError, PartitionError, TransformUnusable
from mirror.kafka.clients import internal_consumer
from mirror.kafka.renewed import close_apart
from mirror.model import MapEnd, Partition, Position, Topic
from mirror.records.consumed import Record, consumed
from mirror.records.shared_topics import Shared
from mirror.records.transformed import transformed
from mirror.records.undecided import Undecided
from mirror.settings import Cluster
from mirror.target.offset_map import Copied
from mirror.task.copied_end import Begin, Differs, Logs, Matched, begin, has_no_more, is_end, match
from mirror.task.last_entries import LastEntry
from mirror.task.task_services import TaskServices
from mirror.topic_transform import transform_of

Records = Generator[Record, None, None]


class EndFinder:
    """Finds the position after all that was copied of one partition, while nobody else can copy it."""

    def __init__(
        self,
        services: TaskServices,
        partition: Partition,
        topic: Topic,
        progressed: Callable[[], None],
        by_others: bool = False,
    ) -> None:
        """`progressed` is called again and again, since a long comparison does not hang.

        `by_others`: MirrorMaker may have copied after the last entry, and it passes over gaps without an entry.
        """
        self._services = services
        self._flow = services.flow
        self._partition = partition
        self._topic = topic
        self._remote = Partition(topic.remote, partition.partition)
        self._progressed = progressed
        # True if what was copied after an entry has upstream offsets without a gap: see SessionMarks.
        self._countable = not (topic.compacted or self._flow.active_active or by_others)

    def find(self, known: Position | None, end: int) -> Position | Undecided:
        """The position, not before the newest one that is known. `end` is the end of the remote partition.

        The partition's last owner was fenced, and no transaction that was open then is open any more. What can't be
        read decides nothing: it may be read later, but else a person has to be able to decide otherwise. Raises
        TransformUnusable, with which nothing of the topic can be copied.
        """
        try:
            return self._found(known, end)
        except TransformUnusable:
            raise
        except MirrorError as error:
            return Undecided(str(error))

    def _found(self, known: Position | None, end: int) -> Position | Undecided:
        last = self._last_entry()
        if known is not None and known.topic_id != self._topic.topic_id:
            if last is None:  # nothing of the present topic was copied, and the source does not have the former one
                return known
            known = None
        logs = self._logs(end)
        if known is not None and is_end(known, last, logs):
            return known
        begun = begin(known, last, logs, self._countable)
        if isinstance(begun, Undecided):
            return known if known is not None and has_no_more(known, last, logs) else begun
        found = self._compared(begun, logs)
        return found if isinstance(found, Undecided) else self._position(known, last, begun, found)

    def _last_entry(self) -> LastEntry | None:
        """The last entry, with what the last owner has committed: another's transaction may still hide that."""
        positions, flow = self._services.positions, self._flow
        positions.await_no_open_transaction(flow.offset_map_topic, 0)
        self._progressed()
        copied = Copied(*self._partition, self._topic.topic_id, self._topic.remote_id)
        return self._services.last_entries.of(flow, copied, self._progressed)

    def _logs(self, end: int) -> Logs:
        here, source = self._partition, self._services.source
        first = source.offsets({here: OffsetSpec.earliest()}, stable=False).get(here)
        last = source.offsets({here: OffsetSpec.latest()}).get(here)
        if first is None or last is None:
            raise PartitionError("the source gives no offsets of the partition")
        return Logs(first, last, self._services.positions.bounds(*self._remote)[0], end)

    def _compared(self, begun: Begin, logs: Logs) -> Matched | Undecided:
        source = self._originals(begun.upstream, logs.source_end)
        target = self._own(self._flow.target, self._remote, max(begun.downstream, logs.remote_start), logs.remote_end)
        with closing(source), closing(target):
            found = match(begun, source, target, timestamps=not self._flow.accept_log_append_time)
        return _foreign(found) if isinstance(found, Differs) else found

    def _originals(self, start: int, stop: int) -> Records:
        """What is copied of the source, as the target gets it."""
        path = transform_of(self._flow, self._partition.topic)
        records = self._own(self._flow.source, self._partition, start, stop)
        return records if path is None else transformed(path, *self._partition, records)

    def _own(self, cluster: Cluster, partition: Partition, start: int, stop: int) -> Records:
        """The committed records of one side, with `active_active` those that the flow copies, or has copied."""
        records = self._read(cluster, partition, start, stop)
        if not self._flow.active_active:
            return records
        here, there = self._services.plan.clusters
        return Shared(self._flow.source.alias, here, there).own(cluster.alias, *partition, records)

    def _read(self, cluster: Cluster, partition: Partition, start: int, stop: int) -> Records:
        consumer = internal_consumer(cluster, self._flow.group, reset="error")
        try:
            for record in consumed(consumer, cluster.alias, partition, start, stop):
                self._progressed()
                yield record
        finally:
            close_apart(consumer)

    def _position(self, known: Position | None, last: LastEntry | None, begun: Begin, found: Matched) -> Position:
        """The position after what was found, or the one that is known, if that is newer.

        It is newer if only markers, or records that are dropped, come after what was found.
        """
        resets = last.resets if last is not None else 0 if known is None else known.resets
        if known is not None and known.progress >= (resets, found.upstream_end):
            return known
        records, map_end = begun.counted + found.records, None
        countable = self._countable or not records
        # Offsets after an entry are translated by counting, so nothing may be missing in between.
        if last is not None and countable and found.upstream_end == last.upstream_end + records:
            map_end = MapEnd(last.downstream, records)
        epoch = -1 if known is None else known.newest_epoch
        ids = self._topic.topic_id, self._topic.remote_id
        return Position(found.upstream_end, ids[0], -1, epoch, ids[1], resets, map_end)


def _foreign(found: Differs) -> Undecided:
    if found.upstream is None:
        return Undecided(f"it has a record at offset {found.downstream}, and the source has none that it could be")
    return Undecided(
        f"its record at offset {found.downstream} is not the copy of the source's at offset {found.upstream}: somebody "
        "else has written there, or the transform is another one by now"
    )
