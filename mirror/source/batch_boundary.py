"""Finds out where the batch path can begin: librdkafka does not tell where record batches do."""

from __future__ import annotations

from mirror.errors import Unavailable
from mirror.source.batch_feed import Feed, Held, Largest, LeaveBatchPath
from mirror.source.batch_fetcher import BatchFetcher
from mirror.source.batch_reading import read
from mirror.source.broker_fetches import check_source
from mirror.wire.fetch import Limits, PartitionAnswer, TopicKey, Wanted, fetch

PURPOSE = "look"


async def boundary(fetcher: BatchFetcher, topic: TopicKey, partition: int, at: int, largest: Largest) -> int | None:
    """The first offset from `at` on at which a record batch begins, if the batches in one answer from there on all fit.

    None if they do not. Where nothing follows, the end is such an offset. Raises WireError if the source does not
    answer now, Unavailable if there is no room for an answer.
    """
    begin = at
    for _ in range(2):  # a second time, if `at` is within a batch
        feed = Feed(topic, partition, begin, -1, largest)
        why = await _obstacle(fetcher, feed)
        if why is None:
            return begin
        if begin != at or why.reason != "position_within_batch" or why.until is None:
            return None
        begin = why.until
    return None


async def _obstacle(fetcher: BatchFetcher, feed: Feed) -> LeaveBatchPath | None:
    """Why the partition would leave the batch path here; None if it would not."""
    most = fetcher.memory.bounds.partition_answer
    if fetcher.memory.used + most > fetcher.memory.bounds.total:
        raise Unavailable(f"there is no room now for what follows in {feed.topic.name}-{feed.partition}")
    with fetcher.memory.reserve(most):
        fetched = await _fetched(fetcher, feed, most)
        if not fetched.records:
            if fetched.stable == feed.position:
                return None
            raise Unavailable(f"what follows in {feed.topic.name}-{feed.partition} did not come")
        read(feed, fetched, Held(0, lambda _: None), fetcher.memory.bounds)
        while spans := feed.take(feed.size, 2**31):
            for span in spans:
                feed.done(span)
    try:
        await feed.wait(0)
    except LeaveBatchPath as why:
        return why
    return None


async def _fetched(fetcher: BatchFetcher, feed: Feed, most: int) -> PartitionAnswer:
    """What follows, by a request of its own: in the fetch session it would wait while other partitions have nothing."""
    cluster, topic = fetcher.cluster, feed.topic
    leader = await cluster.leader(topic.name, feed.partition)
    connection = await cluster.connection(leader.node, PURPOSE)
    check_source(connection)
    wanted = {topic: [Wanted(feed.partition, feed.position, most, leader.epoch)]}
    answer = await connection.ask(fetch(wanted, Limits(0.0, most)))
    for _, fetched in answer.partitions:
        if not fetched.error:
            return fetched
    if not answer.throttled:  # else it says nothing of the partition, nor of who leads it
        cluster.forget_leader(topic.name, feed.partition)
    raise Unavailable(f"what follows in {topic.name}-{feed.partition} is not known now")
