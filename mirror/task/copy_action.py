"""The action COPY: one transaction with records, and what follows if a record can't be copied."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException

from mirror.control.decisions import Incident, decided
from mirror.errors import PartitionError, RecordsRefused, TransformUnusable
from mirror.kafka.consumed_batch import ConsumedBatch, leader_epoch
from mirror.model import Position
from mirror.target.record_transactions import TransactionSession
from mirror.target.remote_records import count_between
from mirror.target.written import AppendedOffsets, Written
from mirror.task.batch_size import BatchSize
from mirror.task.foreign_writes import ForeignWrites
from mirror.task.partition_facts import PartitionFacts
from mirror.task.poison_records import PoisonRecords
from mirror.task.rate_limits import Bucket
from mirror.task.task_services import TaskServices
from mirror.task.transforming import Transforming
from mirror.text import BUG
from mirror.topic_transform import transform_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Try:
    """A batch that is about to be copied, and what happens if one of its records can't be copied."""

    batch: ConsumedBatch  # as it was consumed
    to_send: ConsumedBatch | None  # what the transform returned for it; None: it dropped every record
    position_after: Position
    incident: Incident  # what a person has to decide about, if the record can't be copied
    policy: str  # `on_poison_record`, or "skip" if a person has decided so
    passes_over: bool  # True if the batch is just the record that can't be copied, and has to be passed over

    @property
    def sent(self) -> int:
        """How many records go to the target."""
        return 0 if self.to_send is None or self.passes_over else len(self.to_send.messages)

    @property
    def weight(self) -> int:
        """The bytes in memory of what goes to the target."""
        return 0 if self.to_send is None or self.passes_over else self.to_send.weight


