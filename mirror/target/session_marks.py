"""What a session writes beside its records: offset syncs and entries of the offset map. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirror.model import MapEnd, Partition, Position, Topic
from mirror.settings import Flow
from mirror.target.offset_map import EVERY, Copied, Entry, EntryChooser, end_after, entries, entries_in_pieces
from mirror.target.offset_syncs import OffsetSync, SyncChooser

Downstream = Mapping[int, int]  # offsets in the remote partition, by the index of the record


@dataclass(frozen=True, slots=True)
class Due:
    """What goes into a transaction besides records: `offsets` are those of its records, upstream, at least one.

    `position` is that after the records, with the map's end before them.
    """

    offsets: Sequence[int]
    position: Position
    synced: Sequence[int]  # indexes of the records that get an offset sync
    mapped: bool  # the records get entries

    @property
    def needs_offsets(self) -> bool:
        """True if the downstream offsets must be known first."""
        return bool(self.synced) or self.mapped

    @property
    def needed(self) -> Sequence[int]:
        """The indexes of the records whose downstream offsets have to be known."""
        return sorted({0, *self.synced, len(self.offsets) - 1})


@dataclass(frozen=True, slots=True)
class Marks:
    """What goes beside the records, and the position that is committed with them."""

    syncs: Sequence[OffsetSync]
    entries: Sequence[tuple[bytes, bytes]]  # keys and values
    position: Position


def is_mapped(flow: Flow, partition: Partition, topic: Topic) -> bool:
    """True if what is copied of a partition gets entries of the offset map.

    A topic whose id is not known yet has none: nobody could tell which topic they belong to. Canaries have none either.
    Nobody asks for their offsets, and the cleaner could never delete their entries, because their compacted topic
    always begins at the same offset.
    """
    has_ids = bool(topic.topic_id and topic.remote_id)
    return flow.exactly_once and has_ids and partition.topic != flow.canary_topic


class SessionMarks:
    """What a partition's session has written beside its records. It is discarded together with the session."""

    def __init__(self, flow: Flow, partition: Partition, topic: Topic) -> None:
        self._partition = partition
        self._copied = Copied(*partition, topic.topic_id, topic.remote_id)
        self._shared = flow.active_active
        self._syncs = SyncChooser(flow.offset_lag_max)
        every = 1 if topic.compacted or flow.active_active else EVERY  # there nothing can be counted
        self._map = EntryChooser(every) if is_mapped(flow, partition, topic) else None
        self._place: int | None = None  # the downstream offset after the last transaction's records, if it is known
        self._tail: OffsetSync | None = None

    @property
    def tail(self) -> OffsetSync | None:
        """The sync of the last record, if that has none yet."""
        return self._tail

    @property
    def wants_every_offset(self) -> bool:
        """True if entries need the downstream offset of each record, because others write between them."""
        return self._shared and self._map is not None

    def due(self, offsets: Sequence[int], position: Position) -> Due:
        """What has to be written with the records at these upstream offsets. Nothing is remembered."""
        mapped = self._map is not None and self._map.is_due(offsets, position.map_end)
        return Due(offsets, position, self._syncs.choose(offsets), mapped)

    def marks(self, due: Due, downstream: Downstream) -> Marks:
        """What goes beside the records. One that is not in `downstream` was not delivered: its transaction fails."""
        syncs = [self._sync(due, index, downstream) for index in due.synced if index in downstream]
        if not due.mapped:
            return Marks(syncs, (), replace(due.position, map_end=self._without_entry(due, downstream)))
        made = self._entries(due, downstream)
        end = end_after(made, len(due.offsets))
        pairs = [(entry.key(self._copied), entry.value()) for entry in made]
        return Marks(syncs, pairs, replace(due.position, map_end=end))

    def _without_entry(self, due: Due, downstream: Downstream) -> MapEnd | None:
        """The map's end after records without an entry. Where these end is often not known before they are committed.

        To wait for that would cost a round trip. The next position says it.
        """
        end = due.position.map_end
        if end is None or self._map is None:
            return None
        records, place = end.records + len(due.offsets), _after(downstream.get(len(due.offsets) - 1))
        if place is not None:
            return replace(end, records=records, placed=records, place=place)
        if end.records and self._place is not None:
            return replace(end, records=records, placed=end.records, place=self._place)
        return replace(end, records=records)

    def _entries(self, due: Due, downstream: Downstream) -> Sequence[Entry]:
        offsets, before, last = due.offsets, due.position, len(due.offsets) - 1
        if 0 not in downstream or last not in downstream:
            return []
        if self._shared:
            return entries_in_pieces(offsets, downstream, before.map_end, before.resets)
        return entries(offsets, downstream[0], downstream[last], before.map_end, before.resets)

    def _sync(self, due: Due, index: int, downstream: Downstream) -> OffsetSync:
        return OffsetSync(*self._partition, due.offsets[index], downstream[index])

    def committed(self, due: Due, downstream: Downstream) -> None:
        """The transaction is committed, with what was due."""
        self._syncs.committed(due.offsets, due.synced)
        last = len(due.offsets) - 1
        if self._map is not None:
            self._map.committed(due.offsets, self._is_interrupted(downstream.get(0), downstream.get(last), last))
            self._place = _after(downstream.get(last))
        self._tail = None if self._syncs.tail_is_synced else self._sync(due, last, downstream)

    def _is_interrupted(self, first: int | None, last: int | None, distance: int) -> bool:
        """True if there is more between the records than they and the marker of the last transaction."""
        if first is None or last is None:
            return True
        return last - first != distance or (self._place is not None and first != self._place + 1)

    def settled(self) -> None:
        """The sync of the last record is committed."""
        self._syncs.tail_synced()
        self._tail = None


def _after(offset: int | None) -> int | None:
    return None if offset is None else offset + 1
