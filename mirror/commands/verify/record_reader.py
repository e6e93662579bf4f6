"""Reads records as consumers see them, without a client library, so that it gets them whole.

librdkafka cuts header names at their first NUL byte.
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

TIMEOUT = 30.0  # seconds without any record; long enough for a leader that hangs and for its successor
WAIT = 500  # ms that a broker may wait for records
FETCH_MAX = 4 * 2**20  # bytes of one request; two answers can be in memory at once

Record = tuple[int, int, bytes]  # offset, timestamp (ms), encoded content


class OldFormat(Exception):
    """The partition has records of format 0 or 1 from `first` to `last`, which this module does not decode."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(first, last)
        self.first, self.last = first, last


class Removed(Exception):
    """The log no longer has the offset."""


def obstacle(properties: Mapping[str, str]) -> str | None:
    """Why this module can't read a cluster; None if it can. Waits a while for a cluster that does not answer."""
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
    """Reads from the cluster that these librdkafka properties reach.

    It sees what read_committed consumers see; with `stable` False, also records of aborted and open transactions.
    """

    def __init__(self, properties: Mapping[str, str], stable: bool = True) -> None:
        self._brokers = Brokers(access(properties))
        self._stable = stable

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Record]:
        """The records from `start` up to the offset `stop`, which is at most the last stable offset.

        With `stable` False, `stop` is at most the high watermark.

        Raises OldFormat, Removed, WireError.
        """
        for batch in self._batches(topic, partition, start, stop):
            if start <= batch.first and batch.last < stop:
                yield from records(batch)
            else:
                yield from (record for record in records(batch) if start <= record[0] < stop)

    def _batches(self, topic: str, partition: int, start: int, stop: int) -> Iterator[RecordBatch]:
        """The batches from the one with `start` on. The next request is sent before they are processed."""
        fetches = _Fetches(self._brokers, topic, partition, self._stable)
        position = start
        while position < stop:
            fetched = fetches.next(position, stop)
            batches = [batch for batch in walk(fetched.records) if batch.last >= position]
            if not batches:
                raise Malformed(f"the answer has no batch with offset {position}")
            old = [batch.last for batch in takewhile(lambda each: each.is_old, batches)]
            if old:
                raise OldFormat(position, old[-1])
            new = list(takewhile(lambda each: not each.is_old, batches))
            position = new[-1].last + 1
            if position < stop:
                fetches.ask(position)
            yield from committed(new, fetched.aborted)


class _Fetches:
    """Fetch requests for one partition, sent to its leader; at most one is under way."""

    def __init__(self, brokers: Brokers, topic: str, partition: int, stable: bool) -> None:
        self._brokers = brokers
        self._stable = stable
        self._where = topic, partition
        self._asked: tuple[Connection, int] | None = None

    def ask(self, position: int) -> None:
        """Send a request for the records from `position` on, if there is a leader."""
        with contextlib.suppress(Unavailable):  # then `next` looks for the new leader
            self._asked = self._ask(position)

    def next(self, position: int, stop: int) -> Fetched:
        """The records from `position` on. Waits for a leader and for records. Raises Removed, WireError."""
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
        raise WireError(f"no record before offset {stop} within {TIMEOUT:.0f} s: {reason}")

    def _ask(self, position: int) -> tuple[Connection, int]:
        connection = self._brokers.leader(*self._where)
        request = messages.fetch(*self._where, position, WAIT, FETCH_MAX, self._stable)
        return connection, connection.ask(messages.FETCH, request)

    def _answer(self, position: int) -> Fetched:
        (connection, number), self._asked = self._asked or self._ask(position), None
        throttled, fetched = messages.fetch_answer(connection.answer(number), *self._where)
        connection.throttled(throttled)
        if fetched.error == messages.OFFSET_OUT_OF_RANGE:
            raise Removed
        if fetched.error:
            raise failure(fetched.error)
        return fetched
