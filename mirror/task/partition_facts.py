"""The state of one partition that its steps share, and how events, commits and errors change it."""

from __future__ import annotations

import uuid

from mirror.backoff import Backoff
from mirror.control.decisions import Incident, doubt
from mirror.control.partition_state import TRANSITIONS, State
from mirror.control.reports import NOWHERE, Counters
from mirror.errors import MirrorError
from mirror.model import Partition, Position, Topic
from mirror.source.buffer import RecordBuffer
from mirror.source.fetch_events import EndReached, ReadingBegan, ReadingLost, RecordsArrived, SourceRefused
from mirror.target.record_transactions import TransactionSession
from mirror.task.error_recovery import Recovery
from mirror.task.events import IDLE_AFTER, EndAt, Event, LetGo, ThrottleChanged
from mirror.task.known_positions import KnownPositions, StartPoint
from mirror.task.next_action import Action, DecisionView
from mirror.task.partition_snapshot import PartitionSnapshot
from mirror.task.rate_limits import Turns
from mirror.task.stop_log import SkipLog, StopLog
from mirror.task.task_services import TaskServices
from mirror.task.transaction_threads import StepLock

OF_DELETED_TOPIC = ReadingLost("the position belongs to a topic that was deleted")


class PartitionFacts:
    """The mutable state of one partition.

    Only the holder of its step lock reads or changes it; other threads read the snapshot.

    There are exceptions. `buffer` and `step_lock` have locks of their own. And without the step lock, others may read
    whether there is a `session`, and `last_used`: RecordCopier.has_producer and RecordCopier.last_used.
    """

    def __init__(self, services: TaskServices, partition: Partition, topic: Topic, start: StartPoint) -> None:
        flow = services.flow
        self.partition = partition
        self.topic = topic
        self.incarnation = uuid.uuid4().hex[:16]  # of this copier: counters start at zero with each new one
        self.buffer = RecordBuffer(start.offset, services.record_filter(partition, topic))
        self.step_lock = StepLock(services.clock)
        early = flow.start == "earliest"
        self.known = KnownPositions(start, topic, early, services.plan.renew_interval, services.clock)
        self.counters = Counters()
        self.turns = Turns(services.clock)
        self.foreign = NOWHERE  # the last offsets at which somebody else has written to the remote partition
        # The remote offset after the last session's records and marker; None unless its producer was closed while idle.
        self.remote_end: int | None = None
        self.session: TransactionSession | None = None  # with the producer, if one is open
        self.last_used = services.clock.monotonic()  # when the producer was last used
        self.state = State.STARTING
        self.reason = ""
        self.incident: Incident | None = None  # what a person has to decide about with `mirror resume`
        self.unfollowed = ""  # the request of the decision about it that can't be followed, if one was made
        self.requested_state: State | None = None  # RELEASED or PAUSED: entered after the running transaction
        self.source_refusal: SourceRefused | None = None  # why the source gives no records
        # Why the consumer can't go on after the buffered records; None: it can.
        self.reading_lost: ReadingLost | None = None if self.is_of_present_topic(start.hint) else OF_DELETED_TOPIC
        self._hint_doubted = False
        self._services = services
        self._clock = services.clock
        self._plan = services.plan
        self._backoff = Backoff()
        self._stops = StopLog(self.where)
        self.skips = SkipLog(self.where)

    def is_of_present_topic(self, position: Position | None) -> bool:
        """True if the position belongs to the current source topic, or if there is no position."""
        return position is None or position.belongs_to(self.topic.topic_id)

    def note(self, event: Event) -> None:
        """Learn of an event."""
        match event:
            case ReadingBegan():
                self._hint_doubted = self._doubts_hint()
            case RecordsArrived() | EndReached():
                self.source_refusal = None
            case SourceRefused():
                self.source_refusal = event
            case ReadingLost():
                self.reading_lost = event
            case LetGo(next_state):
                self.let_go(next_state)
            case EndAt(offset):
                self.buffer.end_at(offset)
            case ThrottleChanged():
                self._forget_turns()
            case _:  # DecisionMade, RenewalDue: the step itself finds out what to do
                pass

    def _forget_turns(self) -> None:
        if self.turns.waiting:
            self.step_lock.not_before = self._clock.monotonic()
        self.counters.throttled += self.turns.waited()
        self.turns.forget()

    def _doubts_hint(self) -> bool:
        """True if it is already clear, before loading, that the position can't be believed as it is."""
        # `TakeOver.load` checks later whether the remote partition has records.
        incident = doubt(self.known.start.hint, self.known.newest, self.topic, has_records=lambda: False)
        is_unconfirmed = self.remote in self._services.unconfirmed
        return self.topic.remote_lost or incident is not None or is_unconfirmed

    def let_go(self, next_state: State) -> None:
        """Let the partition go with the next step, and take no more records. It may have been let go already."""
        if self.state is State.RELEASED:  # perhaps because of EndAt, which the buffer has to know
            return
        self.requested_state = next_state
        self.buffer.invalidate()

    @property
    def _goes_to(self) -> State | None:
        """The state to enter next; None: no change.

        It is the requested one, or RELEASED once everything before the offset of EndAt is copied. The position is
        committed there first. Compaction may have removed the last records before that offset: then the batch path
        would begin within that batch, and give the partition back for ever. The start is committed, too: the batch path
        would ask for it again, and begin after records that have come meanwhile.
        """
        is_settled = not self.known.must_commit_start and self._settled_from >= self.settled_to
        if self.requested_state is None and self.buffer.ended and is_settled:
            return State.RELEASED
        return self.requested_state

    def view(self, may_transact: bool) -> DecisionView:
        """A frozen copy of all that decides about the next action."""
        return DecisionView(
            state=self.state,
            requested_state=self._goes_to,
            may_transact=may_transact,
            has_producer=self.session is not None,
            position_is_old=self.known.is_old,
            must_commit_start=self.known.must_commit_start,
            hint_doubted=self._hint_doubted,
            reading_lost=self.reading_lost is not None,
            source_refuses=self.source_refusal is not None,
            records=len(self.buffer),
            sealed=self.buffer.sealed,
            owes=self.owes,
            throttled=self.turns.waiting,
        )

    @property
    def owes(self) -> bool:
        """True if an idle partition has to commit something: a sync of the last record, or a position past markers."""
        tail = self.session is not None and self.session.unsynced_tail
        # Without a position only if all records so far were left out, so that they are not read again, or if it ends.
        counts = self.known.offset >= 0 or self.buffer.left_out or self.buffer.ended
        return tail or (bool(counts) and self._settled_from < self.settled_to)

    @property
    def _settled_from(self) -> int:
        """The position; the offset where copying starts if there is no position yet."""
        return self.known.offset if self.known.offset >= 0 else self.known.start.offset

    @property
    def settled_to(self) -> int:
        """The offset that an idle partition commits.

        It is the offset up to which everything was read, if only markers, aborted records and records that were left
        out lie between the position and there. Otherwise it is the position. If the position stayed before markers,
        their deletion would look like a loss.
        """
        return max(self.known.offset, self.buffer.drained_to or 0)

    def snapshot(self) -> PartitionSnapshot:
        """What other threads may read."""
        self.counters.left_out = self.buffer.left_out
        return PartitionSnapshot(
            state=self.state,
            reason=self.reason,
            incident=self.incident,
            unfollowed=self.unfollowed if self.incident is not None else "",
            position=self.known.to_report,
            last_commit=self.known.last_commit,
            renew_at=self.known.renew_at,
            counters=self.counters.copy(),
            foreign=self.foreign,
            has_producer=self.session is not None,
            last_used=self.last_used,
            throttled_until=self.turns.until,
            throttle=self.turns.reason,
        )

    def discard(self) -> None:
        """Close the producer, if there is one. Wait for nothing, and do not use it again."""
        session, self.session = self.session, None
        if session is not None:
            session.discard()

    def close_idle_producer(self) -> None:
        """Close the producer between two transactions.

        Remember where our records end, so that later records of others are noticed.
        """
        self.remote_end = None if self.session is None else self.session.end
        self.discard()
        if self.state is State.RUNNING:
            self.become(State.STARTING)

    def close_and_enter_requested_state(self) -> None:
        """Close the producer, and enter the state that was asked for, if any."""
        self.discard()
        if self._goes_to is not None:
            self.become(self._goes_to)

    def succeeded(self, action: Action) -> None:
        """An action was taken without an error.

        It proves nothing if COPY only waited for the throttle: then the cause of the last error may still be there.
        """
        waits = action is Action.COPY and self.turns.waiting
        if action.means_running and not (waits and self.state.stopped_by_error):
            self.become(State.RUNNING)

    def become(self, state: State, reason: str = "") -> None:
        """Change the state, which says what an operator may expect."""
        if state is not self.state and state not in TRANSITIONS[self.state]:
            raise AssertionError(f"{self.partition} can't go from {self.state.value} to {state.value}")
        # Pausing a blocked partition decides nothing, nor does committing its position again meanwhile.
        if state is not State.BLOCKED and not (state is State.PAUSED and self.state in (State.BLOCKED, State.PAUSED)):
            self.incident = None
        self.state, self.reason = state, reason or (self.reason if self.incident else "")
        if state is State.RELEASED:
            self._stops.over()
        if state is State.RUNNING:
            self._hint_doubted = False

    def commit_position_only(self, position: Position, session: TransactionSession) -> None:
        """Commit a position without records."""
        session.settle(position)
        self.committed(position, session)

    def settle(self, session: TransactionSession) -> None:
        """Commit what an idle partition owes the target: its start, its last sync, or a position after markers."""
        known, offset = self.known, self.settled_to
        idle = self._clock.monotonic() - session.ended >= IDLE_AFTER
        if known.must_commit_start or (idle and self.owes):
            epoch, since = known.position.epoch, known.position.newest_epoch
            if offset != known.offset:
                # After markers the epoch is not known: they may have a newer one than the last record.
                epoch, since = -1, max(since, self.buffer.left_out_epoch)
            self.commit_position_only(known.next(offset, epoch, since), session)

    def renew_position(self, session: TransactionSession) -> None:
        """Commit the position as it is, for brokers forget it after a time, or the start if nothing is committed."""
        if self.known.must_commit_start:
            self.settle(session)
            return
        session.commit_position(self.known.position)
        self.known.renewed(self._plan.renew_interval)
        self.step_lock.progressed()

    def committed(self, position: Position, session: TransactionSession, records: int = 0) -> None:
        """A transaction was committed: the next one waits as long as this one took (at most transaction_linger_max)."""
        self.known.committed(position, self._plan.renew_interval)
        self.counters.committed(records, session.duration)
        self.step_lock.not_before = session.ended + min(self._services.flow.transaction_linger_max, session.duration)
        self._backoff.reset()
        self._stops.over()

    def back_off(self, seconds: float | None = None) -> None:
        """Make no step until the back-off, or `seconds`, have passed, unless an event asks for one."""
        self.step_lock.not_before = self._clock.monotonic() + (self._backoff.next() if seconds is None else seconds)

    def note_stopped_by(self, error: MirrorError, follows: Recovery) -> None:
        """Keep in mind that an error has stopped the partition. It tries again after the back-off.

        A paused partition stays paused: only its renewal is tried again after the back-off.
        """
        if follows.becomes is State.PAUSED:
            self.known.renew_again(self.step_lock.not_before)
        else:
            if follows.drops_buffer:
                self.buffer.invalidate()
            if follows.retry_after is not None:
                self.back_off(follows.retry_after)
            self.counters.retries += 1
            self.become(follows.becomes, str(error))
        if not follows.keeps_incident:
            self.incident = None
        self._stops.stopped(error, self.state)

    def incident_of(self, kind: str) -> Incident:
        """The incident of this kind at the position: a loss on the source, or a refused record."""
        at = self.known.position
        return Incident(kind, self.topic.topic_id, at.remote_id, at.offset, at.resets)

    @property
    def remote(self) -> tuple[str, int]:
        """The remote partition."""
        return self.topic.remote, self.partition.partition

    @property
    def where(self) -> dict[str, object]:
        """The fields of a log line."""
        return {"flow": self._services.flow.name, "topic": self.partition.topic, "partition": self.partition.partition}
