"""Copying with a producer of our own, to find out which acknowledgements a transaction can do without.

A WireCopier writes numbered records to a topic with one partition, in transactions of some batches, with its position
in each of them. Its way says what is sent with which `acks`, and what is checked before the commit. See
docs/decisions/0006.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import NewTopic

from mirror.batches.records import Content
from mirror.errors import WireError
from tests.checker.checker import Violation, check
from tests.checker.history import Committed, History, Record, Sent
from tests.harness import batches, oracle, topics
from tests.harness.waiting import PATIENCE, until
from tests.harness.wire_producer import ALL, LEADER, Identity, Produced, Refused, WireProducer

T = TypeVar("T")

BATCH = 10  # records
BATCHES = 6  # in a transaction
TRANSACTION_RECORDS = BATCH * BATCHES
LONG_AGO = 1_000_000_000_000  # ms since the Unix epoch; the records' timestamps
TRANSACTION_TIMEOUT = 600.0  # seconds; longer than any round takes on a busy machine. Brokers allow 900
CONFIG = {"min.insync.replicas": "2", "retention.ms": "-1"}  # or records of long ago would go after half a minute


@dataclass(frozen=True, slots=True)
class Way:
    """How transactions are sent. `version` is that of transactions; an explicit add is a request of version 1."""

    first: int = ALL  # acks
    last: int = ALL
    checked: bool = True  # before the commit, that the base offsets are contiguous
    version: int = 2
    explicit: bool = False


SAFE = Way()


class Gap(Exception):
    """The base offsets are not contiguous."""


Failure = (Refused, WireError, Gap)


@dataclass(slots=True)
class Open:
    """A transaction under way."""

    batches: Sequence[bytes]
    position: int  # after it
    sent: int = 0  # batches
    first: int = -1  # base offset


class WireCopier:
    """Copies `count` records to one partition with a WireProducer. After a failure, `enter` fences, loads and seeks."""

    def __init__(self, bootstrap: str, topic: str, way: Way, count: int, name: str = "") -> None:
        """`count` is a multiple of a transaction's records. `name` is the transactional id, if not the topic's name."""
        self.topic, self.way = topic, way
        self.group = f"{topic}-group"
        self.wire = WireProducer(bootstrap)
        self.source = [Record(number, None, b"%d" % number, (), LONG_AGO + number) for number in range(count)]
        self.positions: list[Committed] = []
        self.refusals: list[str] = []
        self.cut = threading.Event()  # when set, connections are cut after the next batch
        self.by: Identity
        self._name, self._bootstrap = name or topic, bootstrap
        self._position = self._sequence = 0
        self._open: Open

    def enter(self) -> None:
        """Fence, load, seek."""
        self.wire.forget()
        self.by = self.wire.enter(self._name, TRANSACTION_TIMEOUT)
        self._position = oracle.committed_position(self._bootstrap, self.group, self.topic, 0) or 0
        self._sequence = 0

    def begin(self) -> None:
        """Open the next transaction, with its position and without its records."""
        wanted = self.source[self._position : self._position + TRANSACTION_RECORDS]
        made = [_batch(wanted[at : at + BATCH]) for at in range(0, len(wanted), BATCH)]
        self._open = Open(made, self._position + len(wanted))
        if self.way.explicit:
            self.wire.add(self.by, self.topic, self.group)
        self.wire.commit_offset(self.by, self.group, self.topic, self._open.position, self.way.version)

    def first(self) -> None:
        """Send the first batch, and wait for the answer."""
        self._open.first = self._send(self.way.first).base_offset()

    def middle(self, count: int = BATCHES) -> None:
        """Send `count` batches, but never the last one, and then wait for the answers."""
        left = len(self._open.batches) - self._open.sent - 1
        for each in [self._send(LEADER) for _ in range(min(count, left))]:
            each.base_offset()

    def last(self) -> None:
        """Send the last batch, wait for the answer, and check it. Raises Gap."""
        base = self._send(self.way.last).base_offset()
        wanted = self._open.first + BATCH * (len(self._open.batches) - 1)
        if self.way.checked and base != wanted:
            raise Gap(f"the last batch is at {base}, not at {wanted}")

    @property
    def sent_up_to(self) -> int:
        """The offset after what this transaction has sent to its topic."""
        return self._open.first + BATCH * self._open.sent

    def commit(self) -> None:
        """Commit the transaction."""
        before, self.by = self.by, self.wire.end(self.by, True, self.way.version)
        if before != self.by:
            self._sequence = 0
        self._position = self._open.position
        self.positions.append(Committed(self._position))

    def transaction(self) -> None:
        """One transaction, from its beginning to its end."""
        self.begin()
        self.first()
        self.middle()
        self.last()
        self.commit()

    def copy(self) -> None:
        """Copy what is left, in the safe way, whatever fails meanwhile."""
        self.way = replace(SAFE, version=self.way.version, explicit=self.way.explicit)
        while self._position < len(self.source):
            try:
                self.transaction()
            except Failure as failure:
                self.recover(failure)

    def recover(self, failure: Exception) -> None:
        """Note the failure, and begin anew."""
        own = [frame.name for frame in traceback.extract_tb(failure.__traceback__) if frame.filename == __file__]
        steps = [name for name in own if name in ("begin", "first", "middle", "last", "commit")]
        self.refusals.append(f"{''.join(steps)}: {failure}")
        self.enter_again()

    def enter_again(self) -> None:
        """Enter, when the cluster lets us."""

        def entered() -> bool:
            try:
                self.enter()
            except Failure:
                return False
            return True

        until(f"{self.topic} is copied again", entered, PATIENCE)

    def violations(self, deleted: int = 0) -> list[Violation]:
        """What the checker finds, without the first `deleted` records, which were deleted on the target."""
        target = oracle.read(self._bootstrap, self.topic)[0]
        position = oracle.committed_position(self._bootstrap, self.group, self.topic, 0)
        kinds = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        stable, high = (oracle.ends(self._bootstrap, self.topic, kind)[0] for kind in kinds)
        sent = [Sent(each.key, each.value, each.headers, "acknowledged") for each in self.source]
        history = History(sent, self.source, target, (), (), self.positions, position, len(self.source), stable, high)
        history.chosen = deleted or None
        return check(history)

    def _send(self, acks: int) -> Produced:
        batch = self._open.batches[self._open.sent]
        sent = self.wire.send(self.by, self.topic, batch, self._sequence, acks, self.way.version)
        self._open.sent += 1
        self._sequence += BATCH
        if self.cut.is_set():
            self.cut.clear()
            self.wire.forget()
        return sent


def _batch(records: Sequence[Record]) -> bytes:
    first = records[0].offset
    return batches.batch([(r.offset - first, r.timestamp, Content(r.key, r.value, ())) for r in records])


def create(bootstrap: str, topic: str, replicas: Sequence[int]) -> str:
    """A topic with one partition on these brokers, led by the first. Returns its name."""
    wanted = NewTopic(topic, 1, replica_assignment=[list(replicas)], config=CONFIG)
    topics.admin(bootstrap).create_topics([wanted])[topic].result(PATIENCE)
    return topic


def tried(look: Callable[[], T | None]) -> T | None:
    """What `look` returns; None if the cluster can't tell now."""
    try:
        return look()
    except Failure:
        return None
