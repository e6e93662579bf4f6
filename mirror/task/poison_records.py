"""Finds the record that can't be copied, and says what a person can do about it.

Usually the target refuses the record, and with it the whole batch. Or the topic's transform fails for it.
"""

from __future__ import annotations

from mirror.clock import Clock
from mirror.errors import PoisonRecord
from mirror.kafka.consumed_batch import ConsumedBatch
from mirror.settings import Flow

NARROW_FOR = 60.0  # seconds for which batches stay small after a refusal


class PoisonRecords:
    """Halves refused batches until the culprit is alone. The records before it get copied on the way.

    Brokers refuse whole batches, and only for some errors they say which record it was. Each refusal costs a take-over.
    So after a culprit, which is seldom alone, batches begin small, and double with each one that is committed.
    `max_records` is the size of an ordinary batch.
    """

    def __init__(self, max_records: int, clock: Clock) -> None:
        self.culprit = -1  # upstream offset
        self.reason = ""
        self.refused_again = 0  # how often the target refused the attempt to pass the culprit over
        self._transform_failed = False  # the transform fails for the culprit, so the target was not asked
        self._max_records = max_records
        self._clock = clock
        self._narrowed = max_records
        self._grows = False  # batches double: a culprit was the last that was refused
        self._until = 0.0  # monotonic

    @property
    def limit(self) -> int:
        """How many records the next batch may have."""
        if self.culprit >= 0:
            return 1
        return self._narrowed if self._clock.monotonic() < self._until else self._max_records

    def refused(self, batch: ConsumedBatch, reason: str, passed_over: bool) -> None:
        """Note that the target refuses this batch. `passed_over`: it was the attempt to pass the culprit over."""
        if len(batch.messages) > 1:
            self._grows = False
            self._narrow(len(batch.messages) // 2)
        elif self.culprit == batch.offsets[0]:
            # The culprit itself is tried again and again while the policy is to wait for a person.
            self.refused_again += passed_over
        else:
            self.culprit, self.reason, self.refused_again = batch.offsets[0], reason, 0
            self._transform_failed = False

    def not_transformed(self, batch: ConsumedBatch, reason: str) -> None:
        """Note that the transform fails for the only record of this batch."""
        self.culprit, self.reason, self.refused_again = batch.offsets[0], reason, 0
        self._transform_failed = True

    def committed(self) -> None:
        """Note that a batch was committed: perhaps that with the culprit, which was copied or passed over."""
        if self.culprit >= 0:
            self.culprit, self._grows = -1, not self._transform_failed  # the target was not asked: nothing was refused
            self._narrow(1 if self._grows else self._max_records)
        elif self._grows:
            self._narrow(2 * self._narrowed)
            self._grows = self._narrowed < self._max_records

    def _narrow(self, records: int) -> None:
        self._narrowed, self._until = min(records, self._max_records), self._clock.monotonic() + NARROW_FOR

    def refusal(self, batch: ConsumedBatch) -> str:
        """For people: which record can't be copied, and why."""
        size = len(batch.messages[0])
        what = "the transform fails for" if self._transform_failed else "the target refuses"
        return f"{what} the record at offset {batch.offsets[0]} ({size} bytes): {self.reason}"

    def error(self, batch: ConsumedBatch, flow: Flow) -> PoisonRecord:
        """The error that blocks the partition until somebody acts."""
        if self._transform_failed:
            repair = "correct the transform and start the service again"
        else:
            repair = "have the target accept it"
        if flow.on_poison_record == "fail":
            remedy = f"{repair}, or pass it over with mirror resume --skip-lost"
        elif self._transform_failed:
            remedy = f"{repair}, or have the target accept its dead letter on {flow.dead_letter_topic}"
        else:
            remedy = f"{repair}, or its dead letter on {flow.dead_letter_topic}"
        return PoisonRecord(f"{self.refusal(batch)}; {remedy}")
