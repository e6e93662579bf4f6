"""Reads many stretches, each in a task of its own, and remembers which logs can't be read or have been shortened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from mirror.commands.verify.digests import Digester, Stretch
from mirror.commands.verify.ranges import PartitionRanges, Side
from mirror.errors import MirrorError, NotComparable, WireError
from mirror.kafka.cluster import chunks

A = TypeVar("A")
B = TypeVar("B")
Log = tuple[str, str, int]  # alias, topic, partition

JOB_MAX = 2_000  # most items of one job: Spark's driver holds the results of a whole job
ROUNDS = 4  # how often a log is read whose beginning is removed meanwhile


class Runner(Protocol):
    """Runs a function over many items."""

    @property
    def slots(self) -> int:
        """How many items can run at once."""

    def map(self, function: Callable[[A], B], items: Sequence[A], progress: Callable[[int], None]) -> list[B]:
        """The results of `function`, in the order of the items. `progress` gets the number of finished ones.

        Raises MirrorError.
        """


class _Unreadable(NamedTuple):
    """Why a stretch gives no result, or none that can be compared."""

    reason: str
    of_topic: bool  # True if it says something of all partitions of the topic


class _Shortened(NamedTuple):
    """The log has lost the beginning of the stretch: its first offset is this one now."""

    start: int


def log_of(part: Stretch | Side) -> Log:
    """The log of which it is a part."""
    return part.cluster, part.topic, part.partition


@dataclass(frozen=True, slots=True)
class Jobs:
    """Runs jobs that read. What it can't read gives None: `starts` or the reasons tell why."""

    runner: Runner
    digester: Digester
    starts: dict[Log, int] = field(default_factory=dict)  # where logs begin that have lost their beginning meanwhile
    _reasons: dict[Log, str] = field(default_factory=dict)
    _topics: dict[tuple[str, str], str] = field(default_factory=dict)  # reasons by alias and topic

    def reason(self, ranges: PartitionRanges) -> str:
        """Why the partition can't be compared; "" if it can."""
        sides = ranges.source, ranges.target
        of_topics = [self._topics.get((side.cluster, side.topic), "") for side in sides]
        of_logs = [self._reasons.get(log_of(side), "") for side in sides]
        return next((reason for reason in [ranges.reason, *of_topics, *of_logs] if reason), "")

    def give_up(self, part: Stretch | Side) -> None:
        """Note that a log loses its beginning again and again."""
        where = f"{part.topic}-{part.partition} on {part.cluster}"
        self._reasons.setdefault(
            log_of(part), f"{where} can't be compared: its records are removed while they are read"
        )

    def map(
        self, function: Callable[[Stretch], B], stretches: Sequence[Stretch], progress: Callable[[int], None]
    ) -> list[B | None]:
        """The result of `function` for each stretch."""
        found: list[B | None] = []
        told = partial(_told, self.digester, function)
        for some in chunks(stretches, JOB_MAX):
            results = self.runner.map(told, some, _from(len(found), progress))
            for stretch, each in zip(some, results, strict=True):
                found.append(self._kept(stretch, each))
        return found

    def map_to_the_end(
        self, function: Callable[[Stretch], B], stretches: Sequence[Stretch], progress: Callable[[int], None]
    ) -> list[tuple[Stretch, B]]:
        """The results of `map`, with their stretches. Those that have lost their beginning are read from the rest."""
        done: list[tuple[Stretch, B]] = []
        for _ in range(ROUNDS):
            found = self.map(function, stretches, progress)
            both = list(zip(stretches, found, strict=True))
            done += [(stretch, each) for stretch, each in both if each is not None]
            stretches = [left for stretch, each in both if each is None and (left := self._rest(stretch)) is not None]
            if not stretches:
                break
        for stretch in stretches:
            self.give_up(stretch)
        return done

    def _kept(self, stretch: Stretch, found: B | _Unreadable | _Shortened) -> B | None:
        log = log_of(stretch)
        if isinstance(found, _Shortened):
            self.starts[log] = max(found.start, self.starts.get(log, 0))
            return None
        if isinstance(found, _Unreadable):
            if found.of_topic:
                self._topics.setdefault((stretch.cluster, stretch.topic), found.reason)
            self._reasons.setdefault(log, found.reason)
            return None
        return found

    def _rest(self, stretch: Stretch) -> Stretch | None:
        """What is left of a stretch that could not be read; None if nothing is, or the reason is another one."""
        log = log_of(stretch)
        start = self.starts.get(log, 0)
        if log in self._reasons or not stretch.start < start < stretch.end:
            return None
        return replace(stretch, start=start, first=True)


def _from(before: int, progress: Callable[[int], None]) -> Callable[[int], None]:
    return lambda done: progress(before + done)


def _told(digester: Digester, function: Callable[[Stretch], B], stretch: Stretch) -> B | _Unreadable | _Shortened:
    """The result, or why there is none. It runs in a task."""
    try:
        return function(stretch)
    except NotComparable as error:
        return _Unreadable(str(error), True)
    except WireError as error:
        reason = f"{stretch.topic}-{stretch.partition} on {stretch.cluster} can't be read: {error}"
    except MirrorError as error:
        reason = str(error)
    start = _start(digester, stretch)
    return _Shortened(start) if start > stretch.start else _Unreadable(reason, False)


def _start(digester: Digester, stretch: Stretch) -> int:
    try:
        return digester.start(stretch)
    except MirrorError:
        return 0
