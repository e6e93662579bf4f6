"""Translates offsets with active_active, where programs write to the same topic on both clusters.

Another flow copies our target to our source: the flow back. Its offset map says which of the target's own records a
group has read on the source.
"""

from __future__ import annotations

from dataclasses import replace

from mirror.groups.own_records import OwnRecords
from mirror.groups.translated import Translation
from mirror.groups.translation import End, is_after_all
from mirror.groups.translator import Translator
from mirror.model import Partition
from mirror.settings import Flow

EARLIER = "an earlier offset stands for it, so that no record that was written on the target is passed over"
LAST_COPY = "an earlier offset stands for it, that after the last copied record: it is not known now if more is copied"
NO_WAY_BACK = "not exact: what the group has read of the target's own records is not known"


class SharedTranslator:
    """Translates the offsets of groups that read a topic to which programs write on both clusters.

    The two logs have the same records in different orders. The group must pass over neither a record of the source nor
    one of the target. So two offsets on the target are found: that of the source's next record, and that of the first
    record which was written on the target and which the group has not read on the source. The smaller one counts. A
    group that goes on there reads some records again, and passes over none.
    """

    def __init__(self, flow: Flow) -> None:
        self._there = Translator(flow)
        self._own = OwnRecords(flow)
        self._unmoved: set[Partition] = set()  # partitions to which nothing was copied while the log's end was read

    def close(self) -> None:
        """End the clients."""
        self._own.close()
        self._there.close()

    def refresh(self, partitions: list[Partition]) -> None:
        """Read positions and maps again, as Translator.refresh does, also those of the flows back."""
        self._there.refresh(partitions)
        self._unmoved = self._there.unmoved(partitions)
        self._own.refresh(partitions)

    def to_downstream(self, partition: Partition, upstream: int) -> Translation:
        """Where on the target a group has to go on that would read `upstream` next on the source.

        If that may be an earlier offset than the one of the source's next record, `reason` says so.
        """
        return self._earlier(self._of_source(partition, upstream))

    def end(self, partition: Partition) -> Translation:
        """Where a group has to go on that has read all that is copied."""
        position = self._there.seen(partition).position
        return self.to_downstream(partition, position.offset if position is not None else 0)

    def remote(self, topic: str) -> str:
        """The remote topic of a topic of the source."""
        return self._there.remote(topic)

    def remote_id(self, partition: Partition) -> str:
        """The id of the remote topic that the last refresh has found; "" if it is not known."""
        return self._there.remote_id(partition)

    def _of_source(self, partition: Partition, upstream: int) -> Translation:
        """Where the source's next record is on the target. If it is not copied yet, the end of the target's log.

        The end is certain only if nothing was copied while it was read. Otherwise the offset after the last copied
        record stands for it: before the end there may be records which the group has read on the source.
        """
        found, seen = self._there.to_downstream(partition, upstream), self._there.seen(partition)
        if found.translated is not None:
            found = replace(found, reason="")
        position = seen.position
        if position is None or seen.log_end is None or upstream > position.offset:
            return found
        if seen.recreated:  # the map is that of the old topic, so its end says nothing
            return found
        end = End(position.offset, position.map_end)
        if not is_after_all(self._there.entries(partition, position), upstream, end):
            return found
        if partition in self._unmoved:
            return replace(found, translated=seen.log_end, reason="")
        is_end = found.translated is None or found.translated >= seen.log_end
        return found if is_end else replace(found, reason=LAST_COPY)

    def _earlier(self, found: Translation) -> Translation:
        if found.translated is None or found.offset is None:
            return found
        read = self._own.read_before(found.partition, found.offset) if found.remote == found.partition.topic else ""
        if not isinstance(read, int):
            return replace(found, translated=None, reason=f"{NO_WAY_BACK}: {read}" if read else NO_WAY_BACK)
        kept = max(read, self._there.seen(found.partition).log_start or 0)
        return replace(found, translated=kept, reason=EARLIER) if kept < found.translated else found
