"""Finds out where the batch path can begin: librdkafka does not tell where record batches do."""

from __future__ import annotations

from mirror.errors import WireError
from mirror.source.batch_feed import Feed, Largest, LeaveBatchPath
from mirror.source.batch_fetcher import BatchFetcher
from mirror.source.broker_fetches import WAIT
from mirror.wire.fetch import TopicKey

PATIENCE = 4 * WAIT  # seconds for an answer: one that has no records takes WAIT


async def boundary(fetcher: BatchFetcher, topic: TopicKey, partition: int, at: int, largest: Largest) -> int | None:
    """The first offset from `at` on at which a record batch begins, if the batches in one answer from there on all fit.

    None if they do not, or if the source does not answer now. Where nothing follows, the end is such an offset.
    """
    begin = at
    for _ in range(2):  # a second time, if `at` is within a batch
        feed = fetcher.open(topic, partition, begin, largest=largest)
        try:
            why = await _obstacle(feed)
        except WireError:
            return None
        finally:
            fetcher.close(feed)
        if why is None:
            return begin
        if begin != at or why.reason != "position_within_batch" or why.until is None:
            return None
        begin = why.until
    return None


async def _obstacle(feed: Feed) -> LeaveBatchPath | None:
    """Why the partition would leave the batch path here; None if it would not."""
    begin = feed.position
    try:
        if not await feed.wait(PATIENCE):
            return None if feed.stable == begin else LeaveBatchPath("no_answer", begin)
        while spans := feed.take(feed.size, 2**31):
            for span in spans:
                feed.done(span)
        if feed.ended:
            await feed.wait()
    except LeaveBatchPath as why:
        return why
    return None
