"""One partition's state machine: fence, load, seek; then copy batch after batch; after any doubt, again."""

from __future__ import annotations

import logging
import random
import time
import uuid
from dataclasses import replace
from typing import NoReturn, Protocol

from confluent_kafka import KafkaError
from confluent_kafka.admin import OffsetSpec

from mirror.backoff import Backoff
from mirror.control.decisions import (
    Action,
    Decision,
    Incident,
    chosen,
    decided,
    doubt,
    explain,
    is_accepted,
    remote_topic,
)
from mirror.control.partition_state import TRANSITIONS, State
from mirror.control.reports import Counters
from mirror.errors import (
    DecisionNeeded,
    MirrorError,
    OutcomeUnknown,
    PartitionError,
    PoisonRecord,
    ProducerFenced,
    RecordsRefused,
    SourceDataLost,
    TransactionAborted,
)
from mirror.kafka.clients import is_lasting
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.consumed_batch import ConsumedBatch, leader_epoch
from mirror.kafka.throttling import Throttles
from mirror.kafka.transactional_ids import transactional_id
from mirror.model import Partition, Position, Topic
from mirror.settings import Flow
from mirror.source import corruption
from mirror.source.buffer import RecordBuffer
from mirror.source.loss_detection import Loss, find
from mirror.target.idempotent_producer import IdempotentProducer
from mirror.target.positions import Positions
from mirror.target.record_session import RecordSession, TargetProducer
from mirror.target.remote_records import with_records
from mirror.target.transactional_producer import TransactionalProducer
from mirror.task.assignment import Start
from mirror.task.batch_size import BatchSize
from mirror.task.poison_records import Refusals
from mirror.task.turn import Turn

log = logging.getLogger(__name__)

SETTLE_DELAY = 1.0  # seconds a partition is idle before it commits what it owes
RENEW_WITHIN = 3600.0  # seconds after joining in which a position is committed again
LOST_RETRY = 30.0  # seconds before a partition that is blocked by a loss or a doubt looks again
FOREIGN = "the position belongs to a topic that was deleted"


OUTCOME_OF_ERROR: dict[type[MirrorError], str] = {
    TransactionAborted: "aborted",
    OutcomeUnknown: "unknown",
}


class Owner(Protocol):
    """What a replicator needs of its task."""

    flow: Flow
    positions: Positions
    source: ClusterAdmin
    group_metadata: bytes
    throttles: Throttles

    def wake(self, replicator: Replicator, delay: float) -> None:
        """Have `step` called in `delay` seconds."""

    def seek(self, replicator: Replicator, position: Position, number: int) -> None:
        """Have the consumer start again at `position`, then `buffer.sought` called with `number`."""

    def have_threads(self, slow: int) -> None:
        """See to it that `slow` steps don't keep others from being made."""

    def make_room(self) -> None:
        """Keep to the bound on open producers before another is opened."""

    def decision(self, partition: Partition) -> Decision | None:
        """What somebody has decided about an incident of the partition, the last one; None: nothing."""

    @property
    def renew_interval(self) -> float:
        """Seconds between two commits of a position that stays the same."""

    def still_ours(self, partition: Partition) -> bool:
        """Does the newest plan, read to its end, give the partition to this task?"""


