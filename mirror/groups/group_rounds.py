"""Makes rounds over the consumer groups of a flow: syncs offsets, and writes checkpoints for MirrorMaker's client."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from mirror.control.leader_rounds import LeaderRounds, RoundResult
from mirror.errors import MirrorError
from mirror.groups.checkpoint_writer import CheckpointWriter
from mirror.groups.group_choice import COMMITTED
from mirror.groups.group_sync import GroupOffset, GroupSync
from mirror.groups.selected import NOT_MIRRORED
from mirror.kafka.renewed import Outage
from mirror.logs import OnChange
from mirror.settings import Flow, Groups

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Round(RoundResult):
    """What one round has found."""

    offsets: Sequence[GroupOffset]
    synced: bool  # True if they are committed on the target
    refused: Mapping[str, str] = field(default_factory=dict)  # groups whose offsets the source does not give, and why
    synced_at: Mapping[str, float] = field(default_factory=dict)  # when each was in step; {} if groups are not synced
    left_out: Mapping[str, str] = field(default_factory=dict)  # groups that are no consumer groups, and why


class GroupRounds(LeaderRounds[Round]):
    """Makes a round each `groups.interval`, in a thread of its own. Only the flow leader has one."""

    def __init__(self, flow: Flow, tell: Callable[[Round], object]) -> None:
        """`tell` gets what each round has found, in another thread, and never after `stop` has returned."""
        super().__init__("groups", flow, tell)
        self.renew_interval = 0.0  # seconds after which an offset that stays the same is committed again
        self._why = OnChange()  # used by the thread alone
        self._synced_at: Mapping[str, float] = {}  # after the last round; used by the thread alone

    @property
    def wanted(self) -> bool:
        """True if the configuration wants it."""
        return self._flow.makes_rounds

    def _none_yet(self, at: float) -> Round:
        return Round(at, (), self._flow.groups.sync, has_ended=False)

    def _make_rounds(self, stopping: threading.Event) -> None:
        flow = self._flow
        # First: a change of a password while the clients are made is noticed later.
        outages = [Outage(flow.source), Outage(flow.target)]
        with closing(GroupSync(flow)) as sync, closing(CheckpointWriter(flow)) as checkpoints:
            # The thread then begins again, with new clients.
            while not stopping.is_set() and not any([each.wants_another() for each in outages]):
                began = time.monotonic()
                failed = not self._round(flow.groups, sync, checkpoints)
                for each in outages:
                    each.note(failed)
                stopping.wait(pause(flow.groups.interval, time.monotonic() - began))

    def _round(self, groups: Groups, sync: GroupSync, checkpoints: CheckpointWriter) -> bool:
        """Make a round, and report what it has found. False if it failed."""
        where = {"flow": self._flow.name}
        try:
            found = sync.round(self.renew_interval)
            if groups.checkpoints:
                checkpoints.write(found)
        except MirrorError as error:
            if self._why.is_new(str(error)):
                said = {**where, "reason": str(error)}
                log.warning("group round failed, the next one tries again", extra=said)
            self._tell_failed(str(error))
            return False
        else:
            if self._why.clear():
                log.info("group rounds succeed again", extra=where)
            now = time.time()
            self._synced_at = synced_at(found, sync.refused, now, self._synced_at) if groups.sync else {}
            self._tell_end(Round(now, found, groups.sync, sync.refused, self._synced_at, sync.left_out))
            return True


def pause(interval: float, took: float) -> float:
    """Seconds until the next round, after one that took so long. Pure.

    Rounds that take longer than the interval would otherwise follow each other at once, and load this process and both
    clusters all the time.
    """
    return max(interval - took, min(took, interval))


def synced_at(
    found: Sequence[GroupOffset], refused: Iterable[str], now: float, before: Mapping[str, float]
) -> dict[str, float]:
    """When each group was last in step, in seconds since the Unix epoch: all its offsets stood on the target. Pure.

    Topics that are not mirrored do not count. A group is missing as long as that was never seen. `found` and `refused`
    are what the newest round gives, `before` is the answer after the round before it.
    """
    mirrored = [each for each in found if not each.reason.startswith(NOT_MIRRORED)]
    not_in_step = {*refused, *(each.group for each in mirrored if each.outcome not in COMMITTED)}
    in_step = {each.group for each in mirrored} - not_in_step
    return {group: at for group, at in before.items() if group in not_in_step} | dict.fromkeys(in_step, now)
