"""Compares the end of a copy with the source, to find the position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirror.commands.adopt.selection import Candidate
from mirror.commands.adopt.tail import Before, Found, Numbered, find_position
from mirror.commands.verify.digests import Digester, RecordDigest, Stretch
from mirror.commands.verify.record_reader import obstacle
from mirror.kafka.credentials import properties_of
from mirror.model import Partition
from mirror.records.undecided import Undecided
from mirror.settings import Flow

SPAN = 20_000  # offsets that are read at once when the position is looked for


@dataclass(frozen=True, slots=True)
class Logs:
    """The offsets that both logs have."""

    source_start: int
    source_stable: int  # the last stable offset
    source_end: int  # the high watermark
    remote_start: int
    remote_end: int


class Reader(Protocol):
    """Reads records as digests."""

    def entries(self, stretch: Stretch) -> list[RecordDigest]:
        """Each record of a stretch from `start` up to `end`. Raises MirrorError."""


class Comparer:
    """Compares at most `most` records of each partition. Of its readers, one sees only what is committed."""

    def __init__(self, source: str, target: str, most: int, committed: Reader, everything: Reader) -> None:
        """`source` and `target` are aliases."""
        self._source, self._target, self._most = source, target, most
        self._committed, self._everything = committed, everything

    @staticmethod
    def of(flow: Flow, most: int) -> Comparer:
        """One that reads the clusters of a flow."""
        clusters = {cluster.alias: cluster for cluster in (flow.source, flow.target)}
        librdkafka = any(obstacle(properties_of(cluster)) is not None for cluster in clusters.values())
        readers = (Digester(clusters, librdkafka), Digester(clusters, librdkafka, stable=False))
        return Comparer(flow.source.alias, flow.target.alias, most, *readers)

    def find_position(self, candidate: Candidate, logs: Logs) -> Found | Undecided:
        """The position of a partition. Raises MirrorError if records can't be read.

        Without exactly-once MirrorMaker also copies what is not committed on the source, unless it is configured not
        to. So if the committed records do not fit, all records are tried.
        """
        if candidate.recorded > logs.source_end:
            return Undecided(
                f"MirrorMaker's position is {candidate.recorded}, but the source ends at {logs.source_end}: was the "
                "topic created again, or its log cut?"
            )
        where = self._target, candidate.remote
        tail = _digests(_last(self._committed, *where, logs.remote_start, logs.remote_end, self._most)[0])
        found: Found | Undecided | None = None
        if candidate.recorded <= logs.source_stable:
            found = self._look(self._committed, candidate, logs, logs.source_stable, tail)
        if found is None or (tail and not candidate.exact and not _fits(found)):
            again = self._look(self._everything, candidate, logs, logs.source_end, tail)
            found = again if found is None or _fits(again) else found
        return found

    def _look(
        self, reader: Reader, candidate: Candidate, logs: Logs, end: int, tail: Sequence[bytes]
    ) -> Found | Undecided:
        recorded, start = candidate.recorded, logs.source_start
        where = self._source, candidate.partition
        before, whole = _last(reader, *where, start, min(recorded, end), len(tail))
        after = self._after(reader, candidate, logs, end)
        return find_position(tail, Before(_digests(before), whole and start > 0), after, recorded, candidate.exact)

    def _after(self, reader: Reader, candidate: Candidate, logs: Logs, end: int) -> Iterator[Numbered]:
        """The source's records after the recorded position, as many as may have been copied."""
        beyond, most = candidate.recorded - 1, logs.remote_end
        sync = candidate.sync
        if sync is not None and sync.upstream < end and sync.downstream < logs.remote_end:
            beyond, most = max(beyond, sync.upstream), logs.remote_end - 1 - sync.downstream
        for begin in range(max(candidate.recorded, logs.source_start), end, SPAN):
            stretch = _stretch(self._source, candidate.partition, begin, min(begin + SPAN, end))
            for entry in reader.entries(stretch):
                if entry.offset > beyond:
                    if not most:
                        return
                    most -= 1
                yield entry.offset, entry.digest


def _fits(found: Found | Undecided) -> bool:
    """True if records were compared, and are the same."""
    return isinstance(found, Found) and found.compared > 0


def _last(
    reader: Reader, cluster: str, partition: Partition, start: int, end: int, wanted: int
) -> tuple[list[RecordDigest], bool]:
    """The last `wanted` records before `end`, and whether the log has no others before them.

    Offsets are no records: markers and aborted or compacted records take some, too.
    """
    span = 2 * wanted
    while wanted and start < end:
        begin = max(start, end - span)
        entries = reader.entries(_stretch(cluster, partition, begin, end))
        if len(entries) >= wanted or begin == start:
            return entries[-wanted:], begin == start and len(entries) <= wanted
        span *= 4
    return [], start >= end


def _stretch(cluster: str, partition: Partition, begin: int, end: int) -> Stretch:
    return Stretch(cluster, *partition, begin, end, end, True)


def _digests(entries: Sequence[RecordDigest]) -> list[bytes]:
    return [entry.digest for entry in entries]
