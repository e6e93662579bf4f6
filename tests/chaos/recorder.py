"""Load on one topic with everything recorded that the checker wants to know."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from types import TracebackType

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer

from tests.chaos.watch import Watch
from tests.checker.history import Fate, Headers, History, Record, Sent
from tests.harness import oracle
from tests.harness.load import Made, mixed, producer
from tests.harness.pair import Pair
from tests.harness.waiting import PATIENCE, TooLate, until

TRANSACTION = 20  # records
ABORT_EVERY = 5  # transactions
SETTLE_TIMEOUT = 150.0  # seconds until everything has to be copied


class Sender(threading.Thread):
    """Sends numbered records to one partition, every other partition in transactions of which some are aborted."""

    def __init__(self, bootstrap: str, topic: str, partition: int, rate: float) -> None:
        super().__init__(daemon=True, name=f"send {topic}-{partition}")
        self.sent: list[Sent] = []
        self.failure: BaseException | None = None
        self.paused = threading.Event()  # nothing is sent meanwhile
        self._source = bootstrap
        self._topic = topic
        self._partition = partition
        self._rate = rate
        self._number = 0
        self._stopping = threading.Event()
        self._begun = time.monotonic()

    def run(self) -> None:
        """Until `stop`."""
        try:
            (self._transactions if self._partition % 2 else self._plain)()
        except BaseException as failure:
            self.failure = failure

    def stop(self) -> None:
        """End in order; raises what it failed with."""
        self._stopping.set()
        self.join(PATIENCE + 30)
        assert not self.is_alive(), f"{self.name} does not stop"
        if self.failure is not None:
            raise self.failure

    def _steps(self, records: int) -> Iterator[None]:
        while not self._stopping.is_set():
            if self.paused.is_set():
                self._stopping.wait(0.05)
                continue
            yield
            ahead = self._begun + (self._number + records) / self._rate - time.monotonic()
            if ahead < -1.0:
                self._begun -= ahead  # what was missed while the source was away is not made up for
            self._stopping.wait(max(0.0, ahead))

    def _plain(self) -> None:
        to = producer(self._source)
        for _ in self._steps(1):
            self._send(to, lambda made, error: self._note(made, "unknown" if error else "acknowledged"))
            to.poll(0)
        to.flush(PATIENCE)

    def _transactions(self) -> None:
        to = self.transactional()
        for count, _ in enumerate(self._steps(TRANSACTION), 1):
            wanted: Fate = "aborted" if count % ABORT_EVERY == 0 else "acknowledged"
            batch: list[Made] = []
            try:
                to.begin_transaction()
                for _ in range(TRANSACTION):
                    batch.append(self._send(to, lambda *_: None))
                if wanted == "aborted":
                    to.flush(PATIENCE)
                    to.abort_transaction(PATIENCE)
                else:
                    to.commit_transaction(PATIENCE)
            except KafkaException:
                # A new producer with the same id aborts what is open; a commit may have been on its way.
                wanted = "aborted" if wanted == "aborted" else "unknown"
                to = self.transactional()
            for made in batch:
                self._note(made, wanted)

    def transactional(self, suffix: str = "") -> Producer:
        """A producer with this partition's transactional id, or another one."""
        name = f"chaos-{self._topic}-{self._partition}{suffix}"
        to = producer(self._source, transactional_id=name, message_timeout_ms=30_000)
        to.init_transactions(PATIENCE)
        return to

    def _send(self, to: Producer, delivered: Callable[[Made, KafkaError | None], None]) -> Made:
        made = mixed(self._number)
        self._number += 1
        while True:
            try:
                to.produce(
                    self._topic,
                    made.value,
                    made.key,
                    self._partition,
                    on_delivery=lambda error, _: delivered(made, error),
                    headers=list(made.headers),
                )
                return made
            except BufferError:
                to.poll(0.1)

    def _note(self, made: Made, fate: Fate) -> None:
        headers: Headers = tuple((name, value) for name, value in made.headers)
        self.sent.append(Sent(made.key, made.value, headers, fate))


