"""What is known of one partition's position: where it started, what was loaded and committed, and when."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from mirror.clock import Clock
from mirror.model import MapEnd, Position, Topic

UPGRADED = "position upgraded: it says now which remote topic it belongs to"  # for people: `loaded` was true
RENEW_WITHIN = 3600.0  # seconds: a position is committed again within this time after the task gets the partition


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Where a partition's consumer starts.

    `hint` is the committed position, perhaps an old one. `reported` is the position that the last task has reported.
    `unread` is True if the target does not let us read the position now.
    """

    offset: int
    hint: Position | None = None
    reported: Position | None = None
    unread: bool = False

    @property
    def known(self) -> bool:
        """True if the offset comes from a position."""
        return self.hint is not None

    @property
    def epoch(self) -> int:
        """The position's leader epoch; -1 if not known."""
        return self.hint.epoch if self.hint else -1

    def newest(self, topic_id: str) -> Position | None:
        """The newest position of ours that is known; None if none is. `topic_id` is the present source topic's."""
        ours = [each for each in (self.reported, self.hint) if each is not None and each.topic_id]
        if len({each.topic_id for each in ours}) > 1:  # the source topic was created again in between
            return next((each for each in ours if each.topic_id == topic_id), self.hint)
        return max(ours, key=lambda each: each.progress, default=None)


class KnownPositions:
    """The facts of one partition's position. Only the partition's step writes here."""

    def __init__(
        self, start: StartPoint, topic: Topic, starts_early: bool, renew_interval: float, clock: Clock
    ) -> None:
        self.start = start
        # The hint at first, then as last loaded or committed; if that was not believed, the newest one that is known.
        self.position = start.hint or Position(-1, "")
        self.newest = start.newest(topic.topic_id)  # the newest one of ours that is known
        # True if a position has been, or may have been, committed.
        self.may_be_committed = start.known or start.unread
        # True if the start has to be committed before any record comes: asked again, `start` could give a later offset.
        self.must_commit_start = not start.known and (start.unread or not starts_early)
        # Only without transactions: all records before this position are on the target, though it is not committed.
        self.delivered: Position | None = None
        self.last_commit = 0.0  # seconds since the Unix epoch
        self._topic = topic
        self._clock = clock
        # Soon, because nobody knows when it was last committed. At random times, because each renewal opens a producer.
        self._renew_at = clock.monotonic() + random.uniform(0, min(RENEW_WITHIN, renew_interval / 10))

    @property
    def offset(self) -> int:
        """The offset of `position`; -1 if no position is known."""
        return self.position.offset

    @property
    def to_report(self) -> Position:
        """What reports tell, without an id of the source topic while nothing has been committed.

        It is the newest position, also before anything is loaded. A report replaces the partition's last one, and if
        the target has lost what was committed, nobody else knows it.
        """
        return self.newest or replace(self.position, topic_id="")

    @property
    def renew_at(self) -> float | None:
        """When the position has to be committed again, monotonic; None if there is no position to keep."""
        return self._renew_at if self.may_be_committed else None

    @property
    def is_old(self) -> bool:
        """True if the position has to be committed again, also for a partition that is paused or can't be copied."""
        return self.renew_at is not None and self._clock.monotonic() >= self.renew_at

    @property
    def resume_from(self) -> Position:
        """The position from which the consumer has to go on."""
        at = self.position if self.offset >= 0 else Position(self.start.offset, "", self.start.epoch)
        return self.uncommitted or at

    @property
    def uncommitted(self) -> Position | None:
        """`delivered` if it is after the position, so that a crash would double records; else None."""
        return self.delivered if self.delivered and self.delivered.offset > self.offset else None

    def next(self, offset: int, epoch: int = -1, epoch_before_markers: int = -1) -> Position:
        """The position `offset`, with the ids of the plan's topics."""
        topic, at = self._topic, self.position
        map_end = at.map_end_in(topic.topic_id, topic.remote_id)
        return Position(offset, topic.topic_id, epoch, epoch_before_markers, topic.remote_id, at.resets, map_end)

    def nothing_committed(self) -> None:
        """No position was ever committed: begin where the flow's `start` points."""
        self.position = replace(self.next(self.start.offset), map_end=MapEnd())

    def loaded(self, position: Position) -> bool:
        """Keep a loaded position that can be believed. Returns True if it is upgraded.

        A position of an older mirror may lack the id of the remote topic. It gets the plan's remote topic id, and is
        committed with it soon.
        """
        upgraded = not position.remote_id and bool(self._topic.remote_id)
        if upgraded:
            position = replace(position, remote_id=self._topic.remote_id)
            self.renew_again(self._clock.monotonic())
        self.may_be_committed, self.must_commit_start = True, False
        self.position = self.newest = position
        return upgraded

    def not_believed(self) -> None:
        """What was loaded can't be believed: go back to the newest position that is known."""
        self.position = self.newest or self.position

    def committed(self, position: Position, renew_interval: float) -> None:
        """Keep a position that was committed, with records or alone."""
        self.position, self.newest, self.delivered = position, position, None
        self.last_commit = self._clock.now()
        self.may_be_committed, self.must_commit_start = True, False
        self.renewed(renew_interval)

    def renewed(self, renew_interval: float) -> None:
        """The position was committed again as it was."""
        self.renew_again(self._clock.monotonic() + renew_interval)

    def renew_again(self, at: float) -> None:
        """Commit the position again at this time, monotonic."""
        self._renew_at = at
