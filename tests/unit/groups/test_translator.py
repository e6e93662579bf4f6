"""A translation waits for open transactions, but not for ever, and is told only as far as it is certain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mirror.errors import PartitionError
from mirror.groups import seen
from mirror.groups import translator as module
from mirror.groups.partition_map import PartitionMap
from mirror.groups.seen import RECREATED, REMOTE_RECREATED
from mirror.groups.translation import Count, Unknown
from mirror.groups.translator import CUT_OFF, NEVER_COPIED, PATIENCE, PATIENCE_IN_ALL, Translator
from mirror.model import MapEnd, Partition, Position
from mirror.target.offset_map import Copied, Entry
from mirror.target.timestamps import CLEANUP
from tests.unit.test_naming import flow

# Upstream 0 to 9 are at 0 to 9 and have an entry. A marker follows, then 10 to 13 and a marker, and 14 in the tail.
ENTRY = Entry(0, 0, (10,), MapEnd())
TAIL = Position(15, "id", remote_id="remote", map_end=MapEnd(0, 5, 4, 15))
PLACED = replace(TAIL, offset=17, map_end=MapEnd(0, 7, 5, 17))  # two more are copied
RECORDS = (11, 12, 13, 14, 16)


@dataclass
class World:
    """Remote partitions that are alike. It is all that a Translator asks: cluster, positions, map and counter."""

    positions: list[Position | None]  # now and later: each look at them but the last takes one away
    open: bool = True  # a transaction is open, so the last records can't be counted
    stable: int = 17  # records before it can be counted
    ends: float = 1e9  # when the open transaction ends
    log_start: int = 0
    log_end: int = 17  # the last stable offset
    high: int = 18
    now: float = 0.0
    counts: list[Count] = field(default_factory=list)
    looks: int = 0
    loaded: Position | None = None  # if it is another one: the position's own partition may lag behind the records
    maps: dict[Copied, PartitionMap] = field(default_factory=dict)
    refused: Collection[Partition] = ()  # the target does not give their positions
    held: Collection[Partition] = ()  # a transaction holds their positions
    ids: tuple[str, str] = "id", "remote"  # of the source's topic and of the remote one

    def translator(self, monkeypatch: pytest.MonkeyPatch) -> Translator:
        for name in (
            "RemoteNames",
            "OffsetMapReader",
            "PositionReader",
            "RecordCounter",
            "CopyCounter",
            "LoadedPositions",
        ):
            monkeypatch.setattr(module, name, lambda *_: self)
        monkeypatch.setattr(module, "time", self)
        sides = iter((0, 1))
        monkeypatch.setattr(module, "ClusterAdmin", lambda *_: Side(self, next(sides)))
        made = Translator(flow())
        made.refresh(PARTITIONS)
        self.looks = 0
        return made

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.open = self.open and self.now < self.ends

    def refresh(self) -> None: ...

    def forget(self) -> None: ...

    def of(self, topic: str) -> str:
        return topic

    def read(self, partitions: Iterable[Partition]) -> None:
        for each in partitions:
            read = self.maps.setdefault(Copied(*each, "id", "remote"), PartitionMap())
            read.add(ENTRY)

    def hints(
        self, remotes: Iterable[Partition], refused: set[Partition] | None = None
    ) -> Mapping[Partition, Position | None]:
        self.looks += 1
        self.now += 0.01
        now = self.positions.pop(0) if len(self.positions) > 1 else self.positions[0]
        assert not self.refused or refused is not None, "otherwise that is an error"
        return {each: now for each in remotes if each not in self.refused}

    def load(self, remotes: Iterable[Partition]) -> Mapping[Partition, Position | None]:
        return {each: self.loaded or self.positions[0] for each in remotes if each not in self.held}

    def disconnect(self) -> None: ...

    def end(self, *_: object) -> int:
        return self.high

    def bounds(self, *_: object) -> tuple[int, int]:
        return self.log_start, self.high

    def offsets(self, asked: Mapping[Partition, Any]) -> Mapping[Partition, int]:
        return {each: self.log_start if spec is EARLIEST else self.log_end for each, spec in asked.items()}

    def topic_configs(self, names: Iterable[str], own: bool) -> Any:
        assert not own
        return {name: {CLEANUP: "delete"} for name in names}, {}

    def count(self, _: Partition, __: Position, count: Count) -> Any:
        self.counts.append(count)
        self.now += 0.1
        if self.open and (count.end is None or count.end > self.stable):
            return None
        return [at for at in RECORDS if count.begin <= at and (count.end is None or at < count.end)], self.log_start


@dataclass
class Side:
    """One of the clusters: the source, or the target."""

    world: World
    number: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def ids_now(self, names: Iterable[str]) -> Any:
        return dict.fromkeys(names, self.world.ids[self.number]), {}


EARLIEST = object()
PARTITIONS = [Partition("orders", number) for number in range(100)]
HERE = PARTITIONS[0]


@pytest.fixture(autouse=True)
def specs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Specs:
        earliest, latest = (lambda: EARLIEST), (lambda: None)

    monkeypatch.setattr(seen, "OffsetSpec", Specs)


def test_open_transactions_in_many_partitions_take_a_few_seconds_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([TAIL])
    translator = world.translator(monkeypatch)
    began = world.now
    assert "transaction is open" in translator.to_downstream(HERE, 14).reason
    assert PATIENCE <= world.now - began < PATIENCE + 0.5
    for each in PARTITIONS:
        assert translator.to_downstream(each, 14).translated is None
    assert world.now - began < PATIENCE_IN_ALL + 0.5 + len(PARTITIONS) * 0.12, "each is counted and looked at once"


def test_for_the_next_group_nothing_is_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([TAIL])
    translator = world.translator(monkeypatch)
    translator.to_downstream(HERE, 14)
    counted, looked = len(world.counts), world.looks
    for _ in range(3):
        assert "transaction is open" in translator.to_downstream(HERE, 14).reason
    assert (len(world.counts), world.looks) == (counted, looked + 3)
    assert translator.to_downstream(HERE, 12).translated == 13, "what is placed can be counted nevertheless"
    translator.refresh(PARTITIONS)
    assert translator.to_downstream(HERE, 14).translated is None and len(world.counts) > counted + 2


def test_the_next_group_gets_what_was_copied_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([TAIL])
    translator = world.translator(monkeypatch)
    assert translator.to_downstream(HERE, 14).translated is None
    world.positions = [PLACED]
    assert translator.to_downstream(HERE, 14).translated == 16


def test_without_any_patience_left_one_more_look_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([TAIL])
    translator = world.translator(monkeypatch)
    for each in PARTITIONS[1:]:
        translator.to_downstream(each, 14)
    world.positions = [PLACED]
    assert translator.to_downstream(HERE, 14).translated == 16


BEFORE = replace(TAIL, offset=14, map_end=MapEnd(0, 4, 4, 15))
AFTER = replace(TAIL, map_end=MapEnd(0, 5, 5, 17))


def test_after_the_last_copy_the_position_is_the_answer_only_while_nothing_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translator = World([BEFORE]).translator(monkeypatch)
    assert translator.to_upstream(HERE, 15).translated == translator.to_upstream(HERE, 17).translated == 14
    translator = World([BEFORE, AFTER]).translator(monkeypatch)
    assert translator.to_upstream(HERE, 17).translated == 15
    translator = World([BEFORE, AFTER]).translator(monkeypatch)
    assert translator.to_upstream(HERE, 15).translated == 14


def test_a_record_may_be_seen_before_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([BEFORE], loaded=AFTER)
    found = world.translator(monkeypatch).to_upstream(HERE, 17)
    assert (found.translated, found.reason) == (None, Unknown.MOVED.value)


def test_a_partition_that_a_transaction_holds_or_that_is_refused_says_nothing_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World([AFTER])
    translator = world.translator(monkeypatch)
    assert translator.unmoved(PARTITIONS) == set(PARTITIONS)
    world.held, world.refused = PARTITIONS[:2], PARTITIONS[2:4]
    assert translator.unmoved(PARTITIONS) == set(PARTITIONS[4:])
    translator.refresh(PARTITIONS)
    assert translator.unmoved(PARTITIONS) == set(PARTITIONS[4:]), "without a position nothing is known, either"


@pytest.mark.parametrize(
    ("upstream", "high", "counts", "translated"),
    [
        (12, 14, 0, None),  # both ends of what has to be counted are known, and the second one is gone
        (14, 14, 0, None),  # here the first one is
        (14, 17, 1, 16),  # only the last stable offset is before it
        (12, 17, 1, 13),
    ],
)
def test_records_that_were_cut_off_are_not_counted(
    monkeypatch: pytest.MonkeyPatch, upstream: int, high: int, counts: int, translated: int | None
) -> None:
    """A consumer that begins after the end of the log reads it from its beginning, and gets no answer for long."""
    world = World([TAIL], open=False, log_end=10, high=high)
    found = world.translator(monkeypatch).to_downstream(HERE, upstream)
    assert (len(world.counts), found.reason) == (counts, "" if counts else CUT_OFF)
    assert found.translated == translated


@pytest.mark.parametrize(
    ("log_end", "high", "translated", "reason"),
    [
        (17, 17, 17, ""),
        (11, 18, 17, ""),  # a transaction is open there
        (11, 17, 17, ""),
        (11, 16, None, CUT_OFF),
        (16, 16, None, CUT_OFF),
    ],
)
def test_no_offset_is_after_the_end_of_the_remote_log(
    monkeypatch: pytest.MonkeyPatch, log_end: int, high: int, translated: int | None, reason: str
) -> None:
    """An unclean election cuts off records, and the position still says where they are."""
    found = World([AFTER], log_end=log_end, high=high).translator(monkeypatch).to_downstream(HERE, 15)
    assert (found.translated, found.reason) == (translated, reason)


def test_without_the_end_of_the_remote_log_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([AFTER], log_end=11)
    monkeypatch.setattr(World, "end", refused)
    found = world.translator(monkeypatch).to_downstream(HERE, 15)
    assert (found.translated, found.reason) == (None, "not known now: no leader")


def refused(*_: object) -> int:
    raise PartitionError("no leader")


@pytest.mark.parametrize("upstream", [12, 14])
def test_the_end_of_a_short_transaction_is_waited_for(monkeypatch: pytest.MonkeyPatch, upstream: int) -> None:
    """Whether or not it is known where the records end that have to be counted."""
    world = World([TAIL], stable=11, ends=1.0)
    assert world.translator(monkeypatch).to_downstream(HERE, upstream).translated == {12: 13, 14: 16}[upstream]
    assert 1.0 <= world.now < PATIENCE


EMPTY: dict[str, Any] = {"log_start": 20, "log_end": 20, "high": 20}  # retention has deleted all records, and a marker
COUNTED = replace(PLACED, map_end=MapEnd(0, 7))  # nothing is placed: an older mirror wrote the position
NOT_COPIED = Unknown.NOT_COPIED.value
BEFORE_THE_MAP = Unknown.BEFORE_THE_MAP.value
CUT = Unknown.CUT.value


@pytest.mark.parametrize(
    ("position", "upstream", "translated", "reason"),
    [
        (PLACED, 17, 20, ""),
        (COUNTED, 17, 20, ""),
        (replace(PLACED, map_end=None), 17, 20, ""),  # an even older one
        # The group has not read all, and what it has not read is no longer there.
        (PLACED, 16, None, CUT),
        (PLACED, 9, None, BEFORE_THE_MAP),
        (PLACED, 18, None, NOT_COPIED),
    ],
)
def test_who_has_read_all_goes_on_at_the_end_of_an_empty_log(
    monkeypatch: pytest.MonkeyPatch, position: Position, upstream: int, translated: int | None, reason: str
) -> None:
    """What is copied next is there. The offset before it is out of the log's range, so consumers might pass over it."""
    found = World([position], open=False, **EMPTY).translator(monkeypatch).to_downstream(HERE, upstream)
    assert (found.translated, found.reason) == (translated, reason)


