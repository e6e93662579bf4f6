"""Load on a source cluster: numbered records, each unique in its topic."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.harness.waiting import PATIENCE, until


class Made(NamedTuple):
    """A record to produce."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = []  # noqa: RUF012


Factory = Callable[[int], Made]


def numbered(number: int) -> Made:
    """A small record with a key that comes again and a value that does not."""
    return Made(b"key-%d" % (number % 100), b"%012d" % number)


def sized(size: int) -> Factory:
    """Factory of records with values of `size` bytes."""
    return lambda number: Made(b"%d" % number, (b"%012d" % number).ljust(size, b"."))


def mixed(number: int) -> Made:
    """Records with and without key, value and headers in all combinations; headers tell them apart."""
    headers: list[tuple[str, bytes | None]] = [("number", b"%d" % number)]
    if number % 5 == 0:
        headers += [("twice", b"1"), ("twice", b""), ("null", None)]
    return Made((None, b"", b"k%d" % number)[number % 3], (None, b"", b"v%d" % number)[number // 3 % 3], headers)


def keyed(number: int) -> Made:
    """A record for a compacted topic: few keys, and every fifth one a tombstone; headers tell records apart."""
    value = None if number % 5 == 0 else b"v%d" % number
    return Made(b"key-%d" % (number % 17), value, [("number", b"%d" % number)])


@dataclass
class Counts:
    """What a load has done, by (topic, partition)."""

    committed: Counter[tuple[str, int]] = field(default_factory=Counter)
    aborted: Counter[tuple[str, int]] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Records that a read_committed consumer sees."""
        return self.committed.total()


def producer(bootstrap: str, **config: object) -> Producer:
    """An idempotent producer that keeps still."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 5,
            "message.timeout.ms": int(PATIENCE * 1000),
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
    )


def transactional(bootstrap: str, name: str) -> Producer:
    """A producer with this transactional id. What the last one has begun is aborted, and its markers are written."""
    to = producer(bootstrap, transactional_id=name, message_timeout_ms=30_000)
    to.init_transactions(PATIENCE)
    return to


def produce(
    bootstrap: str, topic: str, records: list[Made], partition: int = 0, timestamp: int = 0, **config: object
) -> None:
    """Produce these records in order, and wait until they stand."""
    failed: list[KafkaError] = []
    with_config = producer(bootstrap, **config)
    for made in records:
        send(with_config, topic, partition, made, lambda e, _: failed.append(e) if e else None, timestamp)
    assert with_config.flush(PATIENCE) == 0 and not failed, failed


def send(
    to: Producer, topic: str, partition: int, made: Made, delivered: Callable[..., None], timestamp: int = 0
) -> None:
    """Give a record to the producer, once it has room for it."""
    while True:
        try:
            to.produce(
                topic,
                made.value,
                made.key,
                partition,
                on_delivery=delivered,
                timestamp=timestamp,
                headers=list(made.headers),
            )
            return
        except BufferError:
            to.poll(0.1)


class Load:
    """One producing thread; as a context manager it stops at the end.

    `topics` gives the number of partitions of each topic, which are served in turn. `rate` is records per second of
    all together, None as fast as possible. With `transaction` records go in transactions of so many, and of each
    `abort_every` transactions the last is aborted (0: none).
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Mapping[str, int],
        *,
        rate: float | None = None,
        make: Factory = numbered,
        transaction: int = 0,
        abort_every: int = 0,
        first: int = 0,
    ) -> None:
        self.counts = Counts()
        self._bootstrap = bootstrap
        self._rate = rate
        self._make = make
        self._transaction = transaction
        self._abort_every = abort_every
        self._number = first
        self._transactional_id = f"load-{uuid.uuid4().hex}"
        self._partitions = [(topic, n) for topic, total in topics.items() for n in range(total)]
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="load")

    def start(self) -> Load:
        """Begin."""
        self._thread.start()
        return self

    def wait_for(self, records: int, timeout: float = PATIENCE) -> None:
        """Wait until so many records are committed on the source."""
        until(f"{records} records of load", lambda: self.failed() or self.counts.total >= records, timeout)
        assert not self.failed(), self._failure

    def failed(self) -> bool:
        """True if it has ended by an error."""
        return self._failure is not None

    def stop(self) -> Counts:
        """Stop after what was begun is on the source; returns what was done. May be called again."""
        self._stopping.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "load does not stop"
        if self._failure is not None:
            raise self._failure
        return self.counts

    def __enter__(self) -> Load:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with contextlib.nullcontext() if error is None else contextlib.suppress(BaseException):
            self.stop()

    def _run(self) -> None:
        try:
            if self._transaction:
                self._transactions()
            else:
                self._plain()
        except BaseException as failure:
            self._failure = failure

    def _plain(self) -> None:
        to = producer(self._bootstrap)
        begun = time.monotonic()
        failed: list[KafkaError] = []
        sent = 0

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                self.counts.committed[message.topic(), message.partition()] += 1

        while not self._stopping.is_set() and not failed:
            self._next(to, delivered)
            sent += 1
            to.poll(0)
            self._pace(begun, sent)
        assert to.flush(PATIENCE) == 0 and not failed, failed

    def _transactions(self) -> None:
        to = self._transactional()
        begun, sent, transactions = time.monotonic(), 0, 0
        while not self._stopping.is_set():
            transactions += 1
            abort = bool(self._abort_every) and transactions % self._abort_every == 0
            touched: Counter[tuple[str, int]] = Counter()
            to.begin_transaction()
            sent += self._transaction
            try:
                for _ in range(self._transaction):
                    touched[self._next(to, lambda *_: None)] += 1
                if abort:
                    to.flush(PATIENCE)
                    to.abort_transaction(PATIENCE)
                else:
                    to.commit_transaction(PATIENCE)
            except KafkaException as error:
                # Whether it is on the source, only the source can tell; the oracle asks it.
                if not error.args[0].fatal() and error.args[0].txn_requires_abort():
                    to.abort_transaction(PATIENCE)
                else:
                    to = self._transactional()
                continue
            (self.counts.aborted if abort else self.counts.committed).update(touched)
            self._pace(begun, sent)
        # A commit is answered before its markers are written. Who begins anew with the same id waits for them.
        self._transactional()

    def _transactional(self) -> Producer:
        return transactional(self._bootstrap, self._transactional_id)

    def _next(self, to: Producer, delivered: Callable[..., None]) -> tuple[str, int]:
        topic, partition = self._partitions[self._number % len(self._partitions)]
        send(to, topic, partition, self._make(self._number), delivered)
        self._number += 1
        return topic, partition

    def _pace(self, begun: float, sent: int) -> None:
        if self._rate is not None:
            ahead = begun + sent / self._rate - time.monotonic()
            if ahead > 0:
                self._stopping.wait(ahead)
