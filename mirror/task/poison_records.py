"""Finding the record for whose sake the target refuses a batch, and saying what a person can do about it."""

from __future__ import annotations

from mirror.clock import Clock
from mirror.errors import PoisonRecord
from mirror.kafka.consumed_batch import ConsumedBatch
from mirror.settings import Flow

NARROW_FOR = 60.0  # seconds that batches stay smaller if no single record was the culprit


class PoisonRecords:
    """Halves refused batches until the culprit is alone; what is before it gets copied on the way.

    Which record it was, brokers say only of some errors: they refuse whole batches. `most` is an ordinary batch.
    """

    def __init__(self, most: int, clock: Clock) -> None:
        self.culprit = -1  # upstream offset
        self.reason = ""
        self.refused_again = 0  # attempts to put the culprit aside that were refused too
        self._most = most
        self._clock = clock
        self._narrowed = most
        self._until = 0.0  # monotonic

    @property
    def limit(self) -> int:
        """How many records the next batch may have."""
        if self.culprit >= 0:
            return 1
        return self._narrowed if self._clock.monotonic() < self._until else self._most

    def refused(self, batch: ConsumedBatch, reason: str, passed_over: bool) -> None:
        """The target does not take this batch. With `passed_over` it was the culprit, to be put aside."""
        if len(batch.messages) > 1:
            self._narrowed, self._until = len(batch.messages) // 2, self._clock.monotonic() + NARROW_FOR
        elif self.culprit == batch.offsets[0]:
            # The culprit itself is tried again and again while the policy is to wait for a person.
            self.refused_again += passed_over
        else:
            self.culprit, self.reason, self.refused_again = batch.offsets[0], reason, 0

    def taken(self) -> None:
        """A batch was taken. If it was the culprit, or what stands for it, ordinary batches come next."""
        if self.culprit >= 0:
            self.culprit, self._until = -1, 0.0

    def refusal(self, batch: ConsumedBatch) -> str:
        """For people: which record the target refuses, and why."""
        size = len(batch.messages[0])
        return f"the target refuses the record at offset {batch.offsets[0]} ({size} bytes): {self.reason}"

    def error(self, batch: ConsumedBatch, flow: Flow) -> PoisonRecord:
        """The error that blocks the partition until somebody acts."""
        if flow.on_poison_record == "fail":
            remedy = "have the target accept it, or pass it over with mirror resume --skip-lost"
        else:
            remedy = f"have the target accept it, or its dead letter on {flow.dead_letter_topic}"
        return PoisonRecord(f"{self.refusal(batch)}; {remedy}")
