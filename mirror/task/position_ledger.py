"""What is known of one partition's position: where it started, what was loaded, committed and promised, and when."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from mirror.clock import Clock
from mirror.model import MapEnd, Position, Topic

UPGRADED = "position upgraded: it says now which remote topic it belongs to"  # for people: `loaded` was true
RENEW_WITHIN = 3600.0  # seconds after joining in which a position is committed again


@dataclass(frozen=True, slots=True)
class Start:
    """Where a partition's consumer starts.

    `hint` is its committed position, perhaps an old one; `reported` the one that its last task has reported. `unread`:
    the target refuses to tell of a position now.
    """

    offset: int
    hint: Position | None = None
    reported: Position | None = None
    unread: bool = False

    @property
    def known(self) -> bool:
        """Does the offset come from a position?"""
        return self.hint is not None

    @property
    def epoch(self) -> int:
        """The position's leader epoch; -1 if not known."""
        return self.hint.epoch if self.hint else -1

    @property
    def newest(self) -> Position | None:
        """The newest position of ours that is known; None: none is."""
        ours = [each for each in (self.reported, self.hint) if each is not None and each.topic_id]
        if len({each.topic_id for each in ours}) > 1:
            return self.hint  # of a topic that was made again
        return max(ours, key=lambda each: each.progress, default=None)


class PositionLedger:
    """The facts of one partition's position. Only the partition's step writes here."""

    def __init__(self, start: Start, topic: Topic, starts_early: bool, renew_interval: float, clock: Clock) -> None:
        self.start = start
        self.at = start.hint or Position(-1, "")  # as last loaded or committed
        self.newest = start.newest  # the newest one of ours that is known
        # True if a position has been, or may have been, committed.
        self.promised = start.known or start.unread
        # True if the start has to be committed before any record comes: the flow's `start` would move it later.
        self.pins_start = not start.known and (start.unread or not starts_early)
        self.delivered: Position | None = None  # before it, without transactions, all is on the target
        self.last_commit = 0.0  # seconds since the Unix epoch
        self._topic = topic
        self._clock = clock
        # Soon: nobody knows when it was committed last. Not all at once: each takes a producer.
        self._renew_at = clock.monotonic() + random.uniform(0, min(RENEW_WITHIN, renew_interval / 10))

    @property
    def offset(self) -> int:
        """The next upstream offset, as last loaded or committed; -1: none is known."""
        return self.at.offset

    @property
    def topic_id(self) -> str:
        """The source topic that the position belongs to; "" while nothing has been committed."""
        return self.at.topic_id if self.newest else ""

    @property
    def renew_at(self) -> float | None:
        """When the position has to be committed again, monotonic; None: there is none to keep."""
        return self._renew_at if self.promised else None

    @property
    def is_old(self) -> bool:
        """Has the position to be committed again? It may belong to a paused partition, or one that can't be copied."""
        return self.renew_at is not None and self._clock.monotonic() >= self.renew_at

    @property
    def resume_from(self) -> Position:
        """Where the consumer has to go on."""
        at = self.at if self.offset >= 0 else Position(self.start.offset, "", self.start.epoch)
        return self.delivered if self.delivered and self.delivered.offset > at.offset else at

    def next(self, offset: int, epoch: int = -1, since: int = -1) -> Position:
        """A position in the plan's topics, after what was copied."""
        topic, at = self._topic, self.at
        map_end = at.map_end_in(topic.topic_id, topic.remote_id)
        return Position(offset, topic.topic_id, epoch, since, topic.remote_id, at.resets, map_end)

    def nothing_committed(self) -> None:
        """No position was ever committed: begin where the flow's `start` points."""
        self.at = replace(self.next(self.start.offset), map_end=MapEnd())

    def loaded(self, position: Position) -> bool:
        """A position was loaded that can be believed. True if it is upgraded.

        A position from before remote topics had ids gets the one of today, and is committed with it soon.
        """
        upgraded = not position.remote_id and bool(self._topic.remote_id)
        if upgraded:
            position = replace(position, remote_id=self._topic.remote_id)
            self.renew_again(self._clock.monotonic())
        self.promised, self.pins_start = True, False
        self.at = self.newest = position
        return upgraded

    def not_believed(self) -> None:
        """What was loaded can't be believed: report the newest position that is known."""
        self.at = self.newest or self.at

    def committed(self, position: Position, renew_interval: float) -> None:
        """The position was committed, with records or alone."""
        self.at, self.newest, self.delivered = position, position, None
        self.last_commit = self._clock.now()
        self.promised, self.pins_start = True, False
        self.renewed(renew_interval)

    def renewed(self, renew_interval: float) -> None:
        """The position was committed again as it was."""
        self.renew_again(self._clock.monotonic() + renew_interval)

    def renew_again(self, at: float) -> None:
        """Commit the position again at this time, monotonic."""
        self._renew_at = at
