"""The judge: reads both clusters with consumers of its own and compares them; shares nothing with mirror."""

from __future__ import annotations

import contextlib
import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from tests.checker.history import Headers, Record
from tests.harness import topics
from tests.harness.waiting import PATIENCE, TooLate, until

Records = dict[int, list[Record]]  # by partition

HEADER_KEPT = 10_000  # bytes
# What a consumer is told of a topic that the broker has not heard of yet: librdkafka says it in two ways.
UNKNOWN = (KafkaError._AUTO_OFFSET_RESET, KafkaError.UNKNOWN_TOPIC_OR_PART)


def record(message: Message) -> Record:
    """What a consumer has got. Of a header that is large only its digest is kept: some tests have gigabytes of them."""
    offset, time_ = message.offset(), message.timestamp()[1]
    assert offset is not None
    return Record(offset, message.key(), message.value(), _kept(message.headers() or ()), time_)


def _kept(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    return tuple((n, v if v is None or len(v) <= HEADER_KEPT else hashlib.sha256(v).digest()) for n, v in headers)


class Reader:
    """Reads a topic on and on; `records` has all that was read."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        isolation: str = "read_committed",
        begins: Mapping[int, int] | None = None,
    ) -> None:
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"oracle-{uuid.uuid4().hex}",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "fetch.wait.max.ms": 10,  # an end is told only after this
                "log_level": 0,
            }
        )
        self.records: Records = {number: [] for number in until(f"{topic} is known", self._partitions)}
        self._next = dict.fromkeys(self.records, OFFSET_BEGINNING) | dict(begins or {})

    def _partitions(self) -> list[int]:
        """The partitions that the broker knows which happens to be asked.

        Asking saves time: a consumer that is assigned before it knows the leaders looks for them half a second later.
        """
        return sorted(self._consumer.list_topics(self._topic, timeout=PATIENCE).topics[self._topic].partitions)

    def to_end(self, timeout: float = PATIENCE) -> Records:
        """Read every partition up to its end as it is now: with read_committed, the last stable offset."""
        deadline = time.monotonic() + timeout
        missing = set(self.records)
        self._assign(missing)
        while missing:
            for message in self._consumer.consume(10_000, 0.05):
                error = message.error()
                if error is None:
                    self._add(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    missing.discard(message.partition())
                    self._next[message.partition()] = message.offset()
                elif error.code() in UNKNOWN and "Unknown topic" in error.str():
                    self._assign(missing)  # a topic that is new: its leader has not heard of it yet
                elif not error.retriable() and error.code() != KafkaError._TRANSPORT:
                    raise KafkaException(error)
            if time.monotonic() > deadline:
                raise TooLate(f"no end of {self._topic} {sorted(missing)} within {timeout:g} s")
        self._consumer.unassign()
        return self.records

    def _assign(self, numbers: Collection[int]) -> None:
        """Assign partitions anew, so that each tells its end once more."""
        self._consumer.assign([TopicPartition(self._topic, number, self._next[number]) for number in numbers])

    def _add(self, message: Message) -> None:
        found = record(message)
        known = self.records[message.partition()]
        assert not known or known[-1].offset < found.offset, f"{self._topic} gives offset {found.offset} again"
        known.append(found)
        self._next[message.partition()] = found.offset + 1

    def close(self) -> None:
        """End the consumer."""
        self._consumer.close()


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> Records:
    """All records of a topic, by partition, up to its end as it is now."""
    with contextlib.closing(Reader(bootstrap, topic, isolation)) as reader:
        return reader.to_end()


def assert_same(source: str, target: str, topic: str, remote_topic: str) -> Records:
    """Partition by partition, the same records in the same order; returns the source's."""
    records = read(source, topic)
    compare(records, read(target, remote_topic))
    return records


def await_same(source: str, target: str, topic: str, remote_topic: str, timeout: float = PATIENCE) -> Records:
    """Wait until the target has as many records as the source has now, then compare; returns the source's."""
    deadline = time.monotonic() + timeout
    records = read(source, topic)
    until(f"{remote_topic} exists", lambda: topics.partitions(target, remote_topic) >= len(records), timeout)
    with contextlib.closing(Reader(target, remote_topic)) as reader:

        def complete() -> bool:
            copied = reader.to_end()
            return all(len(copied[number]) >= len(expected) for number, expected in records.items())

        # When it is late, the comparison says what is missing.
        with contextlib.suppress(TooLate):
            until("as many on the target", complete, max(0.0, deadline - time.monotonic()))
        compare(records, reader.records)
    return records


def compare(source: Records, target: Records) -> None:
    """Raise AssertionError with all that is wrong, if anything is."""
    wrong = [] if source.keys() == target.keys() else [f"partitions: {sorted(source)} became {sorted(target)}"]
    for number in sorted(source.keys() & target.keys()):
        wrong += _differences(number, source[number], target[number])
    assert not wrong, "\n".join(wrong)


def _differences(number: int, source: Sequence[Record], target: Sequence[Record]) -> list[str]:
    wanted, found = [record.content for record in source], [record.content for record in target]
    if wanted == found:
        return []
    missing, extra = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    known = set(wanted)
    duplicated = sum(count for content, count in extra.items() if content in known)
    foreign = sum(extra.values()) - duplicated
    where = next(
        (i for i, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b), min(map(len, (wanted, found)))
    )
    counts = f"{sum(missing.values())} lost, {duplicated} duplicated, {foreign} not from the source"
    if not missing and not extra:
        counts = f"reordered ({sum(a != b for a, b in zip(wanted, found, strict=True))} out of place)"
    return [
        f"partition {number}: {len(source)} on the source, {len(target)} on the target: {counts}; first difference:",
        f"  source {_shown(source, where)}",
        f"  target {_shown(target, where)}",
    ]


def _shown(records: Sequence[Record], index: int) -> str:
    return f"{records[index]!r:.300}" if index < len(records) else "has ended"


# Positions and transactions.


def committed_position(bootstrap: str, group: str, remote_topic: str, partition: int) -> int | None:
    """The position that a group holds on the target, once no transaction is pending on it; None: none."""
    # Not an admin client: in librdkafka 2.16.1 its request for offsets crashes or hangs once the coordinator has moved.
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed", "log_level": 0}
    )

    def fetch() -> tuple[int] | None:
        with contextlib.suppress(KafkaException):
            (found,) = consumer.committed([TopicPartition(remote_topic, partition)], 10)
            return None if found.error else (found.offset,)
        return None

    found = until(f"a stable position of {remote_topic}-{partition}", fetch)
    consumer.close()
    return None if not found or found[0] < 0 else found[0]


