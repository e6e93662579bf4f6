"""Where the source's partitions end: their last stable offsets, and what an open transaction holds back after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from mirror.kafka.listed_offsets import checked_offset, refresh_metadata
from mirror.kafka.renewed import Renewed
from mirror.model import Partition
from mirror.source.fetch_session import Ends
from mirror.text import moment, plural

REFRESH_TIMEOUT = 0.2  # seconds
FORGOTTEN_AFTER = 30.0  # seconds after which a request counts as lost; its own time-out is 5 s
HIGH_INTERVAL = 10.0  # seconds between two questions for high watermarks
# Seconds after which other brokers are asked who leads: a leader that was cut off from them goes on answering.
LEADERS_INTERVAL = 60.0


@dataclass(frozen=True, slots=True)
class Hold:
    """A last stable offset that does not move while the high watermark is higher: a transaction is open there."""

    stable: int
    high: int
    since: float  # seconds since the Unix epoch, as this task has seen it
    whose: str = ""  # the producer's id and more, for people, once that is known

    @property
    def lasts(self) -> float:
        """For how many seconds it has lasted."""
        return max(0.0, time.time() - self.since)

    @property
    def offsets(self) -> int:
        """How many are held back; those of markers and aborted records count, too."""
        return self.high - self.stable

    @property
    def reason(self) -> str:
        """For people."""
        held = plural(self.offsets, "offset is", "offsets are")
        return f"{held} held back by an open transaction{self.whose} on the source since {moment(self.since)}"


class SourceEnds:
    """The ends of a task's partitions. It hardly ever waits for an answer, because the source may not give one.

    Records after the last stable offset reach no read_committed consumer, so they are no lag. Only the high watermark
    shows them. mirror asks for it seldom, and only for partitions whose last stable offset does not move. Answers to
    the batch path's fetches have both, so mirror asks for neither while they say it.
    """

    def __init__(
        self,
        source: Renewed[AdminClient],
        warn_after: float,
        whose: Callable[[Partition, int], str] = lambda *_: "",
    ) -> None:
        """`whose` says who holds a partition at a last stable offset: see HoldingProducers."""
        self.stable: dict[Partition, int] = {}  # last stable offsets, as far as they are known now
        self._source = source
        self._stables = _Latest(source, IsolationLevel.READ_COMMITTED)
        self._highs = _Latest(source, IsolationLevel.READ_UNCOMMITTED)
        self.warn_after = warn_after  # seconds; it may change
        self._whose = whose
        self._next = 0.0  # monotonic: when high watermarks are asked for again
        self._leaders_at = time.monotonic() + LEADERS_INTERVAL
        self._fetched: Mapping[Partition, Ends] = {}  # as of the last call of `ask`
        self._stood: Mapping[Partition, int] = {}  # the last stable offsets when high watermarks were last asked for
        self._holds: dict[Partition, Hold] = {}

    def ask(self, partitions: Iterable[Partition], fetched: Mapping[Partition, Ends]) -> None:
        """Collect the last answers, and ask again: to be called about once a second.

        `fetched` is what the batch path's fetches say now. Those partitions are not asked for. What was said counts
        from the next call on, like an answer, so that records which are being copied right now are no lag.
        """
        answers = self._stables.answers()
        if answers is not None:
            still = self._keep(answers)
            missing = None in answers.values()
            self._source.note(missing, "ends")
            if missing or (answers and time.monotonic() >= self._leaders_at):
                refresh_metadata(self._source.client, REFRESH_TIMEOUT)
                self._leaders_at = time.monotonic() + LEADERS_INTERVAL
            self._stables.ask(each for each in partitions if each not in fetched)
            self._note_holds(still)
        for partition in self._keep({each: ends.stable for each, ends in self._fetched.items()}):
            self._note_hold(partition, self._fetched[partition])
        self._fetched = fetched

    def hold(self, partition: Partition) -> Hold | None:
        """What an open transaction holds back there; None also if the last stable offset is not known now."""
        found = self._holds.get(partition) if partition in self.stable else None
        if found is None or found.lasts < self.warn_after:
            return found
        return replace(found, whose=self._whose(partition, found.stable))

    def _keep(self, answers: Mapping[Partition, int | None]) -> list[Partition]:
        """The partitions whose last stable offset has not moved since the last answer."""
        still = []
        for partition, offset in answers.items():
            before = self.stable.pop(partition, None)
            if offset is None:
                continue
            self.stable[partition] = offset
            if offset == before:
                still.append(partition)
            hold = self._holds.get(partition)
            if hold is not None and hold.stable != offset:
                del self._holds[partition]
        return still

    def _note_holds(self, still: Collection[Partition]) -> None:
        highs = self._highs.answers()
        if highs is None:
            return
        for partition, high in highs.items():
            stable = self._stood[partition]
            if high is None or stable != self.stable.get(partition):
                continue
            self._note_hold(partition, Ends(stable, high))
        due = time.monotonic() >= self._next
        if due:
            self._next = time.monotonic() + min(HIGH_INTERVAL, self.warn_after)
            self._stood = {partition: self.stable[partition] for partition in still}
        self._highs.ask(still if due else ())

    def _note_hold(self, partition: Partition, ends: Ends) -> None:
        known = self._holds.pop(partition, None)
        if ends.high > ends.stable:
            self._holds[partition] = Hold(ends.stable, ends.high, known.since if known else time.time())


class _Latest:
    """Latest offsets as one isolation level sees them."""

    def __init__(self, source: Renewed[AdminClient], isolation: IsolationLevel) -> None:
        self._source = source
        self._isolation = isolation
        self._asked: Mapping[TopicPartition, Future[Any]] = {}
        self._until = 0.0

    def ask(self, partitions: Iterable[Partition]) -> None:
        asked = {TopicPartition(*partition): OffsetSpec.latest() for partition in partitions}
        self._until = time.monotonic() + FORGOTTEN_AFTER
        self._asked = (
            self._source.client.list_offsets(asked, isolation_level=self._isolation, request_timeout=5.0)
            if asked
            else {}
        )

    def answers(self) -> dict[Partition, int | None] | None:
        """The offset of each partition that was asked for, None if the source gives none.

        None in place of all of them while answers are missing, unless the request counts as lost.
        """
        if not all(future.done() for future in self._asked.values()) and time.monotonic() < self._until:
            return None
        return {Partition(tp.topic, tp.partition): _offset(future) for tp, future in self._asked.items()}


def _offset(answer: Future[Any]) -> int | None:
    try:
        return checked_offset(answer.result(0))
    except (KafkaException, TimeoutError):  # librdkafka can lose a request
        return None
