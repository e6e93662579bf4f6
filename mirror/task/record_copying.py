"""Copies batches: chooses how many records go into one, and handles a record that the target refuses."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.control.decisions import Incident, decided
from mirror.errors import PartitionError, RecordsRefused
from mirror.kafka.consumed_batch import ConsumedBatch, leader_epoch
from mirror.model import Position
from mirror.target.transaction_session import TransactionSession, Written
from mirror.task.batch_size import BatchSize
from mirror.task.foreign_writes import ForeignWrites
from mirror.task.partition_facts import PartitionFacts
from mirror.task.poison_records import PoisonRecords
from mirror.task.rate_limits import Bucket
from mirror.task.task_services import TaskServices


@dataclass(frozen=True, slots=True)
class _Try:
    """A batch that is about to be copied, and what happens if the target refuses a record of it."""

    batch: ConsumedBatch
    at: Position  # after the batch
    incident: Incident  # what a person has to decide about, if the target refuses the record
    policy: str  # `on_poison_record`, or "skip" if a person has decided so
    passes_over: bool  # True if the batch is just the refused record, and has to be passed over


class RecordCopying:
    """Copies the buffered records of one partition, a batch at a time."""

    def __init__(self, facts: PartitionFacts, services: TaskServices) -> None:
        flow = services.flow
        self._facts = facts
        self._services = services
        self._clock = services.clock
        self._batch_size = BatchSize(flow.batch_max_records, flow.transaction_timeout)
        self._foreign = ForeignWrites(facts, services)
        self._poison = PoisonRecords(flow.batch_max_records, services.clock)

    def ask_for_turn(self) -> None:
        """If records wait and the throttle does not let them through yet, have the next step made when it does.

        Asked before a producer is opened, which might have to be closed again before it is used.
        """
        facts = self._facts
        buckets = self._services.limits.of(facts.partition.topic)
        if not buckets or not len(facts.buffer):
            return
        if not facts.turns.have_come(buckets, min(self._services.flow.batch_max_bytes, facts.buffer.weight)):
            facts.step_lock.not_before = max(facts.step_lock.not_before, facts.turns.until)

    def copy(self, session: TransactionSession) -> None:
        """Copy the next batch, unless the throttle says not yet.

        If the target refuses it, the next call tries half of it. Raises PartitionError.
        """
        limit = min(self._batch_size.limit, self._poison.limit)
        most = self._services.flow.batch_max_bytes
        buckets = self._services.limits.of(self._facts.partition.topic)
        if buckets:
            most = self._throttled(buckets, most)
        batch = self._facts.buffer.batch(limit, most) if most else None
        if batch is None:
            return
        trying = self._planned(batch)
        begun, refused = self._clock.monotonic(), None
        try:
            written = self._send(trying, session)
        except RecordsRefused as error:
            refused = str(error)
        except PartitionError:
            self._note_delivered(batch, session)
            self._batch_size.failed(len(batch.messages), self._clock.monotonic() - begun)
            raise
        if refused is None:
            self._taken(trying, written, session)
        else:
            self._refused(trying, refused, session)

    def _throttled(self, buckets: tuple[Bucket, ...], most: int) -> int:
        """How many of `most` bytes may be copied now."""
        facts = self._facts
        allowed = facts.turns.take(buckets, min(most, facts.buffer.weight))
        if allowed:
            facts.counters.throttled += facts.turns.waited()
        return min(most, allowed)

    def _planned(self, batch: ConsumedBatch) -> _Try:
        policy: str = self._services.flow.on_poison_record
        incident = self._facts.incident_of("refused")
        if policy == "fail" and decided(incident, self._services.plan.decision(self._facts.partition)):
            policy = "skip"
        passes_over = self._poison.culprit == batch.offsets[0] and policy != "fail"
        return _Try(batch, self._facts.ledger.next(batch.next_offset, batch.epoch), incident, policy, passes_over)

    def _send(self, trying: _Try, session: TransactionSession) -> Written:
        """Commit the batch, or the position after the record that has to be passed over."""
        if not trying.passes_over:
            return session.copy(trying.batch, trying.at)
        poison = self._poison
        self._facts.tell("record refused, copying goes on after it", poison.refusal(trying.batch))
        letter = trying.policy == "dead_letter"
        session.pass_over(trying.batch, trying.at, poison.reason, letter, whole=not poison.refused_again)
        return Written(0, trying.at)

    def _refused(self, trying: _Try, reason: str, session: TransactionSession) -> None:
        facts, poison, batch = self._facts, self._poison, trying.batch
        self._note_delivered(batch, session)
        facts.discard()  # its next sequence numbers are not those that the broker expects
        facts.counters.transactions["aborted"] += 1
        poison.refused(batch, reason, trying.passes_over)
        if len(batch.messages) == 1 and (trying.policy == "fail" or poison.refused_again > 1):
            flow = self._services.flow
            if flow.on_poison_record == "fail":
                facts.incident = trying.incident
            raise poison.error(batch, flow)

    def _taken(self, trying: _Try, written: Written, session: TransactionSession) -> None:
        facts, batch = self._facts, trying.batch
        facts.buffer.committed(batch)
        facts.turns.copied(written.size)
        self._batch_size.committed(len(batch.messages), session.duration)
        facts.committed(written.position, session, len(batch.messages))
        if trying.passes_over:
            facts.counters.lost["refused" if trying.policy == "skip" else "dead_letter"] += 1
        else:
            now = int(facts.ledger.last_commit * 1000)
            facts.counters.copied(batch.timestamps, written.size, now, session.duration)
            if written.span is not None and not self._services.flow.active_active:
                self._foreign.committed(written.span, len(batch.messages))
        self._poison.taken()

    def _note_delivered(self, batch: ConsumedBatch, session: TransactionSession) -> None:
        """Without transactions, the first records of a failed batch may be on the target: continue after them."""
        count = session.delivered(batch)
        if count:
            epoch = leader_epoch(batch.messages[count - 1])
            self._facts.ledger.delivered = self._facts.ledger.next(batch.offsets[count - 1] + 1, epoch)
