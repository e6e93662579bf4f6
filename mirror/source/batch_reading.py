"""Puts the batches that an answer has of a partition into its feed."""

from __future__ import annotations

from mirror.batches.fitting import misfit
from mirror.batches.headers import RecordBatch, committed, walk
from mirror.batches.merging import merged
from mirror.errors import Malformed
from mirror.source.batch_feed import Feed, Held, LeaveBatchPath, Span
from mirror.source.fetch_memory import MemoryBounds
from mirror.wire.fetch import PartitionAnswer

MANY = 1000  # batches in an answer, after merging: so many requests take longer than their records one by one


def read(feed: Feed, fetched: PartitionAnswer, held: Held, bounds: MemoryBounds) -> None:
    """Add the batches that fit to the feed, without markers and aborted records. It ends before one that does not.

    A broker may send more than the bytes that it was asked for. Only the first batch may be that large. Raises
    Malformed if a batch can't be read. Then nothing was added.
    """
    fits, largest = list[RecordBatch](), min(feed.largest(), bounds.largest)
    most = min(largest, feed.largest_merged())
    records = merged(fetched.records, feed.position, bounds.partition_answer, most)
    found = [batch for batch in walk(records, bounds.partition_answer) if batch.last >= feed.position]
    if not found:
        raise Malformed("no batch has the position")
    visible = [batch for batch in committed(found, fetched.aborted) if batch.records or batch.is_old]
    if len(visible) > MANY:
        feed.end(LeaveBatchPath("small_batches", feed.position))
        return
    for batch in visible:
        if why := misfit(batch, feed.position, largest):
            before = [each for each in found if each.last < batch.first]
            _add(feed, fits, before, held)
            feed.end(LeaveBatchPath(why, feed.position, batch.last + 1))
            return
        fits.append(batch)
    _add(feed, fits, found, held)


def _add(feed: Feed, batches: list[RecordBatch], found: list[RecordBatch], held: Held) -> None:
    if found:
        size = sum(len(each.data) for each in batches)
        feed.add(Span(feed.position, found[-1].last + 1, tuple(batches), found[-1].epoch, size, held))