@pytest.mark.parametrize("position", [PLACED, COUNTED])
def test_what_is_copied_after_the_refresh_is_not_taken_for_an_empty_log(
    monkeypatch: pytest.MonkeyPatch, position: Position
) -> None:
    """A transaction's position may be known before its marker has come. Its copies were read, so they are no end."""
    world = World([position], open=False, **EMPTY)
    translator = world.translator(monkeypatch)
    world.high = 26
    assert translator.to_downstream(HERE, 17).translated is None
    translator.refresh(PARTITIONS)
    world.high = 20
    assert translator.to_downstream(HERE, 17).translated == 20


def test_without_the_bounds_of_an_empty_log_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([PLACED], open=False, **EMPTY)
    monkeypatch.setattr(World, "bounds", refused)
    found = world.translator(monkeypatch).to_downstream(HERE, 17)
    assert (found.translated, found.reason) == (None, "not known now: no leader")


def test_a_log_that_an_open_transaction_hides_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies may follow the transaction's records, which a group has read."""
    translator = World([COUNTED], log_start=11, log_end=11, high=18).translator(monkeypatch)
    assert "transaction is open" in translator.to_downstream(HERE, 17).reason


NOTHING = Position(1000, "id", remote_id="remote", map_end=MapEnd())
NEW: dict[str, Any] = {"log_end": 0, "high": 9}  # the transaction of the first copies is open


