"""What is read of the offset map's topic: nothing twice without need, all of it where it was cut, and why it fails."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import ClusterAway, PartitionError
from mirror.groups import offset_map_reader
from mirror.groups.map_cleaner import EntryKeys
from mirror.groups.offset_map_reader import OffsetMapReader
from mirror.model import MapEnd, Partition
from mirror.target.offset_map import Copied, Entry, key
from tests.unit.test_naming import flow

PARTITIONS = [Partition("orders", number) for number in range(4)]
FIRST, SECOND, THIRD, _ = PARTITIONS
Record = tuple[bytes, bytes | None]


def copied(partition: Partition) -> Copied:
    return Copied(*partition, "id", "remote")


def record(partition: Partition, downstream: int, follows: MapEnd | None = MapEnd()) -> Record:  # noqa: B008  # frozen
    return key(copied(partition), downstream), Entry(0, downstream, (1,), follows).value()


def removal(partition: Partition, downstream: int) -> Record:
    return key(copied(partition), downstream), None


class Keys(EntryKeys):
    """Counts how many entries it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.added = 0

    def add(self, entry: Entry) -> None:
        self.added += 1
        super().add(entry)


@dataclass
class Topic:
    """The map's topic, its broker and a consumer of it."""

    records: list[Record | None] = field(default_factory=list)  # by offset; None: a marker, or compacted away
    errors: list[int] = field(default_factory=list)  # that the consumer gets before anything else
    at: int | None = None
    told_end: int | None = None  # where the consumer was told that the topic ends
    assigned: list[int] = field(default_factory=list)
    ends: Callable[[], int] | None = None
    now: float = 0.0
    fails_at: int | None = None  # from this offset on, nothing comes

    def ids_now(self, names: Collection[str]) -> tuple[dict[str, str], dict[str, Any]]:
        return dict.fromkeys(names, "id"), {}

    def end(self, *_: object) -> int:
        return self.ends() if self.ends else len(self.records)

    def assign(self, places: list[TopicPartition]) -> None:
        self.at, self.told_end = places[0].offset, None
        self.assigned.append(self.at)

    def unassign(self) -> None:
        self.at = None

    def close(self) -> None: ...

    def monotonic(self) -> float:
        return self.now

    def consume(self, count: int, seconds: float) -> list[Any]:
        self.now += 1.0
        if self.errors:
            return [message(None, KafkaError(self.errors.pop(0)))]
        assert self.at is not None
        if self.at > len(self.records):  # it was cut: librdkafka goes to where the two logs differ
            self.at = len(self.records) - 1
        for offset in range(self.at, len(self.records)):
            if offset == self.fails_at:
                return []
            self.at = offset + 1
            if (found := self.records[offset]) is not None:
                return [message(offset, None, *found)]
        if self.told_end == self.at:
            return []
        self.told_end = self.at
        return [message(self.at, KafkaError(KafkaError._PARTITION_EOF))]


def message(offset: int | None, error: KafkaError | None, *found: bytes | None) -> Any:
    name, value = found or (None, None)
    return SimpleNamespace(error=lambda: error, offset=lambda: offset, key=lambda: name, value=lambda: value)


def reader(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> OffsetMapReader[Keys]:
    monkeypatch.setattr(offset_map_reader, "ClusterAdmin", lambda _: topic)
    monkeypatch.setattr(offset_map_reader, "internal_consumer", lambda *_: topic)
    monkeypatch.setattr(offset_map_reader, "end_of", topic.end)
    monkeypatch.setattr(offset_map_reader, "time", topic)
    return OffsetMapReader(flow(), Keys)


def kept(read: OffsetMapReader[Keys]) -> dict[Copied, list[int]]:
    return {each: found for each, some in read.maps.items() if (found := some.all())}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("entry"), st.integers(0, 3), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("removal"), st.integers(0, 3), st.integers(0, 9)),
        st.tuples(st.just("read"), st.sets(st.integers(0, 3), min_size=1)),
        st.tuples(st.just("fails"), st.integers(0, 20)),
        st.tuples(st.just("marker")),
    ),
    max_size=30,
)


