"""Looks whether a remote partition has records that read_committed consumers see."""

from __future__ import annotations

from mirror.batches.headers import committed, walk
from mirror.errors import Malformed
from mirror.target.coordination import refusal
from mirror.wire.cluster import Cluster
from mirror.wire.error_codes import PASSING
from mirror.wire.fetch import FETCH, Limits, PartitionAnswer, TopicKey, Wanted, fetch
from mirror.wire.offsets import Where

ANSWER_MAX = 2**18  # bytes, or one batch: many partitions may be looked at together


async def has_records(target: Cluster, where: Where, end: int) -> bool:
    """True unless everything before `end` is known to be markers and aborted transactions. All of these have ended.

    What can't be read, or begins after offset 0, counts as records. Raises WireError and PartitionError if the target
    does not answer now.
    """
    at = 0
    while at < end:
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


async def _fetched(target: Cluster, where: Where, at: int) -> PartitionAnswer | None:
    """What follows `at`; None if the target refuses to say it."""
    topic, partition = where
    leader = await target.leader(topic, partition)
    connection = await target.connection(leader.node)
    wanted = Wanted(partition, at, ANSWER_MAX, leader.epoch)
    answer = await connection.ask(fetch({TopicKey(topic, target.topic_id(topic)): [wanted]}, Limits(0.0, ANSWER_MAX)))
    found = answer.partitions[0][1] if answer.partitions else None
    error = answer.error or (found.error if found else 0)
    if error in PASSING:
        target.forget_leader(topic, partition)
        raise refusal(FETCH.name, error)
    return None if error else found
