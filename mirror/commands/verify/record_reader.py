"""Reads records as read_committed consumers see them, without a client library: nothing of a record is cut or lost.

librdkafka takes header names for texts that end with their first NUL byte.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from itertools import takewhile

from mirror.backoff import Backoff
from mirror.batches.headers import RecordBatch, committed, walk
from mirror.batches.records import records
from mirror.errors import Malformed, Unavailable, WireError
from mirror.wire import messages
from mirror.wire.access import access
from mirror.wire.brokers import Brokers, failure
from mirror.wire.connection import Connection
from mirror.wire.messages import Fetched

TIMEOUT = 30.0  # seconds without anything read; time enough for a leader that hangs, and the next one
WAIT = 500  # ms that a broker waits for something to read
FETCH_MAX = 4 * 2**20  # bytes asked for at once; two answers are in memory, and the next one on its way

Record = tuple[int, int, bytes]  # offset, timestamp (ms), encoded content


class OldFormat(Exception):
    """From `first` up to `last` the partition has records of format 0 or 1, which are not unpacked here."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(first, last)
        self.first, self.last = first, last


class Removed(Exception):
    """The offset is not in the log any more."""


def obstacle(properties: Mapping[str, str]) -> str | None:
    """Why a cluster can't be read here; None: it can. It does answer, or we wait for it for a while."""
    try:
        brokers = Brokers(access(properties))
        deadline, backoff = time.monotonic() + TIMEOUT, Backoff()
        while True:
            try:
                brokers.any()
                brokers.close()
                return None
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(backoff.next())
    except WireError as error:
        return str(error)


class RecordReader:
    """Of one cluster, which these librdkafka properties reach."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._brokers = Brokers(access(properties))

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Record]:
        """The records from `start` up to the offset `stop`, which is not behind the last stable offset.

        Raises OldFormat, Removed, WireError.
        """
        for batch in self._batches(topic, partition, start, stop):
            if start <= batch.first and batch.last < stop:
                yield from records(batch)
            else:
                yield from (record for record in records(batch) if start <= record[0] < stop)

    def _batches(self, topic: str, partition: int, start: int, stop: int) -> Iterator[RecordBatch]:
        """The batches from the one with `start` on. While they are worked on, the next answer is on its way."""
        fetches = _Fetches(self._brokers, topic, partition)
        position = start
        while position < stop:
            fetched = fetches.next(position, stop)
            batches = [batch for batch in walk(fetched.records) if batch.last >= position]
            if not batches:
                raise Malformed(f"nothing of offset {position} is in the answer")
            old = [batch.last for batch in takewhile(lambda each: each.is_old, batches)]
            if old:
                raise OldFormat(position, old[-1])
            new = list(takewhile(lambda each: not each.is_old, batches))
            position = new[-1].last + 1
            if position < stop:
                fetches.ask(position)
            yield from committed(new, fetched.aborted)


class _Fetches:
    """Of one partition, wherever its leader is."""

    def __init__(self, brokers: Brokers, topic: str, partition: int) -> None:
        self._brokers = brokers
        self._where = topic, partition
        self._asked: tuple[Connection, int] | None = None

    def ask(self, position: int) -> None:
        """Ask for what comes from this offset on, if a leader is there."""
        with contextlib.suppress(Unavailable):  # then `next` looks for another one
            self._asked = self._ask(position)

    def next(self, position: int, stop: int) -> Fetched:
        """What comes from this offset on; waits for a leader and for records. Raises Removed, WireError."""
        backoff, deadline = Backoff(most=1.0), time.monotonic() + TIMEOUT
        reason = "no records come"
        while time.monotonic() < deadline:
            try:
                fetched = self._answer(position)
                if fetched.records:
                    return fetched
            except Unavailable as error:
                reason = str(error)
                self._brokers.forget(*self._where)
                time.sleep(backoff.next())
        raise WireError(f"up to offset {stop}: nothing within {TIMEOUT:.0f} s: {reason}")

    def _ask(self, position: int) -> tuple[Connection, int]:
        connection = self._brokers.leader(*self._where)
        return connection, connection.ask(messages.FETCH, messages.fetch(*self._where, position, WAIT, FETCH_MAX))

    def _answer(self, position: int) -> Fetched:
        (connection, number), self._asked = self._asked or self._ask(position), None
        throttled, fetched = messages.fetch_answer(connection.answer(number), *self._where)
        connection.throttled(throttled)
        if fetched.error == messages.OFFSET_OUT_OF_RANGE:
            raise Removed
        if fetched.error:
            raise failure(fetched.error)
        return fetched
