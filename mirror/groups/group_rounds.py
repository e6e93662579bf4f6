"""Rounds over the consumer groups of a flow: offsets are synced, and checkpoints written for MirrorMaker's client."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from mirror.control.leader_thread import LeaderThread
from mirror.errors import MirrorError
from mirror.groups.checkpoint_writer import CheckpointWriter
from mirror.groups.group_sync import GroupOffset, GroupSync
from mirror.kafka.renewed import Outage
from mirror.logs import OnChange
from mirror.settings import Flow

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Round:
    """What one round has found."""

    at: float  # when it ended, in seconds since the Unix epoch
    offsets: Sequence[GroupOffset]
    synced: bool  # are they committed on the target?


class GroupRounds:
    """Makes a round each `groups.interval`, in a thread of its own. Only the flow leader has one."""

    def __init__(self, flow: Flow, tell: Callable[[Round], object]) -> None:
        """`tell` gets what each round has found, in another thread, and never after `stop` has returned."""
        self._flow = flow
        self._tell = tell
        self._renew_interval = 0.0
        self._why = OnChange()  # used by the thread alone
        self._thread = LeaderThread(f"groups {flow.name}", flow.name, self._work)

    def start(self, renew_interval: float) -> None:
        """Begin, unless it has begun or nothing is to be done. Call it again and again while the flow is led.

        An offset that stays the same is committed again after `renew_interval` seconds.
        """
        self._renew_interval = renew_interval
        if self._flow.makes_rounds:
            self._thread.start()

    def stop(self) -> None:
        """End after the round that is being made; `start` begins again."""
        self._thread.stop()

    def _work(self, stopping: threading.Event) -> None:
        groups = self._flow.groups
        with closing(GroupSync(self._flow)) as sync, closing(CheckpointWriter(self._flow)) as checkpoints:
            outage = Outage()
            while not stopping.is_set() and not outage.is_long():  # the thread then begins again, with new clients
                began = time.monotonic()
                outage.note(not self._round(sync, checkpoints))
                stopping.wait(max(0.0, groups.interval - (time.monotonic() - began)))

    def _round(self, sync: GroupSync, checkpoints: CheckpointWriter) -> bool:
        """Make a round, and tell what it has found. False if it failed."""
        where = {"flow": self._flow.name}
        try:
            found = sync.round(self._renew_interval)
            if self._flow.groups.checkpoints:
                checkpoints.write(found)
        except MirrorError as error:
            if self._why.is_new(str(error)):
                said = {**where, "reason": str(error)}
                log.warning("group round failed, the next one tries again", extra=said)
            return False
        else:
            if self._why.clear():
                log.info("group rounds succeed again", extra=where)
            result = Round(time.time(), found, self._flow.groups.sync)
            self._thread.tell(lambda: self._tell(result))
            return True