class Recorder:
    """As a context manager: a topic under load from the beginning to `finish`."""

    def __init__(self, pair: Pair, partitions: int = 2, rate: float = 400.0) -> None:
        self.pair = pair
        self.topic = pair.topic(uuid.uuid4().hex[:8], partitions)
        self.passed_over: dict[int, set[int]] = {number: set() for number in range(partitions)}
        self.senders = [Sender(pair.source, self.topic, number, rate / partitions) for number in range(partitions)]
        self.watch = Watch(pair, self.topic)
        self.stalls: list[float] = []
        self._remembered: dict[int, dict[int, Record]] = {}  # by partition and offset

    def __enter__(self) -> Recorder:
        for sender in self.senders:
            sender.start()
        self.watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for sender in self.senders:
            with contextlib.suppress(BaseException):
                sender.stop()
        self.watch.stop()

    @property
    def remote(self) -> str:
        """The remote topic."""
        return self.pair.remote(self.topic)

    def grow(self, partitions: int) -> None:
        """More partitions have come, and get load too."""
        for number in range(len(self.senders), partitions):
            self.passed_over[number] = set()
            self.senders.append(Sender(self.pair.source, self.topic, number, 100.0))
            self.senders[-1].start()
        self.watch.grow(partitions)

    def remember(self) -> oracle.Records:
        """Keep what the source has now, before some of it is deleted."""
        found = oracle.read(self.pair.source, self.topic)
        for number, records in found.items():
            self._remembered.setdefault(number, {}).update((record.offset, Record(*record)) for record in records)
        return found

    def await_first(self) -> None:
        """Wait until every partition has got a record."""
        until("first records", lambda: all(self.watch.last_arrivals()), 120)

    def await_progress(self, timeout: float = 90.0) -> None:
        """Wait until every partition has got another record since now; notes how long that took."""
        begun = time.monotonic()
        with contextlib.suppress(TooLate):
            until("progress", lambda: all(at > begun for at in self.watch.last_arrivals()), timeout)
        self.stalls.append(time.monotonic() - begun)

    def finish(self) -> list[History]:
        """Stop the load, wait until all is copied, and read everything once more."""
        for sender in self.senders:
            sender.stop()
        source = self.remember()
        with contextlib.suppress(TooLate):
            until("all copied", lambda: self._is_copied(source), SETTLE_TIMEOUT)
        with contextlib.suppress(TooLate):
            until("no open transaction", lambda: not oracle.hanging(self.pair.target, self.remote), 30)
        self.watch.stop()
        target = oracle.read(self.pair.target, self.remote)
        source_ends = oracle.ends(self.pair.source, self.topic, IsolationLevel.READ_COMMITTED)
        stable = oracle.ends(self.pair.target, self.remote, IsolationLevel.READ_COMMITTED)
        high = oracle.ends(self.pair.target, self.remote, IsolationLevel.READ_UNCOMMITTED)
        return [
            History(
                sent=self.senders[number].sent,
                source=[record for _, record in sorted(self._remembered[number].items())],
                target=[Record(*record) for record in target[number]],
                concurrent=list(self.watch.seen[number]),
                samples=list(self.watch.samples[number]),
                position=self._position(number),
                source_end=source_ends[number],
                stable=stable[number],
                high=high[number],
                stalls=self.stalls,
                passed_over=frozenset(self.passed_over[number]),
            )
            for number in range(len(self.senders))
        ]

    def _is_copied(self, source: oracle.Records) -> bool:
        return all(
            not records or (self._position(number) or 0) > records[-1].offset for number, records in source.items()
        )

    def _position(self, number: int) -> int | None:
        return oracle.committed_position(self.pair.target, self.pair.group, self.remote, number)
