"""Deletes entries of the offset map that nothing needs any more, so that the map does not grow for ever."""

from __future__ import annotations

import logging
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from contextlib import closing

from confluent_kafka import KafkaError
from confluent_kafka.admin import OffsetSpec

from mirror.control.flow_leader_thread import FlowLeaderPart
from mirror.errors import MirrorError
from mirror.groups.compacted_away import LEAST, CompactedAway
from mirror.groups.lost_topics import lost_topics
from mirror.groups.offset_map_reader import OffsetMapReader
from mirror.groups.own_topic_writer import OwnTopicWriter
from mirror.groups.remote_names import RemoteNames
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.renewed import Outage
from mirror.logs import OnChange
from mirror.model import Partition
from mirror.settings import Flow
from mirror.target.offset_map import Copied, Entry, key

log = logging.getLogger(__name__)

INTERVAL = 600.0  # seconds between two looks


class EntryKeys:
    """The downstream offsets of a remote partition's entries, ascending: eight bytes for each."""

    def __init__(self) -> None:
        self._downstream = array("q")
        self._cut_off: set[int] = set()  # entries of a log that was cut: no reader believes them

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        self.remove(entry.downstream)
        at = bisect_left(self._downstream, entry.downstream)
        if entry.follows is None:
            self._cut_off.update(self._downstream[at:])
            del self._downstream[at:]
        self._downstream.insert(at, entry.downstream)

    def remove(self, downstream: int) -> None:
        """Remove the entry at this downstream offset, if there is one."""
        self._cut_off.discard(downstream)
        at = bisect_left(self._downstream, downstream)
        if at < len(self._downstream) and self._downstream[at] == downstream:
            del self._downstream[at]

    def before(self, log_start: int) -> list[int]:
        """The entries that nothing needs any more once the remote log starts at `log_start`.

        The last one that begins there or before is needed: the records after it are counted from it.
        """
        return [*self._downstream[: self._needed(log_start)], *self._cut_off]

    def after(self, log_start: int) -> list[int]:
        """The other ones, ascending."""
        return self._downstream[self._needed(log_start) :].tolist()

    def all(self) -> list[int]:
        """All entries."""
        return [*self._downstream, *self._cut_off]

    def _needed(self, log_start: int) -> int:
        return max(0, bisect_right(self._downstream, log_start) - 1)


class MapCleaning:
    """Looks for entries that nothing needs any more, and deletes them. It remembers what the last look has found."""

    def __init__(self, flow: Flow, least: int = LEAST) -> None:
        """A compacted remote partition with fewer than twice `least` entries is not read."""
        self._cluster = flow.target
        self._target = ClusterAdmin(flow.target)
        self._names = RemoteNames(flow)
        self._reader = OffsetMapReader(flow, EntryKeys)
        self._writer = OwnTopicWriter(flow.target, flow.offset_map_topic)
        self._compacted = CompactedAway(flow, self._target, least)
        self._gone: set[Copied] = set()  # remote topics that did not exist at the last look

    def close(self) -> None:
        """End the clients."""
        self._reader.close()
        self._writer.close()
        self._compacted.close()

    def look(self) -> int:
        """Delete the entries before the remote logs' starts, and those of remote topics that were deleted.

        Of compacted topics with many entries, also those go whose records compaction has removed. A remote topic counts
        as deleted once two looks did not find it. The entries of a topic stay while nobody names its remote topic, and
        while the copy is in a topic of another name than today's: the configuration may have another one, and go back.
        Returns how many entries are deleted. Raises ClusterAway, ForeignPlan.
        """
        self._names.refresh()
        self._reader.read()
        remotes = {
            Partition(copied.topic, copied.partition): Partition(remote, copied.partition)
            for copied in self._reader.maps
            if (remote := self._names.known(copied.topic)) is not None
        }
        starts = self._target.offsets(dict.fromkeys(remotes.values(), OffsetSpec.earliest()), stable=False)
        elsewhere = self._elsewhere({remote.topic for remote in remotes.values()})
        lost = lost_topics(self._cluster, {copied.remote_id for copied in elsewhere})
        before, self._gone = self._gone, {copied for copied in elsewhere if copied.remote_id in lost}
        obsolete: dict[bytes, None] = {}
        for copied, entries in self._reader.maps.items():
            at = remotes.get(Partition(copied.topic, copied.partition))
            if copied in before & self._gone:
                old = entries.all()
            elif copied not in elsewhere and at is not None and at in starts:
                old = entries.before(starts[at])
                old += self._compacted.look(copied, at, entries.after(starts[at]))
            else:
                continue
            obsolete.update((key(copied, downstream), None) for downstream in old)
        self._writer.write(obsolete)
        return len(obsolete)

    def _elsewhere(self, remotes: Collection[str]) -> set[Copied]:
        """Partitions with entries whose remote topics do not have their names of today, or are gone.

        A topic that mirror may not see counts as the one of the entries.
        """
        ids, refused = self._target.ids_now(remotes)
        hidden = {name for name, error in refused.items() if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART}
        names = {copied: self._names.known(copied.topic) for copied in self._reader.maps}
        return {each for each, name in names.items() if name and name not in hidden and ids.get(name) != each.remote_id}


class MapCleaner(FlowLeaderPart):
    """Cleans a flow's map each `interval` seconds, in a thread of its own. Only the flow leader has one."""

    def __init__(self, flow: Flow, interval: float = INTERVAL) -> None:
        super().__init__("map cleaner", flow)
        self._interval = interval

    @property
    def wanted(self) -> bool:
        """True if the configuration wants it."""
        return self._flow.exactly_once

    def _work(self, stopping: threading.Event) -> None:
        where: dict[str, object] = {"flow": self._flow.name, "topic": self._flow.offset_map_topic}
        outage = Outage(self._flow.target)  # first: a change of a password meanwhile is noticed later
        why = OnChange()
        with closing(MapCleaning(self._flow)) as cleaning:
            # After a long outage the thread begins again, with new clients.
            while not outage.wants_another() and not stopping.wait(self._interval):
                try:
                    if count := cleaning.look():
                        log.info("entries of the offset map deleted", extra={**where, "entries": count})
                    outage.note(False)
                    why.clear()
                except MirrorError as error:
                    outage.note(True)
                    if why.is_new(str(error)):
                        said = "the offset map can't be cleaned, and grows until a look succeeds"
                        log.warning(said, extra={**where, "reason": str(error)})
