"""One partition's step: learn of the events, ask what to do next, do it; after any doubt, fence, load and seek again.

The story of a record: the fetcher puts it into the buffer and posts an event. A transaction thread calls `step`. The
step drains the inbox, and asks next_step.py what to do. As a rule that is COPY: one transaction on the partition's own
producer, with the position. An error goes to error_recovery.py, which says what follows.
"""

from __future__ import annotations

import logging

from mirror.control.partition_state import State
from mirror.errors import MirrorError, OutcomeUnknown, PartitionError
from mirror.model import Partition, Topic
from mirror.source.fetcher import Seek
from mirror.target.record_session import RecordSession
from mirror.task.error_recovery import recovery
from mirror.task.events import SETTLE_DELAY, Event, delay_of
from mirror.task.inbox import Inbox
from mirror.task.loss_policy import LossPolicy
from mirror.task.next_step import Step, next_step, next_wake
from mirror.task.partition_facts import FOREIGN, PartitionFacts
from mirror.task.position_ledger import Start
from mirror.task.record_copying import RecordCopying
from mirror.task.take_over import TakeOver
from mirror.task.task_services import TaskServices

log = logging.getLogger(__name__)


class RecordCopier:
    """Copies one source partition to the same partition of its remote topic, record by record.

    Any thread may call `post` and read `snapshot`; transaction threads call `step`, of which never two run at once.
    """

    def __init__(self, services: TaskServices, partition: Partition, topic: Topic, start: Start) -> None:
        facts = PartitionFacts(services, partition, topic, start)
        self.partition = partition
        self.topic = topic
        self.start = start
        self.identity = facts.identity
        self.buffer = facts.buffer
        self.snapshot = facts.snapshot()
        self._facts = facts
        self._services = services
        self._inbox = Inbox()
        self._taking_over = TakeOver(facts, services)
        self._losses = LossPolicy(facts, services)
        self._copying = RecordCopying(facts, services)

    # What other threads may call.

    def post(self, event: Event) -> None:
        """Tell the next step of an event, and have that step made in time."""
        self._inbox.post(event)
        self._request(self._delay_of(event))

    @property
    def begins_at(self) -> tuple[int, int]:
        """The offset, and the leader epoch before it, at which to begin to consume."""
        return self.start.offset, self.start.epoch

    @property
    def drained_to(self) -> int | None:
        """The offset before which every record has been taken; None while some wait."""
        return self.buffer.drained_to

    @property
    def head_timestamp(self) -> int | None:
        """Of the first record that waits, ms since the Unix epoch; None if none waits or it has no timestamp."""
        return self.buffer.head_timestamp

    @property
    def stopped_by_error(self) -> bool:
        """Has an error ended the last try?"""
        return self.snapshot.state.stopped_by_error

    @property
    def has_producer(self) -> bool:
        """Is a producer open?"""
        return self._facts.session is not None

    @property
    def last_used(self) -> float:
        """When the producer was used last, monotonic."""
        return self._facts.last_used

    @property
    def step_held_for(self) -> float:
        """Seconds that the running step, or its last part, has taken so far; 0 when none runs."""
        return self._facts.step_lock.held_for

    @property
    def stack(self) -> str:
        """Where the running step is; "" when none runs."""
        return self._facts.step_lock.stack

    def close_idle_producer(self) -> bool:
        """Close the producer unless a step runs; the next record opens another. True if one was closed."""
        facts = self._facts
        if not self.has_producer or not facts.step_lock.acquire():
            return False
        closed = self.has_producer  # a step may have discarded it just before
        try:
            if closed:
                facts.discard()
                if facts.state is State.RUNNING:
                    facts.become(State.STARTING)
        finally:
            self._finish()
        return closed

    # The step.

    def step(self) -> None:
        """Do what is due: at most one transaction with records. Errors end here, for the partition fails alone."""
        if not self._facts.step_lock.acquire_if_due():
            return
        try:
            if not self._attempt():
                self._facts.discard()
        except Exception:
            log.exception("defect", extra=self._facts.where)
        finally:
            self._finish()

    def _attempt(self) -> bool:
        """Work, and recover from what that raises. False after a defect of the recovery itself.

        Then what is still wanted is tried again after the back-off.
        """
        try:
            self._work()
            return True
        except MirrorError as raised:
            error = raised
        except Exception as defect:  # a defect of ours; the partition must not vanish without a word
            log.exception("defect", extra=self._facts.where)
            error = OutcomeUnknown(f"{type(defect).__name__}: {defect}")
        try:
            self._recover(error)  # out here, see clients.py
            return True
        except Exception:
            log.exception("defect", extra=self._facts.where)
            return False
        finally:
            del error  # it has this frame, and so a producer that is to end

    def _work(self) -> None:
        taken_over = False
        while True:
            for event in self._inbox.drain():
                self._facts.note(event)
            # A new producer has to do for one transaction: while a broker is down, each one is disturbed at once.
            step = next_step(self._facts.view(taken_over or self._has_good_producer))
            self._perform(step)
            if step.means_running:
                self._facts.become(State.RUNNING)  # only now: a try is no recovery
            if step.is_last:
                return
            taken_over = step is Step.TAKE_OVER
            self._publish()

    def _perform(self, step: Step) -> None:
        match step:
            case Step.WAIT:
                pass
            case Step.LET_GO:
                self._let_go()
            case Step.RENEW_PAUSED:
                self._renew_paused()
            case Step.ASK_SOURCE:
                self._ask_source()
            case Step.TAKE_OVER:
                self._take_over()
            case Step.RENEW:
                self._renew()
            case Step.FACE_LOSS:
                self._face_loss()
            case Step.COPY:
                self._copying.copy(self._session)
            case Step.SETTLE:
                self._settle()

    def _let_go(self) -> None:
        self._facts.discard()
        if self._facts.letting_go is not None:
            self._facts.become(self._facts.letting_go)

    def _renew_paused(self) -> None:
        self._facts.renew_position(self._take_over())
        self._let_go()

    def _ask_source(self) -> None:
        """Force a seek: only a new fetch shows that an idle source is readable again."""
        refused = self._facts.refused
        assert refused is not None
        self._facts.buffer.invalidate()
        self._seek()
        raise PartitionError(f"the source gives no records: {refused.reason}", refused.lasting)

    def _take_over(self) -> RecordSession:
        """Fence, then load, then seek. In this order, or an older owner could still move the position."""
        facts = self._facts
        facts.discard()  # one that was disturbed
        producer = self._taking_over.fence()
        session = self._taking_over.load(producer)
        self._services.producers.opened(self)
        if facts.is_native(facts.ledger.at):
            self._seek()
        else:
            facts.lost = FOREIGN
            facts.buffer.invalidate()
        return session

    def _renew(self) -> None:
        self._facts.renew_position(self._session)
        self._facts.step_lock.progressed()

    def _face_loss(self) -> None:
        self._losses.face(self._session, self._own)
        self._seek()

    def _settle(self) -> None:
        """Commit what an idle partition still owes the target: a pinned start, a sync, a position past markers."""
        facts, ledger, session = self._facts, self._facts.ledger, self._session
        idle = self._services.clock.monotonic() - session.ended >= SETTLE_DELAY / 2
        offset = facts.drained_to
        if ledger.pins_start or (idle and facts.owes):
            # The epoch of markers is not known, and that of the last record may be older.
            epoch = ledger.at.epoch if offset == ledger.offset else -1
            facts.set_position(ledger.next(offset, epoch, ledger.at.newest_epoch), session)

    @property
    def _has_good_producer(self) -> bool:
        session = self._facts.session
        return session is not None and not session.suspect

    @property
    def _session(self) -> RecordSession:
        session = self._facts.session
        assert session is not None
        self._facts.last_used = self._services.clock.monotonic()
        return session

    def _own(self) -> RecordSession:
        """A session whose producer nothing has disturbed, for one transaction."""
        return self._session if self._has_good_producer else self._take_over()

    def _seek(self) -> None:
        """Have the consumer go on at the position, unless what it has buffered begins there."""
        at = self._facts.ledger.resume_from
        number = self.buffer.resume_at(at.offset)
        if number is not None:
            self._services.moves.put(Seek(self, at, number))

    def _recover(self, error: MirrorError) -> None:
        """Do what follows from an error; error_recovery.py decides."""
        facts = self._facts
        follows = recovery(error, facts.state)
        facts.back_off()
        if follows.outcome:
            facts.counters.transactions[follows.outcome] += 1
        facts.counters.fenced += follows.fenced
        if follows.discards_producer:
            facts.discard()
        if follows.fenced and not self._services.plan.is_still_ours(self.partition):
            log.info("another task has the partition now", extra=facts.where)
            facts.let_go(State.RELEASED)
            return
        facts.stop(error, follows)

    def _finish(self) -> None:
        """Publish how the partition stands, and see to its next step."""
        facts, wake = self._facts, None
        try:
            self._publish()
            view = facts.view(self.has_producer)
            wake = next_wake(view, facts.step_lock.paced, self._services.flow.batch_max_records)
        finally:
            facts.step_lock.release()
        if wake is not None:
            self._request(wake)
        for event in self._inbox.waiting():  # while the step ran, nobody was woken for them
            self._request(self._delay_of(event))

    def _publish(self) -> None:
        self.snapshot = self._facts.snapshot()

    def _delay_of(self, event: Event) -> float:
        owes = self.has_producer or 0 <= self.snapshot.position.offset < (self.buffer.drained_to or 0)
        return delay_of(event, self._facts.step_lock.paced, owes)

    def _request(self, delay: float) -> None:
        after = self._facts.step_lock.request(delay)
        if after is not None:
            self._services.scheduler.schedule(self, after)