class Replicator:
    """Copies one source partition to the same partition of its remote topic.

    Any thread may call `request`; transaction threads call `step`, of which never two run at once.
    """

    def __init__(self, owner: Owner, partition: Partition, topic: Topic, start: Start) -> None:
        self.partition = partition
        self.topic = topic
        self.identity = uuid.uuid4().hex[:16]
        self.buffer = RecordBuffer(start.offset)
        self.state = State.STARTING
        self.reason = ""
        self.incident: Incident | None = None  # what a person has to decide about with `mirror resume`
        self.last_commit = 0.0  # seconds since the Unix epoch
        self.last_used = time.monotonic()
        self.counters = Counters()
        self._owner = owner
        self._flow = owner.flow
        self.start = start
        self.at = start.hint or Position(-1, "")  # as last loaded or committed
        self._newest = start.newest  # of ours that is known
        # Soon: nobody knows when it was committed last. Not all at once: each takes a producer.
        self.refresh_at = time.monotonic() + random.uniform(0, min(RENEW_WITHIN, owner.renew_interval / 10))
        self._stands = start.known or start.unread  # has a position ever been committed, as far as anybody knows?
        self._delivered: Position | None = None  # before it, without transactions, all is on the target
        self._pin_start = not start.known and (start.unread or owner.flow.start != "earliest")
        self._incarnation: RecordSession | None = None
        self._backoff = Backoff()
        self._batch_size = BatchSize(owner.flow.batch_max_records, owner.flow.transaction_timeout)
        self._refusals = Refusals(owner.flow.batch_max_records)
        self._unreadable: KafkaError | None = None  # why the source gives no records
        self._turn = Turn()
        self._said = ""
        self._told = ("", "")
        foreign = start.hint is not None and not start.hint.belongs_to(topic.topic_id)
        self._lost = FOREIGN if foreign else ""
        self._releasing: State | None = None  # what it becomes after the running transaction

    def request(self, delay: float | None = None) -> None:
        """Have `step` called: in `delay` seconds, or when pacing and back-off allow it."""
        after = self._turn.request(delay)
        if after is not None:
            self._owner.wake(self, after)

    def begin(self) -> None:
        """The partition is consumed from now on."""
        if self._pin_start or self._lost or self._is_doubtful:
            self.request()

    @property
    def begins_at(self) -> tuple[int, int]:
        """The offset, and the leader epoch before it, at which to begin to consume."""
        return self.start.offset, self.start.epoch

    @property
    def _is_doubtful(self) -> bool:
        """Can the position not be believed, as far as can be told before it is loaded?"""
        # Whether there are records is looked for when the position is loaded.
        incident = doubt(self.start.hint, self._newest, self.topic, has_records=lambda: False)
        return self.topic.remote_lost or incident is not None

    def arrived(self) -> None:
        """There are new records in the buffer."""
        self._unreadable = None
        self.request()

    def unreadable(self, error: KafkaError) -> None:
        """The source refuses to give records; it does not any more when some arrive, or its end."""
        self._unreadable = error
        self.request()

    def caught_up(self, offset: int) -> None:
        """The consumer is at the source's end, which is `offset`."""
        self._unreadable = None
        self.buffer.reached(offset)
        if self.has_producer or self._stands_before_nothing:
            self.request(SETTLE_DELAY)

    def lost(self, reason: str) -> None:
        """The consumer can't go on after what is buffered: its offset is not on the source, or the topic is another."""
        self.buffer.seal()
        self._lost = reason
        self.request()

    def release(self, into: State = State.RELEASED) -> None:
        """Let go, after the running transaction if there is one; PAUSED: the partition stays ours."""
        self._releasing = into
        self.buffer.invalidate()
        self.request(0.0)

    @property
    def has_let_go(self) -> bool:
        """Has it become what `release` asked for?"""
        return self.state in (State.RELEASED, self._releasing)

    @property
    def step_lasts(self) -> float:
        """Seconds that the running step, or its last part, has taken so far; 0 when none runs."""
        return self._turn.lasts

    def step(self) -> None:
        """Do what is due: at most one transaction. Errors end here, for the partition fails alone."""
        if not self._turn.take():
            return
        try:
            self._attempt()
        except Exception:  # a defect of the recovery itself; what is still wanted is tried again after the back-off
            log.exception("defect", extra=self._where())
        finally:
            self._turn.end()
        self._request_wanted()

    def _request_wanted(self) -> None:
        wanted = self._wanted()
        if wanted is not None:
            self.request(wanted)

    def _attempt(self) -> None:
        try:
            self._work()
            return
        except MirrorError as raised:
            error = raised
        except Exception as defect:  # a defect of ours; the partition must not vanish without a word
            log.exception("defect", extra=self._where())
            error = OutcomeUnknown(f"{type(defect).__name__}: {defect}")
        try:
            self._recover(error)  # out here, see clients.py
        finally:
            del error  # it has this frame, and so a producer that is to end

    def _wanted(self) -> float | None:
        """Seconds until the next step; None when only something new gives a reason for one."""
        if self.state is State.RELEASED:
            return None
        if self._releasing:
            return None if self.state is self._releasing else 0.0
        wait = max(0.0, self._turn.not_before - time.monotonic())
        if self.state.stopped_by_error or self._pin_start or self._lost or self._unreadable:
            return wait
        if len(self.buffer):
            return 0.0 if len(self.buffer) >= self._flow.batch_max_records else wait
        incarnation = self._incarnation  # `close_idle_producer` may take it away
        tail = incarnation is not None and incarnation.unsynced_tail
        return SETTLE_DELAY if tail or self._stands_before_nothing else None

    def _work(self) -> None:
        if self._releasing:
            if self.state is self._releasing is State.PAUSED and self.position_is_old:
                self._keep_position(self._take_over())
            self._discard()
            self._become(self._releasing)
            return
        if barred := self._barred:
            self._ask_again()
            raise PartitionError(f"the source gives no records: {barred.str()}", is_lasting(barred))
        incarnation = self._own()
        self.last_used = time.monotonic()
        if self.position_is_old:  # before anything can say that copying can't go on
            self._keep_position(incarnation)
            self._turn.goes_on()
            incarnation = self._own()
        if self._lost and not (self.buffer.sealed and len(self.buffer)):
            self._face_loss(incarnation)
            return
        limit = min(self._batch_size.limit, self._refusals.limit)
        batch = self.buffer.batch(limit, self._flow.batch_max_bytes)
        if batch is not None:
            self._copy(incarnation, batch)
        else:
            self._settle(incarnation)
        self._become(State.RUNNING)  # only now: a try is no recovery

    def _own(self) -> RecordSession:
        """One whose producer nothing has disturbed, for one transaction."""
        if self._incarnation is not None and self._incarnation.suspect:
            self._discard()
        return self._incarnation or self._take_over()

    def _copy(self, incarnation: RecordSession, batch: ConsumedBatch) -> None:
        refusals, policy = self._refusals, self._flow.on_poison_record
        incident = self._incident("refused")
        if policy == "fail" and self._decided(incident):
            policy = "skip"
        culprit = refusals.culprit == batch.offsets[0] and policy != "fail"
        size, begun, refused = 0, time.monotonic(), None
        at = self._next(batch.next_offset, batch.epoch)
        try:
            if culprit:
                self._tell("record refused, copying goes on behind it", self._refusal(batch))
                incarnation.pass_over(batch, at, refusals.reason, whole=not refusals.letters)
            else:
                size = incarnation.copy(batch, at)
        except RecordsRefused as error:
            refused = str(error)
        except PartitionError:
            self._note_delivered(batch, incarnation)
            self._batch_size.failed(len(batch.messages), time.monotonic() - begun)
            raise
        if refused is not None:
            self._note_delivered(batch, incarnation)
            self._discard()  # librdkafka would go on with sequence numbers that the broker has not seen
            self.counters.transactions["aborted"] += 1
            refusals.refused(batch, refused)
            if len(batch.messages) == 1 and (policy == "fail" or refusals.letters > 1):
                raise self._poison(batch, incident)
            return
        self.buffer.committed(batch)
        self._batch_size.committed(len(batch.messages), incarnation.duration)
        self._committed(incarnation, at, len(batch.messages))
        if culprit:
            self.counters.lost["refused" if policy == "skip" else "dead_letter"] += 1
        else:
            self.counters.copied(batch.timestamps, size, int(self.last_commit * 1000), incarnation.duration)
        refusals.taken()

    def _next(self, offset: int, epoch: int = -1, since: int = -1) -> Position:
        """A position in the plan's topics, after what was copied."""
        return Position(offset, self.topic.topic_id, epoch, since, self.topic.remote_id, self.at.resets)

    def _note_delivered(self, batch: ConsumedBatch, incarnation: RecordSession) -> None:
        """Without transactions a part of a batch that failed may stand: copying goes on after it."""
        count = incarnation.delivered(batch)
        if count:
            self._delivered = self._next(batch.offsets[count - 1] + 1, leader_epoch(batch.messages[count - 1]))

    def _incident(self, kind: str) -> Incident:
        return Incident(kind, self.topic.topic_id, self.at.remote_id, self.position, self.at.resets)

    def _decided(self, incident: Incident) -> Action | None:
        return decided(incident, self._owner.decision(self.partition))

    def _refusal(self, batch: ConsumedBatch) -> str:
        size = len(batch.messages[0])
        return f"the target refuses the record at offset {batch.offsets[0]} ({size} bytes): {self._refusals.reason}"

    def _poison(self, batch: ConsumedBatch, incident: Incident) -> PoisonRecord:
        if self._flow.on_poison_record == "fail":
            self.incident = incident
            remedy = "have the target accept it, or pass it over with mirror resume --skip-lost"
        else:
            remedy = f"have the target accept it, or its dead letter on {self._flow.dead_letter_topic}"
        return PoisonRecord(f"{self._refusal(batch)}; {remedy}")

    def _settle(self, incarnation: RecordSession) -> None:
        """Commit what an idle partition still owes the target: a pinned start, a sync, a position past markers."""
        idle = time.monotonic() - incarnation.ended >= SETTLE_DELAY / 2
        position = self._drained_to
        owes = incarnation.unsynced_tail or position > self.position
        if self._pin_start or (idle and owes):
            # Behind markers: theirs is not known, and that of the last record may be older.
            epoch = self.at.epoch if position == self.position else -1
            at = self._next(position, epoch, self.at.newest_epoch)
            self._set(at, incarnation)

    def _face_loss(self, incarnation: RecordSession) -> None:
        """Find out what is lost, and go on behind it if the flow's policy is to. Raises SourceDataLost if not."""
        self.buffer.invalidate()  # whatever comes of it, the consumer has to seek
        said, self._lost = self._lost, ""  # what it says from now on is news
        try:
            loss = find(self._owner.source, self.partition, self.topic, self.at, said)
            self._turn.goes_on()
            if not loss and (loss := corruption.find(self._flow, self._owner.source, self.partition, self.at, said)):
                self._turn.goes_on()
                incarnation = self._promise(incarnation)
            if loss and not self._stands:
                self._releasing = State.RELEASED  # and joined anew: nothing was promised before the first commit
                raise PartitionError(f"offset {self.position}, where copying was to start, is not on the source")
            if loss:
                self._pass_over(loss, incarnation)
            else:  # the consumer may say the same again: its metadata come from another broker
                self._turn.not_before = time.monotonic() + self._backoff.next()
        except Exception:
            self._lost = self._lost or said
            raise
        self._become(State.RUNNING)
        self._delivered = None  # it may be what the source no longer has
        self._seek()

    def _promise(self, incarnation: RecordSession) -> RecordSession:
        """Commit the position if none was ever: what follows it is there, and no later `start` may pass it over."""
        if self._stands:
            return incarnation
        self._set(self.at, incarnation)
        return self._own()

    def _pass_over(self, loss: Loss, incarnation: RecordSession) -> None:
        incident = self._incident(loss.reason)
        if self._flow.on_data_loss == "fail" and not self._decided(incident):
            self.incident = incident
            raise SourceDataLost(f"{loss.what}; {loss.remedy}")
        # The id, for the same figures may be lost of another topic of the name, and that is not said again.
        known = {"offset": loss.resume, "topic_id": self.topic.topic_id}
        self._tell("source data is lost, copying goes on behind it", loss.what, **known)
        since = -1 if loss.reason == "recreated" else self.at.newest_epoch
        at = self._next(loss.resume, since=since)
        if loss.reason == "truncated":  # the position goes back
            at = replace(at, resets=at.resets + 1)
        self._set(at, incarnation)
        self._discard()  # with its marks for offset syncs: they go on from another place
        self.counters.lost[loss.reason] += loss.offsets

    def _tell(self, what: str, reason: str, **more: object) -> None:
        """Say once that something is passed over, before it is: a crash behind the commit must not silence it."""
        if self._told != (what, reason):
            self._told = what, reason
            log.warning(what, extra={**self._where(), "reason": reason, **more})

    @property
    def _barred(self) -> KafkaError | None:
        """Why the source gives no records, if there is nothing to do but to ask it again; else None."""
        owes = self._pin_start or self.position_is_old
        return None if self._lost or owes or len(self.buffer) else self._unreadable

    def _ask_again(self) -> None:
        """Have the consumer seek, or nothing would tell that the source gives records again if there is no new one."""
        self.buffer.invalidate()
        self._seek()

    def _seek(self) -> None:
        at = self.at if self.position >= 0 else Position(self.start.offset, "", self.start.epoch)
        if self._delivered and self._delivered.offset > at.offset:
            at = self._delivered
        number = self.buffer.resume_at(at.offset)
        if number is not None:
            self._owner.seek(self, at, number)

    @property
    def position_is_old(self) -> bool:
        """Has the position to be committed again? It may belong to a paused partition, or one that can't be copied."""
        return self._stands and time.monotonic() >= self.refresh_at

    def _keep_position(self, incarnation: RecordSession) -> None:
        """Commit the position as it is. A broker forgets it if it has not been for `offsets.retention.minutes`."""
        incarnation.keep(self.at)
        self.refresh_at = time.monotonic() + self._owner.renew_interval

    def _take_over(self) -> RecordSession:
        """Fence, then load, then seek. In this order, or an older owner could still move the position."""
        if self.topic.remote_lost:
            self._need_decision(remote_topic(self.topic, self.topic.remote_id), None)
        self._owner.make_room()
        producer = self._producer()
        producer.fence()
        if self._flow.exactly_once:
            self._turn.goes_on()
            self._owner.positions.await_settled(self.topic.remote, self.partition.partition)
            self._turn.goes_on()
        found = self._owner.positions.load(self.topic.remote, self.partition.partition)
        self._turn.goes_on()
        self._incarnation = incarnation = RecordSession(self._flow, self.partition, self.topic, producer)
        incident = doubt(found, self._newest, self.topic, self._has_records)
        if incident is not None:
            found = self._follow_decision(incident, found, incarnation)
        self._go_on_from(found, incarnation)
        return incarnation

    def _go_on_from(self, position: Position | None, incarnation: RecordSession) -> None:
        """Seek to a position that can be believed; None: to where a partition begins that was never copied."""
        if position is None:
            self.at = self._next(self.start.offset)
            if not self._flow.exactly_once:  # or a crash would leave records without a position
                self._set(self.at, incarnation)
        else:
            self._stands, self._pin_start = True, False
            self._newest = self.at = self._adopted(position)
        if self.at.belongs_to(self.topic.topic_id):
            self._seek()
        else:
            self.lost(FOREIGN)
            self.buffer.invalidate()

    def _adopted(self, position: Position) -> Position:
        """A position from before remote topics had ids gets the one of today, and is committed with it."""
        if position.remote_id or not self.topic.remote_id:
            return position
        log.info("position adopted: it says now which remote topic it belongs to", extra=self._where())
        self.refresh_at = time.monotonic()
        return replace(position, remote_id=self.topic.remote_id)

    def _has_records(self) -> bool:
        """Does a read_committed consumer see records in the remote partition?"""
        here = (self.topic.remote, self.partition.partition)
        return self._owner.positions.end(*here) > 0 and here in with_records(self._flow, [here])

    def _follow_decision(self, incident: Incident, found: Position | None, incarnation: RecordSession) -> Position:
        """Commit the position that somebody, or a policy, has chosen. Raises DecisionNeeded if nobody has."""
        action = self._decided(incident) or ("continue" if is_accepted(incident, self._flow) else None)
        if action is None:
            self._need_decision(incident, found)
        offset = self._chosen_offset(action)
        at = chosen(action, offset, found, self._newest, self.topic) or self._next(self.start.offset)
        what = explain(incident, found, self.topic, self._flow.group)
        self._tell("position decided, copying goes on from it", what, action=action, offset=at.offset)
        self._set(at, incarnation)
        if incident.kind == "remote_topic":
            self.counters.lost["remote_topic"] += 1
        return at

    def _set(self, position: Position, incarnation: RecordSession) -> None:
        incarnation.settle(position)
        self._committed(incarnation, position)

    def _chosen_offset(self, action: Action) -> int:
        decision = self._owner.decision(self.partition)
        if action == "at" and decision is not None:
            return decision.offset
        if action != "start":
            return -1
        first = self._owner.source.offsets({self.partition: OffsetSpec.earliest()}, stable=False).get(self.partition)
        if first is None:
            raise PartitionError("the source gives no offsets of the partition")
        return first

    def _need_decision(self, incident: Incident, found: Position | None) -> NoReturn:
        self.incident = incident
        self.at = self._newest or self.at
        raise DecisionNeeded(explain(incident, found, self.topic, self._flow.group))

    def _producer(self) -> TargetProducer:
        if not self._flow.exactly_once:
            return IdempotentProducer(self._flow, self._owner.positions, self._owner.throttles.target)
        name = transactional_id(self._flow, self.topic.remote, self.partition.partition)
        return TransactionalProducer(self._flow, name, self._owner.group_metadata, self._owner.throttles.target)

    def _committed(self, incarnation: RecordSession, position: Position, records: int = 0) -> None:
        self.at, self._newest, self._delivered = position, position, None
        self.last_commit = time.time()
        self.refresh_at = time.monotonic() + self._owner.renew_interval
        self._stands, self._pin_start = True, False
        self.counters.committed(records, incarnation.duration)
        self._turn.not_before = incarnation.ended + min(self._flow.transaction_linger_max, incarnation.duration)
        self._backoff.reset()
        self._said = ""

    def _recover(self, error: MirrorError) -> None:
        """Decide what an error means for the partition; see the tree in errors.py."""
        self._turn.not_before = time.monotonic() + self._backoff.next()
        outcome = OUTCOME_OF_ERROR.get(type(error))
        if outcome:
            self.counters.transactions[outcome] += 1
        self.counters.fenced += isinstance(error, ProducerFenced)
        if self.state is State.PAUSED or not isinstance(error, TransactionAborted):
            self._discard()
        if isinstance(error, ProducerFenced) and not self._owner.still_ours(self.partition):
            log.info("another task has the partition now", extra=self._where())
            self.release()
            return
        if self.state is State.PAUSED:
            self.refresh_at = self._turn.not_before
            self._say(error)
            return
        if isinstance(error, SourceDataLost | DecisionNeeded):
            self.buffer.invalidate()
            self._turn.not_before = time.monotonic() + LOST_RETRY
        self.counters.retries += 1
        self._become(State.BLOCKED if error.blocked else State.RETRYING, str(error))
        if not isinstance(error, SourceDataLost | PoisonRecord | DecisionNeeded):
            self.incident = None
        self._say(error)

    def _say(self, error: MirrorError) -> None:
        level = logging.DEBUG if error.away or self._said == str(error) else logging.WARNING
        self._said = str(error)
        what = "partition is blocked until a person acts" if error.blocked else "partition is retrying"
        log.log(level, what, extra={**self._where(), "state": self.state.value, "reason": str(error)})

    def _become(self, state: State, reason: str = "") -> None:
        if state is not self.state and state not in TRANSITIONS[self.state]:
            raise AssertionError(f"{self.partition} can't go from {self.state.value} to {state.value}")
        self.state, self.reason = state, reason
        if state is not State.BLOCKED:
            self.incident = None

    def _discard(self) -> None:
        incarnation, self._incarnation = self._incarnation, None
        if incarnation is not None:
            incarnation.discard()

    @property
    def position(self) -> int:
        """The next upstream offset, as last loaded or committed; -1: none is known."""
        return self.at.offset

    @property
    def position_topic_id(self) -> str:
        """The source topic that the position belongs to; "" while nothing has been committed."""
        return self.at.topic_id if self._newest else ""

    @property
    def _drained_to(self) -> int:
        """The position, or behind it that of the source's end if only markers and aborted records are between."""
        return max(self.position, self.buffer.drained_to or 0)

    @property
    def _stands_before_nothing(self) -> bool:
        """Is the position before markers or aborted records? Once they are deleted that would look like a loss."""
        return 0 <= self.position < self._drained_to

    @property
    def has_producer(self) -> bool:
        """Is a producer open?"""
        return self._incarnation is not None

    def close_idle_producer(self) -> bool:
        """Close the producer unless a step runs; the next record opens another. True if one was closed."""
        if not self.has_producer or not self._turn.take_early():
            return False
        closed = self.has_producer  # a step may have discarded it just before
        if closed:
            self._discard()
            if self.state is State.RUNNING:
                self._become(State.STARTING)
        self._turn.end()
        self._request_wanted()
        return closed

    def _where(self) -> dict[str, object]:
        return {"flow": self._flow.name, "topic": self.partition.topic, "partition": self.partition.partition}
