"""Rounds in which remote topics get the ACLs of their source topics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mirror.control.leader_rounds import LeaderRounds, RoundResult, RoundSchedule
from mirror.errors import MirrorError
from mirror.logs import OnChange
from mirror.naming import some_of
from mirror.settings import Flow
from mirror.topics.acl_rules import UNNAMED
from mirror.topics.acl_sync import AclOutcome, AclStatus, AclSync, unnamed_principals
from mirror.topics.trusted import Trusted

log = logging.getLogger(__name__)

LOOK_INTERVAL = 2.0  # seconds between two looks for topics of which something was copied since


@dataclass(frozen=True, slots=True, eq=False)
class AclRound(RoundResult):
    """What one round has found."""

    acls: tuple[AclStatus, ...]


class AclRounds(LeaderRounds[AclRound]):
    """Makes a round each `sync_acls_interval`, in a thread of its own. Only the flow leader has one.

    A remote topic gets ACLs once a record was copied to it: before, it may be somebody else's. Then it does not wait
    for the interval, unless the last round has failed.
    """

    def __init__(self, flow: Flow, topics: Callable[[], Trusted], tell: Callable[[AclRound], object]) -> None:
        """`topics` gives the topics that may be kept in step now; `tell` gets what each round has found.

        Both are called in another thread, `tell` never after `stop` has returned.
        """
        super().__init__("ACLs", flow, tell)
        self._topics = topics
        # What follows is used by the thread alone.
        self._said = OnChange()  # the reason of each ACL that is not copied, or not as it is
        self._unnamed = OnChange()
        self._why = OnChange()

    @property
    def wanted(self) -> bool:
        """True if the configuration wants it."""
        return self._flow.sync_acls

    def _none_yet(self, at: float) -> AclRound:
        return AclRound(at, (), has_ended=False)

    def _make_rounds(self, stopping: threading.Event) -> None:
        interval = self._flow.sync_acls_interval
        sync = AclSync(self._flow)
        schedule = RoundSchedule(interval)
        seen: set[str] = set()
        while not stopping.is_set():
            trusted = self._topics()
            remotes = {n: t.remote for n, t in trusted.topics.items() if n not in trusted.unproven}
            if schedule.is_due or not (schedule.is_failing or remotes.keys() <= seen):
                if self._round(sync, remotes):
                    seen = set(remotes)
                    schedule.succeeded()
                else:
                    schedule.failed()
            stopping.wait(min(LOOK_INTERVAL, interval))

    def _round(self, sync: AclSync, remotes: dict[str, str]) -> bool:
        """Make a round over these topics. False if it has failed."""
        where = {"flow": self._flow.name}
        try:
            found = sync.round(remotes)
        except MirrorError as error:
            if self._why.is_new(str(error)):
                said = {**where, "reason": str(error)}
                log.warning(
                    "ACLs can't be copied now; copying of records goes on, the next round tries again", extra=said
                )
            self._tell_failed(str(error))
            return False
        if self._why.clear():
            log.info("ACLs are copied again", extra=where)
        for each in found:
            if each.outcome is AclOutcome.CREATED:
                log.info("ACL created", extra={**where, "acl": str(each.target), "source_acl": str(each.source)})
        self._log_reasons(found)
        unnamed = unnamed_principals(found)
        if not unnamed:
            self._unnamed.clear()
        elif self._unnamed.is_new(", ".join(unnamed)):
            some = {"count": len(unnamed), "principals": some_of(unnamed), "reason": UNNAMED}
            log.info("ACLs are for principals that the target may lack", extra={**where, **some})
        self._tell_end(AclRound(time.time(), tuple(found)))
        return True

    def _log_reasons(self, found: Iterable[AclStatus]) -> None:
        """Log once of each ACL why it is not copied, or not as it is; those with the same reason together."""
        new: dict[tuple[int, str, str], list[str]] = {}
        for each in found:
            if not each.reason:
                self._said.clear(each.source)
            elif self._said.is_new(each.reason, each.source):
                new.setdefault((*_event(each), each.reason), []).append(str(each.source))
        for (level, message, reason), acls in new.items():
            where = {"flow": self._flow.name, "count": len(acls), "acls": some_of(acls), "reason": reason}
            log.log(level, message, extra=where)


def _event(each: AclStatus) -> tuple[int, str]:
    """The level and the message with which the reason is logged."""
    if each.outcome is AclOutcome.MISSING:
        return logging.WARNING, "the target refuses ACLs; copying of records goes on, each round tries again"
    if each.stays:
        return logging.WARNING, "the target still allows what the source denies now; the reason says what to delete"
    return logging.INFO, "ACLs are not copied as they are"
