"""Rounds over the consumer groups of a flow: offsets are synced, and checkpoints written for MirrorMaker's client."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from mirror.errors import MirrorError
from mirror.groups.checkpoint_writer import CheckpointWriter
from mirror.groups.group_sync import GroupOffset, GroupSync
from mirror.logs import OnChange
from mirror.settings import Flow
from mirror.text import BUG

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
        """`tell` gets what each round has found; it is called in another thread."""
        self._flow = flow
        self._tell = tell
        self._renew_interval = 0.0
        self._stopping: threading.Event | None = None  # of the thread that runs
        self._why = OnChange()

    def start(self, renew_interval: float) -> None:
        """Begin, unless it has begun or nothing is to be done.

        An offset that stays the same is committed again after `renew_interval` seconds.
        """
        self._renew_interval = renew_interval
        if self._stopping is None and self._flow.makes_rounds:
            self._stopping = threading.Event()
            name = f"groups {self._flow.name}"
            threading.Thread(target=self._run, args=(self._stopping,), daemon=True, name=name).start()

    def stop(self) -> None:
        """End after the round that is being made; `start` begins again."""
        if self._stopping is not None:
            self._stopping.set()
            self._stopping = None

    def _run(self, stopping: threading.Event) -> None:
        groups = self._flow.groups
        with closing(GroupSync(self._flow, groups.sync)) as sync, closing(CheckpointWriter(self._flow)) as checkpoints:
            while not stopping.is_set():
                began = time.monotonic()
                self._round(sync, checkpoints, stopping)
                stopping.wait(max(0.0, groups.interval - (time.monotonic() - began)))

    def _round(self, sync: GroupSync, checkpoints: CheckpointWriter, stopping: threading.Event) -> None:
        where = {"flow": self._flow.name}
        try:
            found = sync.round(self._renew_interval)
            if self._flow.groups.checkpoints:
                checkpoints.write(found)
        except MirrorError as error:
            if self._why.is_new(str(error)):
                said = {**where, "reason": str(error)}
                log.warning("groups can't be looked at now, the next round tries again", extra=said)
        except Exception:  # groups must not end the copying
            log.exception(BUG, extra=where)
        else:
            if self._why.clear():
                log.info("groups are looked at again", extra=where)
            if not stopping.is_set():
                self._tell(Round(time.time(), found, self._flow.groups.sync))
