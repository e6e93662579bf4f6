"""Sends numbered records to one partition of the source, and notes what became of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.checker.history import Fate, Headers, Sent
from tests.harness.load import Factory, Made, producer, send, transactional
from tests.harness.waiting import PATIENCE

TRANSACTION = 20  # records
ABORT_EVERY = 5  # transactions


class Sender:
    """Writes to one partition: plain records to an even one, transactions, of which some are aborted, to an odd one."""

    def __init__(
        self, bootstrap: str, topic: str, partition: int, rate: float, make: Factory, before: Sender | None = None
    ) -> None:
        self.partition = partition
        self.sent: list[Sent] = before.sent if before else []
        self.skew = 0  # ms that are added to the records' timestamps
        self._bootstrap, self._topic, self._rate, self._make = bootstrap, topic, rate, make
        self._number: int = before._number if before else 0
        self._hurry = 0  # records that go as fast as they can
        self._begun = 0.0  # monotonic
        self._failure: BaseException | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"send {topic}-{partition}")

    def start(self, hurry: int = 0) -> None:
        """Begin; the first `hurry` records go as fast as they can."""
        self._hurry = self._number + hurry
        self._begun = time.monotonic() - self._number / self._rate
        self._thread.start()

    def stop(self) -> None:
        """End in order; raises what it failed with."""
        self._stopping.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), f"{self._thread.name} does not stop"
        if self._failure is not None:
            raise self._failure

    def successor(self) -> Sender:
        """Another one that goes on with the next number, on another topic of the same name."""
        return Sender(self._bootstrap, self._topic, self.partition, self._rate, self._make, self)

    def _run(self) -> None:
        try:
            (self._transactions if self.partition % 2 else self._plain)()
        except BaseException as failure:
            self._failure = failure

    def _steps(self, records: int) -> Iterator[None]:
        while not self._stopping.is_set():
            yield
            ahead = self._begun + (self._number + records) / self._rate - time.monotonic()
            if ahead < -1.0 or self._number < self._hurry:
                self._begun -= ahead  # what was missed while the source was away is not made up for
                ahead = 0.0
            self._stopping.wait(max(0.0, ahead))

    def _plain(self) -> None:
        to = producer(self._bootstrap)
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
        # A commit is answered before its markers are written. Who begins anew with the same id waits for them.
        self.transactional()

    def transactional(self, suffix: str = "") -> Producer:
        """A producer with this partition's transactional id, or another one."""
        return transactional(self._bootstrap, f"chaos-{self._topic}-{self.partition}{suffix}")

    def _send(self, to: Producer, delivered: Callable[[Made, KafkaError | None], None]) -> Made:
        made = self._make(self._number)
        self._number += 1
        timestamp = int(time.time() * 1000) + self.skew
        send(to, self._topic, self.partition, made, lambda error, _: delivered(made, error), timestamp)
        return made

    def _note(self, made: Made, fate: Fate) -> None:
        headers: Headers = tuple((name, value) for name, value in made.headers)
        self.sent.append(Sent(made.key, made.value, headers, fate))
