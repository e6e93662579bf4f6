"""Consumer groups that read the source while things break, and where group sync puts them on the target."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaException, TopicPartition

from tests.checker.checker import Violation
from tests.checker.groups import GroupHistory, GroupSample, Placed, check_group
from tests.checker.history import Record
from tests.harness import oracle, topics
from tests.harness.pair import Pair
from tests.harness.waiting import PATIENCE, TooLate, until

INTERVAL = 0.5  # seconds between two commits, and between two samples
TIMEOUT = 5.0
SYNCED_WITHIN = 90.0  # seconds, after all is copied

Check = Callable[[GroupHistory, Placed], list[Violation]]


class Groups:
    """Two groups: one has always read everything, the other one half of it. Two threads, one for each cluster."""

    def __init__(self, pair: Pair, topic: str, partitions: int) -> None:
        self.wanted = partitions
        self.sampled = 0  # offsets that were seen on the target, also those of a remote topic that is gone
        self._pair, self._topic = pair, topic
        self._names = [f"{topic}-all", f"{topic}-half"]
        self._tried: dict[tuple[str, int], int] = {}  # highest upstream offset that was perhaps committed
        self._samples: dict[tuple[str, int], list[GroupSample]] = {}
        self._restarts = 0
        self._stopping, self._read_all = threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True, name=f"groups of {topic}")
            for number in range(2)
        ]
        self._is_judged = True

    def start(self) -> None:
        """Begin; the remote topic need not be there yet."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; raises what a thread failed with. May be called again."""
        self._read_all.set()
        self._stopping.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def forget(self) -> None:
        """The remote topic is another one now: what was seen of the old one is gone."""
        self._restarts += 1
        self._samples = {}

    def give_up(self) -> None:
        """The source's topic is another one now, whose offsets begin anew: nothing is judged."""
        self._is_judged = False
        self.stop()
        self.sampled = 0

    def delete(self) -> None:
        """Delete the groups on both clusters, or the service would have more and more to do."""
        for bootstrap in (self._pair.source, self._pair.target):
            for deleted in topics.admin(bootstrap).delete_consumer_groups(self._names).values():
                with contextlib.suppress(KafkaException, TimeoutError):
                    deleted.result(TIMEOUT)

    def judge(
        self, source: Mapping[int, Mapping[int, Record]], target: oracle.Records, check: Check = check_group
    ) -> list[str]:
        """Commit for the last time, wait for group sync, and compare, once all is copied: what is wrong.

        `source` has all records that were ever there, by partition and offset.
        """
        if not self._is_judged:
            return []
        self._read_all.set()
        self._threads[0].join(PATIENCE)
        ends = {at: self._commit_last(*at, sorted(source[at[1]])) for at in self._places()}
        placed = {
            number: Placed({record.identity: offset for offset, record in source[number].items()}, records)
            for number, records in target.items()
        }

        def found() -> list[Violation]:
            histories = {at: self._history(at, end) for at, end in ends.items()}
            # After the samples: a marker that comes late makes the log longer, and groups may stand after it.
            logs = oracle.ends(self._pair.target, self._pair.remote(self._topic), IsolationLevel.READ_UNCOMMITTED)
            for number, each in placed.items():
                each.end = logs[number]
            return [each for at, history in histories.items() for each in check(history, placed[at[1]])[:5]]

        with contextlib.suppress(TooLate):  # what is late is judged
            until("groups have been synced", lambda: not found(), SYNCED_WITHIN)
        self.stop()
        return [f"{violation.invariant} {violation.what}" for violation in found()]

    def _places(self) -> Iterator[tuple[str, int]]:
        for name in self._names:
            yield from ((name, number) for number in range(self.wanted))

    def _commit_last(self, name: str, number: int, source: Sequence[int]) -> int:
        """The first group has read everything; the other one goes on at the record that comes next for it."""
        tried = self._tried.get((name, number), 0)
        following = [offset for offset in source if offset >= tried]
        end = following[0] if following and name.endswith("half") else source[-1] + 1
        self._tried[name, number] = end
        topics.commit(self._pair.source, name, self._topic, {number: end})
        return end

    def _history(self, at: tuple[str, int], end: int) -> GroupHistory:
        """The history of a group that has committed `end` in the end."""
        samples = self._samples.get(at, [])
        last = samples[-1] if samples and samples[-1].read == end else None
        return GroupHistory(f"{at[0]}-{at[1]}", samples[:], last, end)

    def _run(self, side: int) -> None:
        try:
            (self._read, self._sample)[side]()
        except BaseException as failure:
            self._failure = failure

    def _read(self) -> None:
        with ExitStack() as stack:
            committers = [self._consumer(stack, self._pair.source, name) for name in self._names]
            reader, assigned, reached = committers[0], 0, dict[int, int]()
            while not self._read_all.wait(INTERVAL):
                for number in range(assigned, self.wanted):
                    reader.incremental_assign([TopicPartition(self._topic, number, OFFSET_BEGINNING)])
                    assigned += 1
                for message in reader.consume(10_000, 0.1):
                    if message.error() is None:
                        reached[int(message.partition() or 0)] = int(message.offset() or 0) + 1
                for name, committer, share in zip(self._names, committers, (1, 2), strict=True):
                    self._commit(committer, name, {number: offset // share for number, offset in reached.items()})

    def _commit(self, committer: Consumer, name: str, offsets: Mapping[int, int]) -> None:
        if offsets:
            self._tried.update({(name, number): offset for number, offset in offsets.items()})
            wanted = [TopicPartition(self._topic, number, offset) for number, offset in offsets.items()]
            with contextlib.suppress(KafkaException):  # the source is away
                committer.commit(offsets=wanted, asynchronous=False)

    def _sample(self) -> None:
        remote = self._pair.remote(self._topic)
        with ExitStack() as stack:
            askers = [self._consumer(stack, self._pair.target, name) for name in self._names]
            while not self._stopping.wait(INTERVAL):
                for name, asker in zip(self._names, askers, strict=True):
                    restarts = self._restarts
                    with contextlib.suppress(KafkaException):  # the target is away, or has no such topic yet
                        asked = [TopicPartition(remote, number) for number in range(self.wanted)]
                        self._keep(name, asker.committed(asked, TIMEOUT), restarts)

    def _keep(self, name: str, found: Sequence[TopicPartition], restarts: int) -> None:
        for each in found:
            tried = self._tried.get((name, each.partition))  # after the answer: perhaps more than it is about
            if each.error is None and each.offset >= 0 and tried is not None and restarts == self._restarts:
                self._samples.setdefault((name, each.partition), []).append(GroupSample(each.offset, tried))
                self.sampled += 1

    @staticmethod
    def _consumer(stack: ExitStack, bootstrap: str, group: str) -> Consumer:
        config = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"}
        own = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0}
        consumer = Consumer({**config, **own, "topic.metadata.refresh.interval.ms": 1_000})
        stack.callback(consumer.close)
        return consumer
