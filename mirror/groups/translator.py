"""Translates offsets of a flow: reads its positions and its offset map, and counts records where it has to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from mirror.errors import ClusterAway, PartitionError
from mirror.groups.copy_counter import CopyCounter
from mirror.groups.loaded_positions import LoadedPositions
from mirror.groups.offset_map_reader import OffsetMapReader
from mirror.groups.partition_map import PartitionMap
from mirror.groups.record_counter import RecordCounter
from mirror.groups.remote_names import RemoteNames
from mirror.groups.seen import Seen, look
from mirror.groups.translated import Translation
from mirror.groups.translation import (
    Count,
    End,
    Unknown,
    counted_downstream,
    counted_upstream,
    to_downstream,
    to_upstream,
)
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import MapEnd, Partition, Position
from mirror.settings import Flow
from mirror.target.offset_map import Copied
from mirror.target.position_reader import PositionReader
from mirror.topic_transform import transform_of

AT_LEAST_ONCE = "not exact: the flow runs with exactly_once: false"
NEVER_COPIED = "the partition was never copied"
NO_START = "not known now: the target does not give the bounds of the remote log"
SHARED = "not exact: others write to the remote topic, so nothing can be counted there (active_active)"
OF_SOURCE = (
    "exact for the source's records, and says nothing about those that are written on the target (active_active)"
)
PATIENCE = 2.0  # seconds to wait for the end of a transaction in one remote partition
PATIENCE_IN_ALL = 5.0  # seconds for all of them between two refreshes: there may be thousands
RETRY = 0.05
OPEN = "not known now: a transaction is open in {remote}, so mirror can't tell which records are copies"
CUT_OFF = "not known now: the remote log ends before this offset, so it has lost its newest records"
COMPACTED = "not exact: the remote topic is compacted, and was not while the records were copied"


class Translator:
    """Translates offsets of one flow. Positions and map are read again by `refresh`."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._names = RemoteNames(flow)
        self._source, self._target = ClusterAdmin(flow.source), ClusterAdmin(flow.target)
        self._map = OffsetMapReader(flow, PartitionMap)
        self._positions = PositionReader(flow.target, flow.group, flow.control_topic)
        self._loaded = LoadedPositions(flow, self._positions)
        self._counter = CopyCounter(RecordCounter(flow), self._positions)
        self._seen: dict[Partition, Seen] = {}
        self._patience = PATIENCE_IN_ALL  # what is left of it since the last refresh
        # Counts that timed out since the last refresh. They are not waited for again.
        self._given_up: set[tuple[Partition, Count]] = set()

    def close(self) -> None:
        """End the clients."""
        self._map.close()
        self._loaded.close()
        self._positions.close()
        self._counter.close()

    def refresh(self, partitions: Sequence[Partition]) -> None:
        """Read the positions of these partitions, and then their map.

        Raises ClusterAway, PartitionError, or FlowError if the plan can't be read, or if neither the plan nor the
        policy names the remote topic.
        """
        self._counter.forget()
        self._loaded.disconnect()
        self._patience = PATIENCE_IN_ALL
        self._given_up.clear()
        self._names.refresh()
        remotes = {partition: self._at(partition) for partition in partitions}
        positions = self._positions.hints(remotes.values(), set())
        if self._flow.exactly_once:
            self._map.read(partitions)
        self._seen = look(self._source, self._target, remotes, positions)

    def to_downstream(self, partition: Partition, upstream: int) -> Translation:
        """Where a consumer that would read `upstream` next on the source has to begin on the target."""
        found = self._translated(
            partition,
            lambda entries, end: to_downstream(entries, upstream, end, self._is_whole(partition)),
            lambda count, records, start: counted_downstream(count, upstream, records, start),
        )
        if isinstance(found, int):
            found = self._in_log(partition, found)
        if not isinstance(found, int) and not self._seen[partition].recreated:
            found = self._in_empty_log(partition, upstream, found)
        return self._translation(partition, upstream, found)

    def to_upstream(self, partition: Partition, downstream: int) -> Translation:
        """Where a consumer that would read `downstream` next on the target has to begin on the source."""

        def find(entries: PartitionMap, end: End) -> int | Count | Unknown:
            found = to_upstream(entries, downstream, end)
            return Unknown.MOVED if found == end.upstream and not self.unmoved([partition]) else found

        found = self._translated(
            partition,
            find,
            lambda count, records, start: counted_upstream(count, downstream, records, start),
        )
        end = self._seen[partition].log_end
        if isinstance(found, int) and (end is None or downstream > end):
            found = NO_START if end is None else Unknown.NOT_COPIED.value
        return self._translation(partition, downstream, found)

    def end(self, partition: Partition) -> Translation:
        """The position, translated: the next record will be there on the target, or after that."""
        position = self._seen[partition].position
        return self.to_downstream(partition, position.offset if position is not None else 0)

    def remote(self, topic: str) -> str:
        """The remote topic of a topic of the source."""
        return self._names.of(topic)

    def seen(self, partition: Partition) -> Seen:
        """What the last refresh has found."""
        return self._seen[partition]

    def entries(self, partition: Partition, position: Position) -> PartitionMap:
        """The offset map of the partition, for the topic ids in this position."""
        return self._map.maps.get(Copied(*partition, position.topic_id, position.remote_id), PartitionMap())

    def unmoved(self, partitions: Iterable[Partition]) -> set[Partition]:
        """The partitions of which nothing was copied between the last refresh and now. Raises ClusterAway.

        Positions are loaded for that, because an old position would hide what was copied. A partition is missing if its
        position can't be loaded, as while a transaction holds it.
        """
        remotes = {each: self._at(each) for each in partitions}
        now = self._positions.hints(remotes.values(), set())
        idle = {each: at for each, at in remotes.items() if now.get(at) == self._seen[each].position is not None}
        loaded = self._loaded.load(idle.values())
        return {each for each, at in idle.items() if loaded.get(at) == self._seen[each].position}

    def remote_id(self, partition: Partition) -> str:
        """The id of the remote topic that the last refresh has found; "" if it is not known."""
        seen = self._seen[partition]
        return "" if seen.position is None or seen.recreated else seen.position.remote_id

    def _is_whole(self, partition: Partition) -> bool:
        """True if all records before the first copied one were left out by a transform."""
        topic = partition.topic
        return self._flow.of_topic(topic).start == "earliest" and transform_of(self._flow, topic) is not None

    def _in_empty_log(self, partition: Partition, upstream: int, why: str) -> int | str:
        """The end of a remote log that has no record, if that is where `upstream` will be; else why it is not known.

        That is so for the next record to be copied, whatever the log has had and retention has deleted.
        """
        seen = self._seen[partition]
        if not self._flow.exactly_once or seen.log_end is None or seen.log_start != seen.log_end:
            return why
        if seen.position is None:  # a topic that had copies may have been deleted, and its positions with it
            return why if seen.log_end or upstream else 0
        if seen.position.map_end == MapEnd() and not seen.log_end:  # nothing before the position was ever copied
            # A transform may have left out all records up to the position.
            left_out = self._is_whole(partition) and upstream < seen.position.offset
            return 0 if left_out or upstream == seen.position.offset else why
        return self._end_if_empty(partition, why) if upstream == seen.position.offset else why

    def _end_if_empty(self, partition: Partition, why: str) -> int | str:
        """The end of the remote log, if it has no record; else `why`.

        It is asked for now, and not the last stable offset: since the refresh more may have been copied, or the marker
        of a transaction have come whose position was known already. A group may have read these copies.
        """
        try:
            start, high = self._positions.bounds(*self._at(partition))
        except (ClusterAway, PartitionError) as error:
            return f"not known now: {error}"
        return high if start == high else why

    def _in_log(self, partition: Partition, found: int) -> int | str:
        """The offset if it is in the remote log or at its end, which an unclean election may have cut; else why not."""
        seen = self._seen[partition]
        if seen.log_start is None or found < seen.log_start:
            return NO_START if seen.log_start is None else Unknown.BEFORE_THE_MAP.value
        if seen.log_end is not None and found <= seen.log_end:
            return found
        # The last stable offset may be before it. The log's end, too, if more was copied since it was read.
        try:
            return found if found <= self._positions.end(*self._at(partition)) else CUT_OFF
        except (ClusterAway, PartitionError) as error:
            return f"not known now: {error}"

    def _translated(
        self,
        partition: Partition,
        find: Callable[[PartitionMap, End], int | Count | Unknown],
        counted: Callable[[Count, Sequence[int], int], int | Unknown],
    ) -> int | str:
        seen = self._seen[partition]
        if not self._flow.exactly_once:
            return AT_LEAST_ONCE
        if seen.position is None:
            return NEVER_COPIED
        if seen.recreated:  # the map is that of the old topic
            return seen.recreated
        try:
            return self._looked(partition, seen.position, find, counted)
        except (ClusterAway, PartitionError) as error:  # of this partition only: others have other leaders
            return f"not known now: {error}"

    def _looked(
        self,
        partition: Partition,
        position: Position,
        find: Callable[[PartitionMap, End], int | Count | Unknown],
        counted: Callable[[Count, Sequence[int], int], int | Unknown],
    ) -> int | str:
        """Look in the map, and count if need be. If that does not tell yet, look again in what was copied since.

        It looks a second time even if no patience is left. Raises ClusterAway, PartitionError.
        """
        first, deadline = position, time.monotonic() + PATIENCE
        while True:
            began = time.monotonic()
            found = asked = find(self.entries(partition, position), End(position.offset, position.map_end))
            given_up = isinstance(asked, Count) and (partition, asked) in self._given_up
            if isinstance(asked, Count):
                if reason := self._no_count(partition, asked):
                    return reason
                records = None if given_up else self._counter.count(self._at(partition), position, asked)
                found = asked if records is None else counted(asked, *records)
            if isinstance(found, int):
                return found
            passes = found is Unknown.MOVED or (found is Unknown.HIDDEN and position is not first)
            if isinstance(found, Unknown) and not passes:
                return found.value
            is_over = began > deadline or self._patience <= 0
            now = position if is_over and position is not first else self._renewed(partition, position)
            if now == position:
                if is_over or given_up:
                    return self._unknown(partition, found)
                time.sleep(RETRY)
            position = now
            self._patience -= time.monotonic() - began

    def _unknown(self, partition: Partition, found: Count | Unknown) -> str:
        """Why it is not known, after all patience."""
        if isinstance(found, Unknown):
            return found.value
        self._given_up.add((partition, found))
        return OPEN.format(remote=self._at(partition))

    def _renewed(self, partition: Partition, before: Position) -> Position:
        """The position as it is now, in the same topics, and the map up to it. Raises ClusterAway, PartitionError."""
        remote = self._at(partition)
        now = self._positions.hints([remote]).get(remote)
        if now is None or (now.topic_id, now.remote_id) != (before.topic_id, before.remote_id):
            raise PartitionError(f"the position of {remote} has changed")
        entries = self.entries(partition, now)
        if now.map_end is not None and len(entries) and entries[-1].downstream < now.map_end.entry:
            self._map.read([partition])
        self._seen[partition] = replace(self._seen[partition], position=now)
        return now

    def _at(self, partition: Partition) -> Partition:
        """The remote partition."""
        return Partition(self.remote(partition.topic), partition.partition)

    def _no_count(self, partition: Partition, count: Count) -> str:
        """Why this can't be counted; "" if it can. Raises ClusterAway, PartitionError."""
        seen = self._seen[partition]
        if self._flow.active_active:
            return SHARED
        if seen.compacted:  # compaction may have removed as many records as copying has added
            return COMPACTED
        if seen.log_start is None:  # the partition is offline: to count would only take time
            return NO_START
        last = max(count.begin, count.end or 0)
        if (partition, count) in self._given_up or (seen.log_end is not None and last <= seen.log_end):
            return ""
        # As for `_in_log`. Whoever reads from beyond the end of the log gets no answer.
        return "" if last <= self._positions.end(*self._at(partition)) else CUT_OFF

    def _translation(self, partition: Partition, offset: int, found: int | str) -> Translation:
        remote = self.remote(partition.topic)
        if isinstance(found, int):
            return Translation(partition, remote, offset, found, OF_SOURCE if self._flow.active_active else "")
        return Translation(partition, remote, offset, None, found)