def next_values(bootstrap: str, topic: str, group: str) -> list[bytes]:
    """What a consumer of the group reads, from its committed offset to the end."""
    config = {"bootstrap.servers": bootstrap, "group.id": group, "enable.partition.eof": True, "log_level": 0}
    config |= {"enable.auto.commit": False, "auto.offset.reset": "error"}
    with contextlib.closing(Consumer(config)) as consumer:
        (at,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE)
        consumer.assign([at])
        found: list[bytes] = []
        while (message := consumer.poll(PATIENCE)) is not None and message.error() is None:
            found.append(message.value() or b"")
        return found


def assert_positions(source: str, target: str, topic: str, remote_topic: str, group: str) -> None:
    """Check of an idle flow that positions are after the last record, and not after the source's last stable offset."""
    stable = ends(source, topic, IsolationLevel.READ_COMMITTED)
    for number, records in read(source, topic).items():
        position = committed_position(target, group, remote_topic, number)
        if records:
            assert position is not None, f"{remote_topic}-{number} has no position"
            assert records[-1].offset < position <= stable[number], (
                f"{remote_topic}-{number}: position {position}, but the source's last record is at "
                f"{records[-1].offset} and its last stable offset {stable[number]}"
            )


def ends(bootstrap: str, topic: str, isolation: IsolationLevel) -> dict[int, int]:
    """The end of each partition: the last stable offset with READ_COMMITTED, else the high watermark."""

    def given() -> dict[int, int] | None:
        numbers = range(topics.partitions(bootstrap, topic))  # the broker that was asked may not know it yet
        asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in numbers}
        futures = topics.admin(bootstrap).list_offsets(asked, isolation_level=isolation, request_timeout=PATIENCE)
        with contextlib.suppress(KafkaException):  # a leader is away, or moves
            found = {tp.partition: future.result().offset for tp, future in futures.items()}
            return found if all(offset >= 0 for offset in found.values()) else None
        return None

    return until(f"ends of {topic}", given)


def hanging(bootstrap: str, topic: str) -> dict[int, int]:
    """Partitions with an open transaction, and how many offsets it holds back. For topics nobody writes to now."""
    stable = ends(bootstrap, topic, IsolationLevel.READ_COMMITTED)
    high = ends(bootstrap, topic, IsolationLevel.READ_UNCOMMITTED)
    return {number: high[number] - stable[number] for number in high if high[number] != stable[number]}


def count(records: Mapping[int, Sequence[Record]], condition: Callable[[Record], bool] = lambda _: True) -> int:
    """Records of all partitions that meet a condition."""
    return sum(condition(record) for each in records.values() for record in each)
