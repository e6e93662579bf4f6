"""Runs the steps of a partition on the record path; batch_copier.py copies whole batches.

The fetcher puts a record into the buffer and posts an event. Then a transaction thread calls `step`. The step drains
the inbox and asks next_action.py what to do. Usually the answer is COPY: one transaction on the partition's own
producer, with the records and the position. For an error, error_recovery.py says what follows. After any doubt the
producer is discarded, and a later step takes the partition over again: fence, load, seek.
"""

from __future__ import annotations

import logging

from mirror.control.partition_state import State
from mirror.errors import MirrorError, OutcomeUnknown, PartitionError
from mirror.model import Partition, Topic
from mirror.source.fetch_moves import Seek
from mirror.target.record_transactions import TransactionSession
from mirror.task.copy_action import CopyAction
from mirror.task.error_recovery import recovery
from mirror.task.events import Event, delay_of
from mirror.task.inbox import Inbox
from mirror.task.known_positions import StartPoint
from mirror.task.loss_policy import LossPolicy
from mirror.task.next_action import Action, next_action, next_wake
from mirror.task.partition_facts import OF_DELETED_TOPIC, PartitionFacts
from mirror.task.partition_take_over import TakeOver
from mirror.task.task_services import TaskServices
from mirror.text import BUG

log = logging.getLogger(__name__)


