"""Load on one topic with everything recorded that the checker wants to know."""

from __future__ import annotations

import contextlib
import itertools
import operator
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType

from confluent_kafka import IsolationLevel, KafkaException

from tests.chaos.arena import Arena
from tests.chaos.commits import Commits
from tests.chaos.groups import Groups
from tests.chaos.sender import Sender
from tests.chaos.watch import Watch
from tests.checker.checker import Violation, check
from tests.checker.history import History, Memory, Record
from tests.harness import oracle, topics
from tests.harness.load import Factory, mixed
from tests.harness.pair import Pair
from tests.harness.service import ANOTHER_REMOTE, Event
from tests.harness.waiting import PATIENCE, TooLate, until

SETTLE_TIMEOUT = 150.0  # seconds until everything has to be copied
PROGRESS_TIMEOUT = 90.0


def wait(description: str, condition: Callable[[], bool], timeout: float) -> None:
    """Wait until the condition holds. If it comes too late, say so and go on: the judge finds what is missing."""
    try:
        until(description, condition, timeout)
    except TooLate as error:
        print(f"   {error}", flush=True)


class Recorder:
    """A context manager: it puts a topic under load, and `finish` ends the load and returns the histories."""

    make: Factory = staticmethod(mixed)
    judges_groups = True  # False where the service syncs none
    drops: Callable[[Record], bool] = staticmethod(lambda _: False)  # what the service's transform leaves out

    def __init__(self, pair: Pair, partitions: int = 2, rate: float = 400.0, **config: object) -> None:
        self.pair = pair
        self.topic = pair.topic(uuid.uuid4().hex[:8], partitions, **config)
        self.passed_over: dict[int, set[int]] = {number: set() for number in range(partitions)}
        self.losses: Counter[int] = Counter()  # how often, by partition, mirror had to report a loss
        self._rate = rate / partitions
        self.senders = [self._sender(number) for number in range(partitions)]
        self.watch = Watch(pair, self.topic, partitions, self.copies)
        self.groups = Groups(pair, self.topic, partitions)
        self.stalls: list[float] = []
        self.memory: list[Memory] = []
        self.complaints: list[str] = []  # what is wrong, but for what the checker judges
        self.turn = 0  # of the round; see `in_turn`
        self._samples_anew = False  # the samples were forgotten since the last round
        self._forbidden: list[tuple[str, str]] = []  # bootstrap servers and topic: nothing may be copied there
        self._commits = Commits(pair, self.remote)
        self._healed: float | None = None  # monotonic
        self._bases = dict.fromkeys(range(partitions), 0)  # what is added to offsets: the ends of topics that are gone
        self._remembered: dict[int, dict[int, Record]] = {}  # by partition and offset

    @classmethod
    def at(cls, arena: Arena) -> Recorder:
        """A recorder in this place. At its end it puts back whatever it has altered there."""
        return cls(arena.pair)

    def _sender(self, number: int) -> Sender:
        return Sender(self.pair.source, self.topic, number, self._rate, self.make)

    def __enter__(self) -> Recorder:
        for sender in self.senders:
            sender.start()
        self.watch.start()
        self.groups.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for sender in self.senders:
            with contextlib.suppress(Exception):
                sender.stop()
        with contextlib.suppress(Exception):  # `finish` has raised what it failed with
            self.watch.stop()
        with contextlib.suppress(Exception):
            self.groups.stop()
        # Or the service would have more and more to do. What fails here must not hide what has failed before.
        self.groups.delete()
        for bootstrap, topic in ((self.pair.source, self.topic), (self.pair.target, self.remote)):
            with contextlib.suppress(KafkaException, TimeoutError):
                topics.delete(bootstrap, topic)

    @property
    def remote(self) -> str:
        """The remote topic."""
        return self.pair.remote(self.topic)

    def own(self, number: int, records: Iterable[Record]) -> list[Record]:
        """The source's records in a partition that have to be copied."""
        return list(records)

    def copies(self, number: int, records: Iterable[Record]) -> list[Record]:
        """The remote partition's records that were copied."""
        return list(records)

    def grow(self, partitions: int) -> None:
        """Add partitions on the source, with load on them."""
        topics.grow(self.pair.source, self.topic, partitions)
        for number in range(len(self.senders), partitions):
            self.passed_over[number], self._bases[number] = set(), 0
            self.senders.append(self._sender(number))
            self.senders[-1].start()
        self.watch.grow(partitions)
        self.groups.wanted = partitions

    def recreate(self, longer: bool) -> dict[int, range]:
        """Delete the topic and create another of its name; `longer`: with more records than the old one had.

        Returns the old one's offsets, counted through all topics of the name.
        """
        for sender in self.senders:
            sender.stop()
        self.groups.give_up()
        self.remember()
        before = self.source_ends()
        topics.recreate(self.pair.source, self.topic, len(self.senders))
        topic_id = topics.topic_id(self.pair.source, self.topic)
        old = {number: range(self._bases[number], self._bases[number] + end) for number, end in before.items()}
        for number, end in before.items():
            self._bases[number] += end
            self.watch.bases[topic_id, number] = self._bases[number]
        self.senders = [sender.successor() for sender in self.senders]
        for sender in self.senders:
            sender.start(hurry=before[sender.partition] + 1 if longer else 0)
        if longer:
            until("a longer topic", lambda: all(end > before[n] for n, end in self.source_ends().items()), PATIENCE)
        return old

    def remade(self) -> None:
        """The remote topic is another one now, and has what was copied since somebody, or a policy, has chosen."""
        self._samples_anew = True
        self.watch.restart()
        self.groups.forget()

    def forbid(self, bootstrap: str, topic: str) -> None:
        """Nothing may be copied to this topic."""
        self._forbidden.append((bootstrap, topic))

    def chosen(self, history: History, number: int, decided: Sequence[Event]) -> History:
        """The history, with the choices that mirror has reported, in this order."""
        anew = [int(event["offset"]) for event in decided if ANOTHER_REMOTE in event["reason"]]
        return replace(history, choices=len(decided), chosen=self._bases[number] + anew[-1] if anew else None)

    def source_ends(self) -> dict[int, int]:
        """High watermarks of the source."""
        return oracle.ends(self.pair.source, self.topic, IsolationLevel.READ_UNCOMMITTED)

    def remember(self) -> None:
        """Keep what the source has now, before some of it is deleted."""
        for number, records in oracle.read(self.pair.source, self.topic).items():
            shifted = ((record.offset + self._bases[number], record) for record in self.own(number, records))
            self._remembered.setdefault(number, {}).update((at, Record(at, *record[1:])) for at, record in shifted)

    def await_first(self) -> None:
        """Wait until every partition has got a record."""
        until("first records", lambda: all(self.watch.last_arrivals()), PATIENCE)

    def heals(self) -> None:
        """The fault is over: what a row still waits for is recovery."""
        self._healed = time.monotonic()

    def await_progress(self) -> None:
        """Wait until every partition has gone beyond what the source has now; notes how long recovery took."""
        begun, self._healed = self._healed or time.monotonic(), None
        self.await_beyond()
        self.stalls.append(time.monotonic() - begun)

    def await_beyond(self) -> None:
        """Wait until every position has moved past what the source had, where no fault was injected."""
        missing = {number: self._bases[number] + end for number, end in self.source_ends().items()}

        def is_beyond() -> bool:
            for number, end in list(missing.items()):
                with contextlib.suppress(KafkaException):
                    if self.watch.positions(number).get(number, -1) > end:
                        del missing[number]
            return not missing

        wait("progress", is_beyond, PROGRESS_TIMEOUT)

    def sampled(self) -> list[int]:
        """How many samples each partition has."""
        return [len(self.watch.samples.get(number, ())) for number in range(len(self.senders))]

    def await_samples(self, since: list[int]) -> None:
        """Wait until each partition has more than `since`: a round that nobody looked at shows nothing."""
        least = [0] * len(since) if self._samples_anew else since
        until("samples", lambda: all(map(operator.gt, self.sampled(), least)), PATIENCE)
        self._samples_anew = False

    def keep_commits(self) -> None:
        """Read which positions were committed so far, before the brokers compact them."""
        with contextlib.suppress(KafkaException, TooLate):  # the end of the recording reads them, too
            self._commits.follow()

    def finish(self) -> list[History]:
        """Stop the load, wait until all is copied, and read everything once more."""
        for sender in self.senders:
            sender.stop()
        self.remember()
        wait("all copied", self._is_copied, SETTLE_TIMEOUT)
        wait("no open transaction", lambda: not oracle.hanging(self.pair.target, self.remote), 30)
        target = {n: self.copies(n, records) for n, records in oracle.read(self.pair.target, self.remote).items()}
        until("the concurrent reader has seen all", lambda: self._has_seen(target), 60)
        positions = until("positions", self.positions, PATIENCE)
        self.watch.stop()
        if self.judges_groups:
            self.complaints += self.groups.judge(self._remembered, target)
        recorded = list(self._commits.read())
        strays = list(self._strays())
        source_ends = oracle.ends(self.pair.source, self.topic, IsolationLevel.READ_COMMITTED)
        stable = oracle.ends(self.pair.target, self.remote, IsolationLevel.READ_COMMITTED)
        high = oracle.ends(self.pair.target, self.remote, IsolationLevel.READ_UNCOMMITTED)
        return [
            History(
                sent=self.senders[number].sent,
                source=[record for _, record in sorted(self._remembered[number].items())],
                target=[Record(*record) for record in target[number]],
                concurrent=list(self.watch.seen[number]),
                samples=list(self.watch.samples[number]),
                recorded=[
                    position._replace(offset=position.offset + self.watch.bases.get((topic_id, number), 0))
                    for partition, topic_id, position in recorded
                    if partition == number
                ],
                position=positions[number] if positions[number] >= 0 else None,
                source_end=source_ends[number] + self._bases[number],
                stable=stable[number],
                high=high[number],
                stalls=self.stalls,
                passed_over=frozenset(self.passed_over[number]).union(self._dropped(number)),
                strays=strays if number == 0 else (),
                memory=self.memory if number == 0 else (),
            )
            for number in range(len(self.senders))
        ]

    def _dropped(self, number: int) -> Iterator[int]:
        return (offset for offset, record in self._remembered[number].items() if self.drops(record))

    def _strays(self) -> Iterator[Record]:
        for bootstrap, topic in self._forbidden:
            if topics.partitions(bootstrap, topic):
                yield from itertools.chain.from_iterable(oracle.read(bootstrap, topic).values())

    @staticmethod
    def judge(history: History) -> list[Violation]:
        """All that is wrong with a history of this recorder's."""
        return check(history)

    def _is_copied(self) -> bool:
        positions = self.positions()
        return positions is not None and all(
            not records or positions[number] > max(records) for number, records in self._remembered.items()
        )

    def _has_seen(self, target: oracle.Records) -> bool:
        return all(
            not records or [r.offset for r in self.watch.seen[number][-1:]] >= [records[-1].offset]
            for number, records in target.items()
        )

    def positions(self) -> dict[int, int] | None:
        """The positions of all partitions; None while one of them is not known."""
        with contextlib.suppress(KafkaException):
            positions = self.watch.positions()
            return positions if len(positions) == len(self.senders) else None
        return None