class CopyAction:
    """Copies the buffered records of one partition, one batch in each transaction."""

    def __init__(self, facts: PartitionFacts, services: TaskServices) -> None:
        flow = services.flow
        self._facts = facts
        self._services = services
        self._clock = services.clock
        self._batch_size = BatchSize(flow.batch_max_records, flow.transaction_timeout)
        where = {**facts.where, "remote_topic": facts.topic.remote}
        self._foreign = ForeignWrites(facts, where, services.clock, services.looks)
        self._poison = PoisonRecords(flow.batch_max_records, services.clock)
        path = transform_of(flow, facts.partition.topic)
        self._transforming = Transforming(path, facts.partition, services.clock) if path else None

    @property
    def is_slow(self) -> bool:
        """True if the last batch took long to transform. Any thread may ask."""
        return self._transforming is not None and self._transforming.is_slow

    def hang_reason(self, since_progress: float) -> str:
        """A text that names the record for which the transform hangs; "" if it is not known to hang.

        The step has made no progress for `since_progress` seconds. Any thread may ask.
        """
        return "" if self._transforming is None else self._transforming.hangs(since_progress)

    def ask_for_turn(self) -> None:
        """Reserve a turn for the waiting records. If the turn is not due yet, the next step waits until it is.

        Call this before a producer is opened. Otherwise a partition whose turn is far off would open a producer,
        and it would be closed as idle before the turn.
        """
        facts = self._facts
        buckets = self._services.limits.of(facts.partition.topic)
        if not buckets or not len(facts.buffer):
            return
        if not facts.turns.ask(buckets, min(self._services.flow.batch_max_bytes, facts.buffer.weight)):
            facts.step_lock.not_before = max(facts.step_lock.not_before, facts.turns.until)

    def copy(self, session: TransactionSession) -> None:
        """Copy the next batch, unless the throttle says not yet.

        If the target refuses the batch, the session is discarded, and a later call tries half of it. Raises
        PartitionError, also if the refused record is alone and may not be passed over.
        """
        self._commit_delivered(session)
        max_records = min(self._batch_size.limit, self._poison.limit)
        max_bytes = self._services.flow.batch_max_bytes
        buckets = self._services.limits.of(self._facts.partition.topic)
        if buckets:
            max_bytes = self._throttled(buckets, max_bytes)
        batch = self._facts.buffer.batch(max_records, max_bytes) if max_bytes else None
        if batch is None:
            return
        trying = self._prepared(batch)
        if self._transforming is not None and not trying.passes_over:
            trying = self._transformed(trying, self._transforming, max_bytes)
        begun, refused = self._clock.monotonic(), None
        try:
            written = self._send(trying, session)
        except RecordsRefused as error:
            refused = str(error)
        except PartitionError:
            self._facts.turns.copied(trying.weight)  # or all that waits in a blocked partition would count each time
            self._note_delivered(trying, session)
            known, asked = self._facts.known, session.commit_asked
            self._services.unconfirmed.note(self._facts.remote, known.position, asked, is_first=known.newest is None)
            self._batch_size.failed(len(trying.batch.messages), self._clock.monotonic() - begun)
            raise
        if refused is None:
            self._committed(trying, written, session)
        else:
            self._refused(trying, refused, session)

    def _commit_delivered(self, session: TransactionSession) -> None:
        """Without transactions, commit the position of records that are on the target already. Raises PartitionError.

        No record may follow before that. If the target took records but no position, a crash would double them all.
        """
        facts, delivered = self._facts, self._facts.known.uncommitted
        if delivered is not None:
            facts.commit_position_only(delivered, session)
            facts.step_lock.progressed()

    def _throttled(self, buckets: tuple[Bucket, ...], max_bytes: int) -> int:
        """How many of `max_bytes` bytes may be copied now."""
        facts = self._facts
        allowed = facts.turns.take(buckets, min(max_bytes, facts.buffer.weight))
        if allowed:
            facts.counters.throttled += facts.turns.waited()
        return min(max_bytes, allowed)

    def _prepared(self, batch: ConsumedBatch) -> _Try:
        policy: str = self._services.flow.on_poison_record
        incident = self._facts.incident_of("refused")
        if policy == "fail" and decided(incident, self._services.plan.decision(self._facts.partition)):
            policy = "skip"
        passes_over = self._poison.culprit == batch.offsets[0] and policy != "fail"
        return _Try(batch, batch, self._after(batch), incident, policy, passes_over)

    def _after(self, batch: ConsumedBatch) -> Position:
        return self._facts.known.next(batch.next_offset, batch.epoch)

    def _transformed(self, trying: _Try, transforming: Transforming, max_bytes: int) -> _Try:
        """Transform as many of the first records of the batch as possible.

        If the transform fails for the first record, return that record alone if the policy passes it over; otherwise
        raise PoisonRecord. The clock that finds hung steps restarts before the transform, and again after it. Raises
        TransformUnusable.
        """
        facts = self._facts
        try:
            done = transforming.apply(trying.batch, max_bytes, facts.step_lock.progressed)
        except TransformUnusable:
            facts.turns.copied(0)
            raise
        if done.failure:
            self._poison.not_transformed(done.consumed, done.failure)
            trying = self._prepared(done.consumed)
            if not trying.passes_over:
                facts.turns.copied(0)
                facts.incident = trying.incident
                raise self._poison.error(done.consumed, self._services.flow)
            return trying
        return replace(trying, batch=done.consumed, to_send=done.copied, position_after=self._after(done.consumed))

    def _send(self, trying: _Try, session: TransactionSession) -> Written:
        """Commit the batch, or only the position after it if nothing of it goes to the target."""
        if trying.passes_over:
            poison = self._poison
            self._facts.skips.log("record can't be copied, copying goes on after it", poison.refusal(trying.batch))
            letter = trying.policy == "dead_letter"
            # If the target has refused the dead letter, too, the next one lacks the record's content.
            session.pass_over(
                trying.batch, trying.position_after, poison.reason, letter, whole=not poison.refused_again
            )
        elif trying.to_send is not None:
            return session.copy(trying.to_send, trying.position_after)
        else:
            session.commit_position(trying.position_after)
        return Written(0, trying.position_after)

    def _refused(self, trying: _Try, reason: str, session: TransactionSession) -> None:
        """Discard the producer, and narrow the next batch.

        Once the record is alone, raise PoisonRecord if the policy is `fail`, or if the target has refused twice to let
        it be passed over. A person can decide with `mirror resume` only under `on_poison_record: fail`. So only then an
        incident is set.
        """
        facts, poison, batch = self._facts, self._poison, trying.batch
        facts.turns.copied(trying.weight)
        self._note_delivered(trying, session)
        facts.discard()  # the producer's next sequence numbers are not those that the broker expects
        facts.counters.transactions["aborted"] += 1
        poison.refused(batch, reason, trying.passes_over)
        if len(batch.messages) == 1 and (trying.policy == "fail" or poison.refused_again > 1):
            flow = self._services.flow
            if flow.on_poison_record == "fail":
                facts.incident = trying.incident
            raise poison.error(batch, flow)

    def _committed(self, trying: _Try, written: Written, session: TransactionSession) -> None:
        facts, batch, sent = self._facts, trying.batch, trying.to_send
        facts.buffer.committed(batch)
        facts.turns.copied(written.size)
        self._batch_size.committed(len(batch.messages), session.duration)
        facts.committed(written.position, session, trying.sent)
        if trying.passes_over:
            facts.counters.lost["refused" if trying.policy == "skip" else "dead_letter"] += 1
        else:
            facts.counters.dropped += len(batch.messages) - trying.sent
            if sent is not None:
                now = int(facts.known.last_commit * 1000)
                facts.counters.copied(sent.timestamps, written.size, now, session.duration)
            if not self._services.flow.active_active:
                self._notice_others(written.appended)
        self._poison.committed()

    def _notice_others(self, appended: AppendedOffsets | None) -> None:
        """Notice what somebody else has written. It raises nothing: that must not stop the copying."""
        gap, facts, found = self._foreign.noted(appended), self._facts, None
        if gap is None:
            return
        facts.step_lock.progressed()
        try:
            found = count_between(self._services.flow, facts.remote, gap.begin, gap.end, gap.ours + 1)
        except KafkaException as error:
            log.debug("remote partition can't be read", extra={**facts.where, "reason": str(error)})
        except Exception:
            log.exception(BUG, extra=facts.where)
        finally:
            self._foreign.judge(found)
            facts.step_lock.progressed()

    def _note_delivered(self, trying: _Try, session: TransactionSession) -> None:
        """Without transactions, the first records of a failed batch may be on the target: continue after them."""
        batch = trying.to_send
        count = 0 if batch is None else session.delivered(batch)
        if batch is not None and count:
            epoch = leader_epoch(batch.messages[count - 1])
            self._facts.known.delivered = self._facts.known.next(batch.offsets[count - 1] + 1, epoch)