class RecordCopier:
    """Copies one source partition to the remote partition with the same number, on the record path.

    Any thread may call `post` and `close_idle_producer`, and read `snapshot` and the other public properties.
    Transaction threads call `step`; two steps never run at once.
    """

    def __init__(self, services: TaskServices, partition: Partition, topic: Topic, start: StartPoint) -> None:
        facts = PartitionFacts(services, partition, topic, start)
        self.partition = partition
        self.topic = topic
        self.start = start
        self.incarnation = facts.incarnation
        self.buffer = facts.buffer
        self.snapshot = facts.snapshot()
        self._facts = facts
        self._services = services
        self._inbox = Inbox()
        self._taking_over = TakeOver(facts, services)
        self._losses = LossPolicy(facts, services)
        self._copy_action = CopyAction(facts, services)

    # What other threads may call.

    def post(self, event: Event) -> None:
        """Put an event into the inbox, and schedule a step that reads it."""
        self._inbox.post(event)
        self._request(self._delay_of(event))

    @property
    def begins_at(self) -> tuple[int, int]:
        """Where the consumer begins: the offset, and the leader epoch of the record before it (-1 if not known)."""
        return self.start.offset, self.start.epoch

    @property
    def drained_to(self) -> int | None:
        """All that was fetched before this offset is committed; None while records wait, or a seek is due."""
        return self.buffer.drained_to

    @property
    def head_timestamp(self) -> int | None:
        """The first waiting record's timestamp, ms since the Unix epoch; None if no record waits, or it has none."""
        return self.buffer.head_timestamp

    @property
    def stopped_by_error(self) -> bool:
        """True if an error ended the last try."""
        return self.snapshot.state.stopped_by_error

    @property
    def may_take_long(self) -> bool:
        """True if the next step may take long, after an error or a slow transform: see TransactionThreads."""
        return self.stopped_by_error or self._copy_action.is_slow

    @property
    def drains_slowly(self) -> bool:
        """True if the buffer is not expected to drain soon: an error, the transform or the throttle holds it up."""
        return self.may_take_long or self.snapshot.is_throttled(self._services.clock.monotonic())

    @property
    def hang_reason(self) -> str:
        """A text that names the record for which the transform hangs; "" while the transform is not known to hang."""
        return self._copy_action.hang_reason(self.since_progress)

    @property
    def has_producer(self) -> bool:
        """True if a producer is open."""
        return self._facts.session is not None

    @property
    def last_used(self) -> float:
        """When the producer was last used, on the monotonic clock."""
        return self._facts.last_used

    @property
    def since_progress(self) -> float:
        """Seconds since the running step began or last made progress; 0 if no step runs."""
        return self._facts.step_lock.held_for

    @property
    def stack(self) -> str:
        """The stack of the running step, the innermost call first; "" if no step runs."""
        return self._facts.step_lock.stack

    def close_idle_producer(self) -> bool:
        """Close the producer if no step runs. True if one was closed. A later step opens another one.

        The caller decides that the producer is idle: it is not checked here.
        """
        facts = self._facts
        if not self.has_producer or not facts.step_lock.acquire():
            return False
        closed = self.has_producer  # a step may have discarded it before we had the lock
        try:
            if closed:
                facts.close_idle_producer()
        finally:
            self._finish()
        return closed

    # The step.

    def step(self) -> None:
        """Do what is due, with at most one transaction of records.

        It raises nothing: an error of one partition must not stop the others.
        """
        if not self._facts.step_lock.acquire_if_due():
            return
        try:
            if not self._attempt():
                self._facts.discard()
        except Exception:
            log.exception(BUG, extra=self._facts.where)
        finally:
            self._finish()

    def _attempt(self) -> bool:
        """Work. After an error, recover. Return False if the recovery failed as well.

        After an error the next step tries again. It is due once the back-off has passed, or at once for some events.
        """
        try:
            self._work()
            return True
        except MirrorError as raised:
            error = raised
        except Exception as defect:  # a bug: log it, and treat it as OutcomeUnknown, which discards the producer
            log.exception(BUG, extra=self._facts.where)
            error = OutcomeUnknown(f"{type(defect).__name__}: {defect}")
        try:
            self._recover(error)  # outside of `except`, or the producer may never be freed: see kafka/clients.py
            return True
        except Exception:
            log.exception(BUG, extra=self._facts.where)
            return False
        finally:
            del error  # its traceback has this frame, which would keep the discarded producer alive

    def _work(self) -> None:
        taken_over = False
        while True:
            for event in self._inbox.drain():
                self._facts.note(event)
            self._copy_action.ask_for_turn()
            # A new producer is used for one transaction even if it was disturbed. While a broker is down every new
            # producer is disturbed at once. If each of them were discarded, nothing would be copied. The
            # new one is safe to use: it has ended no transaction, so no late request to end one can meet the next one.
            action = next_action(self._facts.view(taken_over or self._has_good_producer))
            self._perform(action)
            self._facts.succeeded(action)
            if action.is_last:
                return
            taken_over = action is Action.TAKE_OVER
            self._publish()

    def _perform(self, action: Action) -> None:
        match action:  # nothing to do for WAIT
            case Action.LET_GO:
                self._facts.close_and_enter_requested_state()
            case Action.RENEW_PAUSED:
                self._facts.renew_position(self._take_over())
                self._facts.close_and_enter_requested_state()
            case Action.SEEK_AND_WAIT:
                self._seek_and_wait()
            case Action.TAKE_OVER:
                self._take_over()
            case Action.RENEW:
                self._facts.renew_position(self._use_session())
            case Action.HANDLE_LOSS:
                self._losses.handle(self._use_session(), self._undisturbed_session)
                self._seek()
            case Action.COPY:
                self._copy_action.copy(self._use_session())
            case Action.SETTLE:
                self._facts.settle(self._use_session())

    def _seek_and_wait(self) -> None:
        """Make the consumer seek, then raise the source's error, so that the step runs again after the back-off.

        Only a new fetch shows that the source gives records again.
        """
        refusal = self._facts.source_refusal
        assert refusal is not None
        self._facts.buffer.invalidate()
        self._seek()
        raise PartitionError(f"the source gives no records: {refusal.reason}", refusal.lasting)

    def _take_over(self) -> TransactionSession:
        """Fence, then load, then seek. In another order, an older owner could still move the loaded position."""
        facts = self._facts
        facts.discard()  # the old producer, if a disturbed one is open
        session = self._taking_over.load(*self._taking_over.fence())
        self._services.producers.opened(self)
        if facts.is_of_present_topic(facts.known.position):
            self._seek()
        else:
            facts.reading_lost = OF_DELETED_TOPIC
            facts.buffer.invalidate()
        return session

    @property
    def _has_good_producer(self) -> bool:
        session = self._facts.session
        return session is not None and not session.suspect

    def _use_session(self) -> TransactionSession:
        """The open session. Records that its producer was used now."""
        session = self._facts.session
        assert session is not None
        self._facts.last_used = self._services.clock.monotonic()
        return session

    def _undisturbed_session(self) -> TransactionSession:
        """The session for the next transaction, after another take-over if its producer was disturbed."""
        return self._use_session() if self._has_good_producer else self._take_over()

    def _seek(self) -> None:
        """Make the buffer continue at the position. The consumer seeks only if the position is outside the buffer."""
        at = self._facts.known.resume_from
        seek_id = self.buffer.resume_at(at.offset)
        if seek_id is not None:
            self._services.moves.put(Seek(self, at, seek_id))

    def _recover(self, error: MirrorError) -> None:
        """Do what has to follow an error; error_recovery.py decides what that is."""
        facts = self._facts
        follows = recovery(error, facts.state)
        facts.back_off()
        if follows.outcome:
            facts.counters.transactions[follows.outcome] += 1
        facts.counters.fenced += follows.fenced
        if follows.discards_producer:
            facts.discard()
        if follows.fenced and not self._services.plan.still_ours([self.partition]):
            log.info("the partition is not ours any more", extra=facts.where)
            facts.let_go(State.RELEASED)
            return
        facts.note_stopped_by(error, follows)

    def _finish(self) -> None:
        """Publish a snapshot, release the step lock, and schedule the next step."""
        facts, wake = self._facts, None
        try:
            self._publish()
            view = facts.view(self.has_producer)  # any value would do for `may_transact`: next_wake does not read it
            wake = next_wake(view, facts.step_lock.paced, self._services.flow.batch_max_records)
        finally:
            facts.step_lock.release()
        if wake is not None:
            self._request(wake)
        for event in self._inbox.waiting():  # they came while the step ran, when no step can be requested
            self._request(self._delay_of(event))

    def _publish(self) -> None:
        self.snapshot = self._facts.snapshot()

    def _delay_of(self, event: Event) -> float:
        # A guess at `PartitionFacts.owes`, which may only be read with the step lock.
        owes = self.has_producer or 0 <= self.snapshot.position.offset < (self.buffer.drained_to or 0)
        return delay_of(event, self._facts.step_lock.paced, owes)

    def _request(self, delay: float) -> None:
        after = self._facts.step_lock.request(delay)
        if after is not None:
            self._services.scheduler.schedule(self, after)
