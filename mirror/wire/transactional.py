"""The requests of a transaction: who writes it, the position that goes with it, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirror.errors import Malformed
from mirror.wire.cursor import Cursor
from mirror.wire.offsets import Offset, Where, read_committed, write_offset
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer

INIT_PRODUCER_ID = Api("InitProducerId", 22, 3, 5, flexible=2)
# The versions of transactions version 2 (KIP-890): a position adds itself, and an end gives the next epoch.
TXN_OFFSET_COMMIT = Api("TxnOffsetCommit", 28, 5, 5, flexible=3)
END_TXN = Api("EndTxn", 26, 5, 5, flexible=3)
# The feature that a cluster has to use for that, and the level of transactions version 2.
TRANSACTION_VERSION, NEEDED_LEVEL = "transaction.version", 2
_NEXT_EPOCH = 5  # the first version of EndTxn that gives it


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom the transaction coordinator has let in: transactional id, producer id and epoch."""

    name: str
    producer: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Entered:
    """An answer that names a producer: an error code, producer id and epoch."""

    error: int
    producer: int
    epoch: int


def init_producer_id(name: str, timeout: float) -> Request[Entered]:
    """Fence whoever has this transactional id, and end its transaction. `timeout` (s) is that of the next ones."""

    def write(writer: Writer) -> None:
        writer.string(name).pack("iqh", int(timeout * 1000), -1, -1).tags()

    return Request(INIT_PRODUCER_ID, write, _entered)


def end_txn(by: Identity, commit: bool, api: Api = END_TXN) -> Request[Entered]:
    """End the transaction. The answer has the producer and the epoch of the next one."""

    def write(writer: Writer) -> None:
        writer.string(by.name).pack("qhb", by.producer, by.epoch, commit).tags()

    return Request(api, write, _ended)


def _entered(answer: Cursor) -> Entered:
    answer.throttle()
    found = Entered(answer.int16(), answer.int64(), answer.int16())
    answer.tags()
    if not found.error and (found.producer < 0 or found.epoch < 0):
        raise Malformed(f"a producer has the id {found.producer} and the epoch {found.epoch}")
    return found


def _ended(answer: Cursor) -> Entered:
    if answer.version >= _NEXT_EPOCH:
        return _entered(answer)
    answer.throttle()
    error = answer.int16()
    answer.tags()
    return Entered(error, -1, -1)


def txn_offset_commit(
    by: Identity, group: str, offsets: Mapping[Where, Offset], api: Api = TXN_OFFSET_COMMIT
) -> Request[Mapping[Where, int]]:
    """Commit offsets with the transaction. The answer: an error code for each."""

    def write(writer: Writer) -> None:
        writer.string(by.name).string(group).pack("qhi", by.producer, by.epoch, -1).string("").string(None)
        writer.array(offsets.items(), write_offset).tags()

    return Request(api, write, read_committed, asked=len(offsets))
