"""Markers that commit a transaction in one of its partitions alone, as a broker does that nobody follows any more."""

from __future__ import annotations

import asyncio

from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.cursor import Cursor
from mirror.wire.producers import OpenTransaction, open_transactions
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

WRITE_TXN_MARKERS = Api("WriteTxnMarkers", 27, 1, 1, flexible=1)
POSITIONS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"


def commit_records(bootstrap: str, topic: str, transactional_id: str) -> None:
    """Commit what the open transaction has in partition 0 of a topic, and nothing else of it."""
    asyncio.run(_commit(bootstrap, topic, transactional_id, ""))


def commit_position(bootstrap: str, topic: str, transactional_id: str, group: str) -> None:
    """Commit the position of a group in the transaction that is open on partition 0, and nothing else of it."""
    asyncio.run(_commit(bootstrap, topic, transactional_id, group))


async def _commit(bootstrap: str, topic: str, transactional_id: str, group: str) -> None:
    cluster = Cluster(access({"bootstrap.servers": bootstrap}))
    try:
        found = await open_transactions(cluster, topic, 0)
        assert len(found) == 1, f"open on {topic}-0: {found}"
        (open_,) = found
        where = (POSITIONS, await _place(cluster, POSITIONS, group)) if group else (topic, 0)
        coordinator = await cluster.leader(TRANSACTIONS, await _place(cluster, TRANSACTIONS, transactional_id))
        connection = await cluster.connection((await cluster.leader(*where)).node)
        errors = await connection.ask(_marker(open_, where, coordinator.epoch))
        assert errors == [0], f"{where}: {errors}"
    finally:
        cluster.close()


async def _place(cluster: Cluster, topic: str, name: str) -> int:
    """Which partition of Kafka's own topic has a name: by the hash of Java's String."""
    value = 0
    for each in name:
        value = (31 * value + ord(each)) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    return abs(signed) % len((await cluster.topic(topic)).leaders)


def _marker(open_: OpenTransaction, where: tuple[str, int], coordinator_epoch: int) -> Request[list[int]]:
    topic, partition = where

    def write_topic(writer: Writer, name: str) -> None:
        writer.string(name).array((partition,), lambda each, number: each.pack("i", number)).tags()

    def write_marker(writer: Writer, each: OpenTransaction) -> None:
        writer.pack("qhb", each.producer_id, each.producer_epoch, True)
        writer.array((topic,), write_topic).pack("i", coordinator_epoch).tags()

    def read_partition(answer: Cursor) -> int:
        answer.int32()
        error = answer.int16()
        answer.tags()
        return error

    def read_marker(answer: Cursor) -> list[int]:
        answer.int64()
        errors = [error for _, error in answer.by_topic(read_partition, 6)]
        answer.tags()
        return errors

    def read(answer: Cursor) -> list[int]:
        (errors,) = answer.array(read_marker, 8)
        answer.tags()
        return errors

    return Request(WRITE_TXN_MARKERS, lambda writer: writer.array((open_,), write_marker).tags(), read)
