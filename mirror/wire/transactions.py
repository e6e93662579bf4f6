"""Lists the transactional ids of a cluster (KIP-664), which librdkafka can't."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from mirror.backoff import Backoff
from mirror.errors import Refused, Unavailable, Unsupported
from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.connection import Connection
from mirror.wire.cursor import Cursor
from mirror.wire.error_codes import CODES, name_of
from mirror.wire.metadata import TRANSACTION
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

T = TypeVar("T")

TIMEOUT = 10.0  # seconds in which every broker has to answer
# A broker coordinates some transactional ids, and has to load them first.
_LOADING = [CODES[f"COORDINATOR_{each}"] for each in ("LOAD_IN_PROGRESS", "NOT_AVAILABLE")] + [CODES["NOT_COORDINATOR"]]

LIST_TRANSACTIONS = Api("ListTransactions", 66, 0, 0, flexible=0)
_LEAST = 11  # bytes of a transaction


@dataclass(frozen=True, slots=True)
class Listed:
    """An error code, and the transactional ids of one broker."""

    error: int
    names: list[str]


def transactional_ids(properties: Mapping[str, str]) -> set[str]:
    """The transactional ids that we may see on the cluster that these librdkafka properties reach.

    These are also those whose last transaction has ended, until they expire. Raises WireError; Unsupported for brokers
    before Kafka 3.0.
    """
    return asyncio.run(_every_id(Cluster(access(properties))))


def is_hidden(properties: Mapping[str, str], name: str) -> bool:
    """True if we may not Describe this transactional id: then it is not listed to us, whether it exists or not.

    Raises WireError.
    """
    return asyncio.run(_is_hidden(Cluster(access(properties)), name))


async def _every_id(cluster: Cluster) -> set[str]:
    async def ask() -> set[str]:
        connections = [await cluster.connection(node) for node in await cluster.brokers()]
        return {name for each in connections for name in await _listed(each)}

    return await _answered(cluster, ask)


async def _is_hidden(cluster: Cluster, name: str) -> bool:
    async def ask() -> bool:
        try:
            await cluster.coordinator(TRANSACTION, name)
        except Refused as error:
            if error.code != CODES["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"]:
                raise
            return True
        return False

    return await _answered(cluster, ask)


async def _answered(cluster: Cluster, ask: Callable[[], Awaitable[T]]) -> T:
    """What `ask` returns. It is called again while it raises Unavailable, but not for ever."""
    deadline, backoff = time.monotonic() + TIMEOUT, Backoff()
    try:
        while True:
            try:
                return await ask()
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(backoff.next())
    finally:
        cluster.close()


async def _listed(connection: Connection) -> list[str]:
    if LIST_TRANSACTIONS.key not in connection.abilities.versions:
        raise Unsupported("brokers before Kafka 3.0 do not list transactions")
    found = await connection.ask(list_transactions())
    if found.error in _LOADING:
        raise Unavailable("a broker is loading its transactions", found.error)
    if found.error:
        raise Unsupported(f"ListTransactions was answered with {name_of(found.error)}", found.error)
    return found.names


def list_transactions() -> Request[Listed]:
    """Ask a broker for the transactional ids that it coordinates."""
    return Request(LIST_TRANSACTIONS, _everything, _read)


def _everything(writer: Writer) -> None:
    writer.array((), Writer.string).array((), Writer.string).tags()  # no filter by state, none by producer id


def _read(answer: Cursor) -> Listed:
    answer.throttle()
    error = answer.int16()
    answer.array(Cursor.string, 1)  # states that the broker does not know
    names = answer.array(_name, _LEAST)
    answer.tags()
    return Listed(error, names)


def _name(answer: Cursor) -> str:
    name = answer.string()
    answer.int64(), answer.string()  # producer id, state
    answer.tags()
    return name
