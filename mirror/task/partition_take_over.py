"""How a task becomes the owner of a partition: fence, then load, then seek."""

from __future__ import annotations

import logging
from typing import NoReturn

from confluent_kafka.admin import OffsetSpec

from mirror.control.decisions import (
    POSITION_KINDS,
    Choice,
    Incident,
    chosen,
    decided,
    doubt,
    explain,
    is_accepted,
    remote_topic,
    unfindable,
)
from mirror.errors import DecisionNeeded, PartitionError, TransactionAborted
from mirror.kafka.transactional_ids import transactional_id
from mirror.model import Position
from mirror.records.undecided import Undecided
from mirror.target.idempotent_producer import IdempotentProducer
from mirror.target.record_transactions import TargetProducer, TransactionSession
from mirror.target.remote_records import is_visible, with_records
from mirror.target.session_marks import is_mapped
from mirror.target.transactional_producer import TransactionalProducer
from mirror.target.unconfirmed import TORN
from mirror.task.end_finder import EndFinder
from mirror.task.known_positions import UPGRADED
from mirror.task.partition_facts import PartitionFacts
from mirror.task.task_services import TaskServices

log = logging.getLogger(__name__)


class TakeOver:
    """Does the first two parts of a take-over of one partition: fence and load. The copier does the third, to seek."""

    def __init__(self, facts: PartitionFacts, services: TaskServices) -> None:
        self._facts = facts
        self._services = services
        self._topic = facts.topic
        self._remote = facts.remote

    def fence(self) -> tuple[TargetProducer, int]:
        """Open a producer, which fences the last owner's. Returns it, and an offset that the partition has reached.

        In between, wait until every transaction that is open on the remote partition now has ended. With
        `exactly_once: false` nobody is fenced, and nothing is awaited.
        """
        if self._topic.remote_lost:
            self._need_decision(remote_topic(self._topic, self._topic.remote_id), None)
        self._services.producers.make_room()
        producer = self._producer()
        producer.fence()
        if not self._services.flow.exactly_once:
            return producer, 0
        self._facts.step_lock.progressed()
        end = self._services.positions.await_no_open_transaction(*self._remote)
        self._facts.step_lock.progressed()
        return producer, end

    def load(self, producer: TargetProducer, least: int) -> TransactionSession:
        """Load the committed position. Raises DecisionNeeded if it can't be believed and nobody has decided.

        `least` is the offset that `fence` has returned.
        """
        facts = self._facts
        before, found = facts.known.position, self._services.positions.load(*self._remote)
        facts.step_lock.progressed()
        # The session is set before the position is judged, so that an error discards it.
        clock, end = self._services.clock, facts.remote_end if found == before else None
        session = TransactionSession(self._services.flow, facts.partition, self._topic, producer, clock, end, least)
        facts.remote_end = None
        facts.session = session
        found = self._belonging(found, session)
        incident = doubt(found, facts.known.newest, self._topic, self._has_records, self._services.flow.group)
        if incident is not None:
            found = self._follow_decision(incident, found, session, least)
        if found is None:  # the partition was never copied
            facts.known.nothing_committed()
            # Without transactions, commit the position before any record: a crash must not leave records without one.
            if not self._services.flow.exactly_once:
                facts.commit_position_only(facts.known.position, session)
        elif facts.known.loaded(found):
            log.info(UPGRADED, extra=facts.where)
        if facts.incident is not None and facts.incident.kind in POSITION_KINDS:
            facts.incident = None  # the position is in its place again, or somebody has decided
        return session

    def _belonging(self, found: Position | None, session: TransactionSession) -> Position | None:
        """The position that was found; or if it does not belong to the records, the one that does, once committed."""
        services = self._services
        last = services.unconfirmed.of(self._topic, self._facts.partition.partition)
        if last is None:
            return found
        visible = is_visible(services.flow, self._remote, last.first) if last.concerns(found) else None
        self._facts.step_lock.progressed()
        at = last.belonging(found, visible)
        if at is not None:
            self._commit_choice(at, session, TORN, "continue")
        services.unconfirmed.pop(self._remote)
        if at is None:
            return found
        self._refuse_disturbed(session)
        return at

    def _producer(self) -> TargetProducer:
        throttle = self._services.throttles.target
        if not self._services.flow.exactly_once:
            return IdempotentProducer(self._services.flow, self._services.positions, throttle)
        name = transactional_id(self._services.flow, *self._remote)
        return TransactionalProducer(self._services.flow, name, self._services.group_metadata, throttle)

    def _has_records(self) -> bool:
        """True if the remote partition has records although only mirror writes there.

        They are looked for as a read_committed consumer sees them.
        """
        here = self._remote
        if self._services.flow.active_active:  # others write there, too
            return False
        return self._services.positions.end(*here) > 0 and here in with_records(self._services.flow, [here])

    def _follow_decision(
        self, incident: Incident, found: Position | None, session: TransactionSession, end: int
    ) -> Position:
        """Commit the position that a person or a policy has chosen. Raises DecisionNeeded if neither has.

        `end` is the remote partition's, once the last owner was fenced.
        """
        facts, topic, newest = self._facts, self._topic, self._facts.known.newest
        choice = decided(incident, self._services.plan.decision(facts.partition))
        if choice is None and is_accepted(incident, self._services.flow):
            choice = "continue"
        elif choice == "continue":
            newest = self._copied_end(incident, found, end)
        if choice is None:
            self._need_decision(incident, found)
        at = chosen(choice, self._chosen_offset(choice), found, newest, topic)
        at = at or facts.known.next(facts.known.start.offset)
        what = explain(incident, found, topic, self._services.flow.group)
        self._commit_choice(at, session, what, choice)
        if incident.kind == "remote_topic":
            facts.counters.lost["remote_topic"] += 1
        self._refuse_disturbed(session)
        return at

    def _commit_choice(self, at: Position, session: TransactionSession, why: str, choice: Choice) -> None:
        """Tell that copying goes on from another position than the one that was found, and commit that.

        After any error that it raises, the session is discarded.
        """
        self._facts.skips.log("position decided, copying goes on from it", why, choice=choice, offset=at.offset)
        try:
            self._facts.commit_position_only(at, session)
        except TransactionAborted as error:  # the next step has to take over again: nothing says yet where we are
            raise PartitionError(str(error), blocked=error.blocked) from error

    @staticmethod
    def _refuse_disturbed(session: TransactionSession) -> None:
        """Raise PartitionError if the producer is disturbed, which has just ended a transaction.

        A delayed EndTxn could end its next one.
        """
        if session.suspect:
            raise PartitionError("a connection to the target was lost after the position was decided")

    def _copied_end(self, incident: Incident, found: Position | None, end: int) -> Position | None:
        """The position after what was copied, as the target shows it. Raises DecisionNeeded if it can't be found.

        It is the newest one that is known if nothing can be found: what was copied to a deleted topic can't come twice,
        and without transactions some of it may in any case. Nor are canaries compared.
        """
        facts, topic, flow = self._facts, self._topic, self._services.flow
        newest = facts.known.newest
        if incident.kind == "remote_topic" or not is_mapped(flow, facts.partition, topic):
            return newest
        by_others, progressed = found is not None and found.is_handed_back, facts.step_lock.progressed
        begun = self._services.clock.monotonic()
        at = EndFinder(self._services, facts.partition, topic, progressed, by_others).find(newest, end)
        if isinstance(at, Undecided):
            self._need_decision(incident, found, at.reason, self._services.clock.monotonic() - begun)
        return at

    def _chosen_offset(self, choice: Choice) -> int:
        partition = self._facts.partition
        decision = self._services.plan.decision(partition)
        if choice == "at" and decision is not None:
            return decision.offset
        if choice != "start":
            return -1
        first = self._services.source.offsets({partition: OffsetSpec.earliest()}, stable=False).get(partition)
        if first is None:
            raise PartitionError("the source gives no offsets of the partition")
        return first

    def _need_decision(self, incident: Incident, found: Position | None, why: str = "", took: float = 0.0) -> NoReturn:
        """Raise DecisionNeeded. `why` says why the one that was made can't be followed, which took so many seconds."""
        facts, topic, made = self._facts, self._topic, self._services.plan.decision(self._facts.partition)
        facts.incident = incident
        facts.unfollowed = made.request if why and made is not None else ""
        explained = explain(incident, found, topic, self._services.flow.group)
        said = unfindable(explained, facts.known.newest, topic, why) if why else explained
        facts.known.not_believed()
        raise DecisionNeeded(said, took)
