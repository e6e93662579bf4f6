"""Looks for records in a remote partition: whether read_committed consumers see any, and how many are in a range."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mirror.batches.headers import CONTROL, committed, walk
from mirror.errors import Malformed, PartitionError, PositionUnstable, Unavailable, WireError
from mirror.target.coordination import refusal
from mirror.target.loading import not_given_yet
from mirror.wire.cluster import Cluster
from mirror.wire.error_codes import CODES
from mirror.wire.fetch import FETCH, Limits, PartitionAnswer, TopicKey, Wanted, fetch
from mirror.wire.offsets import Where

ANSWER_MAX = 2**18  # bytes, or one batch: many partitions may be looked at together
COUNT_TIMEOUT = 5.0  # seconds
_LASTING = (CODES["OFFSET_OUT_OF_RANGE"], CODES["TOPIC_AUTHORIZATION_FAILED"])


async def has_records(target: Cluster, where: Where, end: int, progressed: Callable[[], None]) -> bool:
    """True unless everything before `end` is known to be markers and aborted transactions. All of these have ended.

    What can't be read, or begins after offset 0, counts as records. `progressed` is called before each request: aborted
    transactions may need any number of them. Raises WireError and PartitionError if the target does not answer now.
    """
    at = 0
    while at < end:
        progressed()
        found = await _fetched(target, where, at)
        if found is None:
            return True
        try:
            batches = [each for each in walk(found.records) if each.last >= at]
        except Malformed:
            return True
        if not batches or any(each.records or each.is_old for each in committed(batches, found.aborted)):
            return True
        at = batches[-1].last + 1
    return False


async def is_visible(target: Cluster, where: Where, offset: int) -> bool | None:
    """True if read_committed consumers see the record at this offset; False if its transaction was aborted.

    None if there is no such record any more, or the target refuses to say it. Raises WireError and PartitionError:
    PositionUnstable while the leader that was elected just now does not give what is there yet.
    """
    found = await _fetched(target, where, offset)
    if found is None:
        return None
    if found.stable <= offset:
        raise PositionUnstable(not_given_yet(f"{where[0]}-{where[1]}", offset))
    try:
        batches = walk(found.records)
    except Malformed:
        return None
    there, visible = (
        any(each.records and each.first <= offset <= each.last for each in some)
        for some in (batches, committed(batches, found.aborted))
    )
    return visible if there else None


async def count_between(target: Cluster, where: Where, first: int, end: int, most: int) -> int | None:
    """How many records are at these offsets, `end` excluded, committed or not. None if that can't be found out now.

    It counts no further than to `most`, or to the end of an answer. Markers do not count.
    """
    at, found = first, 0
    try:
        async with asyncio.timeout(COUNT_TIMEOUT):
            while at < end and found < most:
                answer = await _fetched(target, where, at, stable=False)
                batches = [each for each in walk(answer.records) if each.last >= at] if answer else []
                if not batches:
                    return None
                found += sum(each.records for each in batches if each.first < end and not each.attributes & CONTROL)
                at = batches[-1].last + 1
    except (WireError, PartitionError, TimeoutError):
        return None
    return found


async def _fetched(target: Cluster, where: Where, at: int, stable: bool = True) -> PartitionAnswer | None:
    """What follows `at`; None if the target has nothing there any more, or may not be asked. Raises WireError,
    PartitionError.
    """
    topic, partition = where
    leader = await target.leader(topic, partition)
    connection = await target.connection(leader.node)
    wanted = Wanted(partition, at, ANSWER_MAX, leader.epoch)
    key, limits = TopicKey(topic, target.topic_id(topic)), Limits(0.0, ANSWER_MAX)
    answer = await connection.ask(fetch({key: [wanted]}, limits, stable=stable))
    if not answer.error and not answer.partitions:  # a quota holds us back (KIP-219)
        raise Unavailable(f"{connection.name} gives nothing of {topic}-{partition} now")
    found = answer.partitions[0][1] if answer.partitions else None
    error = answer.error or (found.error if found else 0)
    if error in _LASTING:
        return None
    if error:
        target.forget_leader(topic, partition)
        raise refusal(FETCH.name, error)
    return found
