"""What a partition does about records that the source has lost: find out which, then wait, or go on after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mirror.control.decisions import decided
from mirror.control.partition_state import State
from mirror.errors import PartitionError, SourceDataLost
from mirror.source import corruption, loss_detection
from mirror.source.corruption import Damage
from mirror.source.fetch_events import ReadingLost
from mirror.source.loss_detection import Loss
from mirror.target.record_transactions import TransactionSession
from mirror.task.partition_facts import PartitionFacts
from mirror.task.task_services import TaskServices

Sessions = Callable[[], TransactionSession]


class LossPolicy:
    """Handles the losses of one partition."""

    def __init__(self, facts: PartitionFacts, services: TaskServices) -> None:
        self._facts = facts
        self._services = services
        self._damage: Damage | None = None  # the damaged batch that was found last
        self._damage_after = (-1, -1)  # `progress` of the position when it was found

    def handle(self, session: TransactionSession, undisturbed: Sessions) -> None:
        """Find out what is lost, and go on after it if the flow's policy allows that. Raises SourceDataLost if not.

        `undisturbed` gives a session that may begin a transaction: see `TransactionSession.suspect`. Afterwards the
        consumer has to seek.
        """
        facts = self._facts
        read_to = facts.buffer.drained_to  # after records that were left out, which no position has passed yet
        facts.buffer.invalidate()
        lost, facts.reading_lost = facts.reading_lost, None
        assert lost is not None
        try:
            if facts.known.uncommitted is not None:  # what is on the target already is no loss
                facts.commit_position_only(facts.known.uncommitted, session)
            self._judge(lost, read_to, session, undisturbed)
        except Exception:
            facts.reading_lost = facts.reading_lost or lost
            raise

    def _judge(
        self, lost: ReadingLost, read_to: int | None, session: TransactionSession, undisturbed: Sessions
    ) -> None:
        """Find out what is lost. `read_to` is the offset at which the consumer could not go on; None: not known."""
        facts, source = self._facts, self._services.source
        loss = loss_detection.find_loss(source, facts.partition, facts.topic, facts.known.position, lost.reason)
        facts.step_lock.progressed()
        if not loss and lost.damaged:
            loss = self._find_damage(lost, read_to)
            if loss:
                session = self._promise(session, undisturbed)
        if not loss:
            facts.back_off()  # the consumer may report the same loss again: its metadata came from another broker
        elif not facts.known.may_be_committed:
            facts.requested_state = State.RELEASED  # the plan follower begins with it anew, as nothing is committed yet
            raise PartitionError(f"offset {facts.known.offset}, where copying was to start, is not on the source")
        else:
            self._pass_over(loss, session)

    def _find_damage(self, lost: ReadingLost, read_to: int | None) -> Loss | None:
        """What is lost with the damaged batch at the offset `read_to`; None if what is there can be read now.

        While the position stays the same, the batch that was found last only gets one look, with a single consumer. The
        tries may go on for days, and a consumer may never end after such a batch.
        """
        facts, services, progress = self._facts, self._services, self._facts.known.position.progress
        known = self._damage if self._damage_after == progress else None
        if read_to is None:  # so it is after a take-over. Records that are left out may lie before the batch
            read_to = known.at if known else 0
        at, progressed = max(facts.known.offset, read_to), facts.step_lock.progressed
        found = corruption.find_damage(
            services.flow, services.source, facts.partition, at, lost.reason, progressed, known
        )
        self._damage, self._damage_after = found, progress
        return found.loss if found else None

    def _promise(self, session: TransactionSession, undisturbed: Sessions) -> TransactionSession:
        """Commit the position if none was ever committed. Returns a session for the next transaction.

        The source has what follows the position. Without the commit, a later answer to `start` could pass it over.
        """
        if self._facts.known.may_be_committed:
            return session
        self._facts.commit_position_only(self._facts.known.position, session)
        return undisturbed()

    def _pass_over(self, loss: Loss, session: TransactionSession) -> None:
        facts = self._facts
        incident = facts.incident_of(loss.reason)
        waits = self._services.flow.on_data_loss == "fail"
        if waits and not decided(incident, self._services.plan.decision(facts.partition)):
            facts.incident = incident
            raise SourceDataLost(f"{loss.what}; {loss.remedy}")
        # The id tells this loss from the same loss of another topic that had the name.
        where = {"offset": loss.resume, "topic_id": facts.topic.topic_id}
        facts.skips.log("source data is lost, copying goes on after it", loss.what, **where)
        before = -1 if loss.reason == "recreated" else facts.known.position.newest_epoch
        at = facts.known.next(loss.resume, epoch_before_markers=before)
        if loss.reason == "truncated":  # the position goes back, which only a reset may do
            at = replace(at, resets=at.resets + 1)
        facts.commit_position_only(at, session)
        facts.discard()  # the session's offset syncs would go on from the old place
        facts.counters.lost[loss.reason] += loss.offsets
