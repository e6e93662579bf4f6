"""Finds entries of the offset map whose records compaction has removed from the target.

The start of a compacted log does not move, so these entries would never go, and such a topic has an entry for each
transaction. It costs to read a log. So a partition is read only when its entries have doubled.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence

from mirror.errors import PartitionError
from mirror.groups.record_counter import RecordCounter
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.settings import Flow
from mirror.target.offset_map import Copied
from mirror.target.timestamps import may_be_compacted

log = logging.getLogger(__name__)

LEAST = 100_000  # entries of a partition, of which nobody has to be spared
AT_ONCE = 10_000  # records that are read in one piece


class CompactedAway:
    """Remembers how many entries of each remote partition have records."""

    def __init__(self, flow: Flow, target: ClusterAdmin, least: int = LEAST) -> None:
        self._flow, self._target, self._least = flow, target, least
        self._counter = RecordCounter(flow)
        self._kept: dict[Copied, int] = {}

    def close(self) -> None:
        """End the client."""
        self._counter.close()

    def look(self, copied: Copied, remote: Partition, entries: Sequence[int]) -> list[int]:
        """Those of the entries, by ascending downstream offset, that have no record on the target any more.

        The last one is needed: what is copied next follows it. Raises ClusterAway.
        """
        if len(entries) < 2 * max(self._least, self._kept.get(copied, 0)):
            return []
        if not self._is_compacted(remote.topic):
            return []
        try:
            alive = self._with_records(remote, entries)
        except PartitionError as error:  # it has no leader, or mirror may not read it: the next look tries again
            log.debug("a remote partition can't be read now", extra={"flow": self._flow.name, "reason": str(error)})
            return []
        alive.add(len(entries) - 1)
        self._kept[copied] = len(alive)
        return [downstream for index, downstream in enumerate(entries) if index not in alive]

    def _is_compacted(self, topic: str) -> bool:
        """True also if that can't be seen."""
        configs, _ = self._target.topic_configs([topic], own=False)
        return may_be_compacted(configs.get(topic, {}))

    def _with_records(self, remote: Partition, entries: Sequence[int]) -> set[int]:
        """The indexes of the entries that have records, or behind which there are records that have to be counted."""
        found: set[int] = set()
        at = entries[0]
        while at < entries[-1]:
            read = self._counter.offsets(remote, at, entries[-1], AT_ONCE)
            found.update(bisect_right(entries, offset) - 1 for offset in read.offsets)
            if read.reached <= at or not read.offsets:
                # Behind a transaction that is open nothing can be read, so all of that stays.
                found.update(range(bisect_right(entries, read.reached) - 1, len(entries)))
                break
            at = read.reached
        return found
