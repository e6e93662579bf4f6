"""Deletes entries of the offset map that nothing needs any more, so that the map does not grow for ever."""

from __future__ import annotations

import logging
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import OffsetSpec

from mirror.errors import ClusterAway, MirrorError
from mirror.groups.offset_map_reader import OffsetMapReader
from mirror.kafka.clients import internal_producer
from mirror.kafka.cluster import ClusterAdmin, chunks
from mirror.model import Partition
from mirror.naming import ReplicationPolicy
from mirror.settings import Flow
from mirror.target.offset_map import Copied, Entry, key
from mirror.text import BUG

log = logging.getLogger(__name__)

INTERVAL = 600.0  # seconds between two looks
WRITE_TIMEOUT = 10.0  # seconds
AT_ONCE = 10_000  # most records that are queued


class EntryKeys:
    """The downstream offsets of a remote partition's entries, ascending: eight bytes for each."""

    def __init__(self) -> None:
        self._downstream = array("q")

    def add(self, entry: Entry) -> None:
        """Add an entry. One that does not come after those that are there is left out: mirror writes none such."""
        if not self._downstream or self._downstream[-1] < entry.downstream:
            self._downstream.append(entry.downstream)

    def remove(self, downstream: int) -> None:
        """Remove the entry at this downstream offset, if there is one."""
        at = bisect_left(self._downstream, downstream)
        if at < len(self._downstream) and self._downstream[at] == downstream:
            del self._downstream[at]

    def before(self, log_start: int) -> list[int]:
        """The entries that nothing needs any more once the remote log starts at `log_start`.

        The last one that begins there or before is needed: the records after it are counted from it.
        """
        return self._downstream[: max(0, bisect_right(self._downstream, log_start) - 1)].tolist()

    def all(self) -> list[int]:
        """All entries."""
        return self._downstream.tolist()


class MapCleaner:
    """Looks now and then, in a thread of its own, for entries of a flow's map that can go. Only its leader has one."""

    def __init__(self, flow: Flow, interval: float = INTERVAL) -> None:
        self._flow = flow
        self._interval = interval
        self._due = time.monotonic() + interval
        self._thread: threading.Thread | None = None

    def clean(self) -> None:
        """Begin to look, if that is due."""
        running = self._thread is not None and self._thread.is_alive()
        if running or not self._flow.exactly_once or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._interval
        self._thread = threading.Thread(target=self._run, daemon=True, name="map-cleaner")
        self._thread.start()

    def _run(self) -> None:
        where: dict[str, object] = {"flow": self._flow.name, "topic": self._flow.offset_map_topic}
        try:
            count = clean(self._flow)
        except MirrorError as error:
            log.debug("the offset map can't be cleaned now", extra={**where, "reason": str(error)})
        except Exception:  # cleaning must not end the copying, and the next look tries again
            log.exception(BUG, extra=where)
        else:
            if count:
                log.info("entries of the offset map deleted", extra={**where, "entries": count})


def clean(flow: Flow) -> int:
    """Delete the entries before the remote logs' starts, and those of remote topics that were deleted.

    Returns how many. Raises ClusterAway.
    """
    with closing(OffsetMapReader(flow, EntryKeys)) as reader:
        reader.read()
        obsolete = _obsolete(flow, reader)
    _delete(flow, obsolete)
    return len(obsolete)


def _delete(flow: Flow, obsolete: Sequence[tuple[Copied, int]]) -> None:
    producer = internal_producer(flow.target)
    failed: list[KafkaError] = []

    def deleted(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for some in chunks(obsolete, AT_ONCE):
        for copied, downstream in some:
            try:
                producer.produce(flow.offset_map_topic, None, key(copied, downstream), 0, deleted)
            except KafkaException as error:  # the client believes that the topic does not exist
                failed.append(error.args[0])
        if producer.flush(WRITE_TIMEOUT) or failed:
            reason = failed[0].str() if failed else "no answer in time"
            raise ClusterAway(flow.target.alias, f"{flow.offset_map_topic} accepts no records: {reason}")


def _obsolete(flow: Flow, reader: OffsetMapReader[EntryKeys]) -> list[tuple[Copied, int]]:
    remote_topic = ReplicationPolicy.of(flow).remote_topic
    remotes = {partition: Partition(remote_topic(partition.topic), partition.partition) for partition in reader.newest}
    starts = ClusterAdmin(flow.target).offsets(dict.fromkeys(remotes.values(), OffsetSpec.earliest()), stable=False)
    found: list[tuple[Copied, int]] = []
    for copied, entries in reader.maps.items():
        partition = Partition(copied.topic, copied.partition)
        if copied.remote_id != reader.newest[partition].remote_id:  # of a remote topic that was deleted
            found += [(copied, downstream) for downstream in entries.all()]
        elif remotes[partition] in starts:
            found += [(copied, downstream) for downstream in entries.before(starts[remotes[partition]])]
    return found