@given(STEPS)
def test_whoever_wants_more_partitions_later_has_what_they_have_who_wanted_them_at_once(steps: list[Any]) -> None:
    topic, wanted = Topic(), set[Partition]()
    with pytest.MonkeyPatch.context() as patched:
        late = reader(topic, patched)
        for what, *more in steps:
            if what == "entry":
                number, downstream, follows = more
                topic.records.append(record(PARTITIONS[number], downstream, MapEnd() if follows else None))
            elif what == "removal":
                topic.records.append(removal(PARTITIONS[more[0]], more[1]))
            elif what == "marker":
                topic.records.append(None)
            elif what == "fails":
                topic.fails_at = more[0]
            else:
                wanted |= {PARTITIONS[number] for number in more[0]}
                try:
                    late.read(wanted)
                except ClusterAway:
                    topic.fails_at = None
        topic.fails_at = None
        late.read(wanted)
        at_once = reader(topic, patched)
        at_once.read(wanted)
    assert kept(late) == kept(at_once)


def test_what_is_kept_is_not_kept_again_for_the_sake_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group begins to read a partition that no other one reads. The map may have millions of entries."""
    topic = Topic([record(each, 10) for each in PARTITIONS])
    read = reader(topic, monkeypatch)
    read.read([FIRST, SECOND])
    before = read.maps[copied(FIRST)]
    topic.records += [record(each, 20) for each in PARTITIONS]
    read.read([FIRST, SECOND, THIRD])
    assert read.maps[copied(FIRST)] is before and before.added == 2
    assert kept(read) == {copied(each): [10, 20] for each in (FIRST, SECOND, THIRD)}
    read.read([FIRST, SECOND, THIRD])
    assert topic.assigned == [0, 0], "there is nothing new"


def test_no_entry_is_added_twice_after_a_reading_has_failed_half_way(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic([record(each, at) for at in (10, 20) for each in PARTITIONS])
    read = reader(topic, monkeypatch)
    read.read([FIRST])
    topic.fails_at = 3
    with pytest.raises(ClusterAway):
        read.read([FIRST, SECOND])
    topic.fails_at = None
    read.read([FIRST, SECOND, THIRD])
    assert kept(read) == {copied(each): [10, 20] for each in (FIRST, SECOND, THIRD)}
    assert [each.added for each in read.maps.values()] == [2, 2, 2]


def test_a_topic_that_was_cut_is_read_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an unclean election. What was cut off would be believed otherwise."""
    topic = Topic([record(FIRST, 10), record(FIRST, 20), record(FIRST, 30)])
    read = reader(topic, monkeypatch)
    for wanted in ([FIRST], [FIRST, SECOND]):
        read.read(wanted)
        assert kept(read) == {copied(FIRST): [10, 20, 30]}
        topic.records.pop()
        read.read(wanted)
        assert kept(read) == {copied(FIRST): [10, 20]}
        topic.records.append(record(FIRST, 30))


def test_so_is_one_that_is_cut_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic([record(FIRST, 10), record(FIRST, 20), record(FIRST, 30)])
    read = reader(topic, monkeypatch)
    read.read([FIRST])
    topic.records[1:] = [record(FIRST, 25)]
    topic.ends = lambda: 4  # the leader before the election has said so
    with pytest.raises(ClusterAway):
        read.read([FIRST])
    topic.ends = None
    read.read([FIRST])
    assert kept(read) == {copied(FIRST): [10, 25]}


def test_a_refusal_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic([record(FIRST, 10)], [KafkaError.TOPIC_AUTHORIZATION_FAILED])
    with pytest.raises(PartitionError, match=r"^mirror-offset-map\.primary\.internal can't be read: .*uthorization"):
        reader(topic, monkeypatch).read([FIRST])


def test_the_last_error_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic([record(FIRST, 10)], [KafkaError.NOT_LEADER_FOR_PARTITION], fails_at=0)
    with pytest.raises(ClusterAway, match=f"to its end: {KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION).str()}"):
        reader(topic, monkeypatch).read([FIRST])
    topic.errors = []
    with pytest.raises(ClusterAway, match="to its end: no answer in time"):
        reader(topic, monkeypatch).read([FIRST])