@pytest.mark.parametrize(
    ("position", "upstream", "translated", "reason"),
    [
        # With `start: latest` or a time: the next record will be the first one.
        (NOTHING, 1000, 0, ""),
        (NOTHING, 1001, None, NOT_COPIED),
        (NOTHING, 999, None, BEFORE_THE_MAP),  # it is not copied
        # A source that had no record.
        (None, 0, 0, ""),
        # A remote topic that had copies may have been deleted, and the position with it.
        (None, 1000, None, NEVER_COPIED),
    ],
)
def test_before_the_first_copy_groups_go_on_at_the_beginning(
    monkeypatch: pytest.MonkeyPatch, position: Position | None, upstream: int, translated: int | None, reason: str
) -> None:
    """So does who is ahead of the copy, where it is known how far that goes."""
    monkeypatch.setattr(World, "read", lambda *_: None)
    translator = World([position], **NEW).translator(monkeypatch)
    found = translator.to_downstream(HERE, upstream)
    assert (found.translated, found.reason) == (translated, reason)
    assert translator.end(HERE).translated == 0


@pytest.mark.parametrize("end", [17, 0])
@pytest.mark.parametrize(
    ("ids", "reason"),
    [(("another", "remote"), RECREATED), (("id", "another"), REMOTE_RECREATED), (("another", "another"), RECREATED)],
)
def test_of_a_topic_that_was_created_again_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, ids: tuple[str, str], reason: str, end: int
) -> None:
    """Others may have written to the new remote topic. Then the old offset would lead past their records."""
    translator = World([AFTER], ids=ids, log_end=end).translator(monkeypatch)
    for upstream in (5, 15, 16):
        found = translator.to_downstream(HERE, upstream)
        assert (found.translated, found.reason) == (None, reason)
    assert translator.to_upstream(HERE, 5).reason == reason
    assert translator.remote_id(HERE) == "", "another partition may be copied to the new topic already"


def test_a_remote_topic_that_is_created_again_while_its_bounds_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds may be the new topic's, and others may write to it."""
    world = World([AFTER])
    offsets = World.offsets

    def then_created_again(self: World, asked: Mapping[Partition, Any]) -> Mapping[Partition, int]:
        self.ids = ("id", "another")
        return offsets(self, asked)

    monkeypatch.setattr(World, "offsets", then_created_again)
    found = world.translator(monkeypatch).to_downstream(HERE, 15)
    assert (found.translated, found.reason) == (None, REMOTE_RECREATED)
