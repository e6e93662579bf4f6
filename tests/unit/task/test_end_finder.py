"""The end of a copy is found exactly or not at all, whatever is known of it: on a source and a target in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import OffsetSpec
from hypothesis import given
from hypothesis import strategies as st

from mirror.batches.records import Content, encode
from mirror.errors import ClusterAway, MirrorError, PartitionError, PositionUnstable, TransformUnusable
from mirror.kafka.provenance import NAME
from mirror.model import MapEnd, Partition, Position, Topic
from mirror.records.consumed import Record
from mirror.records.undecided import Undecided
from mirror.settings import Flow
from mirror.target import offset_map
from mirror.target.offset_map import Copied
from mirror.task import end_finder
from mirror.task.end_finder import EndFinder
from mirror.task.last_entries import LastEntry, _Newest
from tests.unit.groups.test_translation import OTHERS, Target, sources, steps
from tests.unit.test_naming import flow

HERE = Partition("t", 0)
TOPIC = Topic("primary.t", "id", 1, 1, "remote-id")
COPIED = Copied("t", 0, "id", "remote-id")
SHOP = "tests.transforms.shop_transforms"
PLAIN = flow()


@dataclass
class World:
    """A source and a target; what a finder asks of its task."""

    source: list[Record]
    target: list[Record]
    last: LastEntry | None = None
    end: int = 0  # of the remote partition
    flow: Flow = PLAIN
    topic: Topic = TOPIC
    source_start: int = 0
    source_end: int = 0
    remote_start: int = 0
    calls: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)  # the aliases of clusters that records were read from
    clusters = ("id-a", "id-b")
    by_others: bool = False

    def find(self, known: Position | None) -> Position | Undecided:
        services: Any = SimpleNamespace(flow=self.flow, positions=self, source=self, last_entries=self, plan=self)
        progressed = partial(self.calls.append, "progressed")
        return EndFinder(services, HERE, self.topic, progressed, self.by_others).find(known, self.end)

    def await_no_open_transaction(self, *where: object) -> int:
        self.calls.append(f"settled {where}")
        return 0

    def of(self, _: Flow, copied: Copied, progressed: Callable[[], None]) -> LastEntry | None:
        assert self.calls[0] == "settled ('mirror-offset-map.primary.internal', 0)", "the map may end too early"
        progressed()
        return self.last if copied == COPIED else None

    def bounds(self, *_: object) -> tuple[int, int]:
        return self.remote_start, self.end

    def offsets(self, asked: Mapping[Partition, Any], stable: bool = True) -> dict[Partition, int]:
        earliest = isinstance(asked[HERE], type(OffsetSpec.earliest()))
        assert stable is not earliest, "what is not committed on the source is not copied"
        return {HERE: self.source_start if earliest else self.source_end}

    def consumed(self, _: object, alias: str, partition: Partition, start: int, stop: int) -> Iterable[Record]:
        self.read.add(alias)
        records, first = (self.source, self.source_start) if partition == HERE else (self.target, self.remote_start)
        assert first <= start, "the log begins later"
        for record in records:
            if start <= record[0] < stop:
                yield record


@pytest.fixture(autouse=True)
def reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records come from the world, whose method is given in place of a consumer."""
    monkeypatch.setattr(end_finder, "close_apart", lambda _: None)
    monkeypatch.setattr(end_finder, "internal_consumer", lambda *_, **__: None)


def find(world: World, known: Position | None) -> Position | Undecided:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(end_finder, "consumed", world.consumed)
        return world.find(known)


def record(offset: int, value: int, *headers: tuple[bytes, bytes]) -> Record:
    return offset, 1_000 + value, encode(Content(b"key", b"%d" % value, headers))


@dataclass
class Played:
    """What was copied so far: the newest position, and each that was committed before."""

    target: Target
    source: list[int]  # upstream offsets
    kinds: int  # so many different records there are
    snapshots: list[Position] = field(default_factory=list)
    copied: tuple[int, int] = (0, 0)  # resets, and the offset after the last record that was copied

    def keep(self) -> None:
        at = self.target
        self.snapshots.append(Position(at.position, "id", remote_id="remote-id", resets=at.resets, map_end=at.map_end))

    def world(self) -> World:
        newest = _Newest()
        for key, value in self.target.stored.items():
            newest.add(offset_map.decode_value(offset_map.decode_key(key)[1], value))
        log = enumerate(self.target.log)
        there = [record(at, -1 if up == OTHERS else up % self.kinds) for at, up in log if up is not None]
        here = [record(up, up % self.kinds) for up in self.source]
        end = self.source[-1] + 2
        return World(here, there, newest.entry, len(self.target.log), source_end=end)


@st.composite
def played(draw: st.DrawFn) -> Played:
    """A source with runs and gaps, copied in transactions, with aborts, restarts, and positions that go back."""
    target = Target(draw(st.sampled_from([1, 7, 1000])), COPIED, tells=draw(st.sampled_from(["", "before", "all"])))
    found = Played(target, sources(draw), draw(st.sampled_from([1, 2, 1000])))
    found.keep()
    for copied in steps(draw, target, found.source, 0):
        if copied:
            found.copied = target.resets, target.position
        found.keep()
    return found


def check(found: Position, known: Position | None, played: Played, start: int = 0) -> None:
    """Nothing comes twice, and nothing is left out that the source has, from `start` on."""
    if known is not None and known.resets > played.copied[0]:
        assert found == known, "somebody has moved it since"
        return
    assert found.progress >= played.copied, "records would come twice"
    missing = [up for up in played.source if max(start, played.copied[1]) <= up < found.offset]
    assert not missing or found == known, "records would be left out"


def test_if_copies_have_gaps_the_position_does_not_say_where_to_count_from() -> None:
    """MirrorMaker has copied them after the last entry, without entries of its own."""
    gaps = [record(up, up) for up in (100, 101, 104)]
    there = [(at, *gap[1:]) for at, gap in enumerate(gaps, 60)]
    last = LastEntry(100, 50, 60, 0)
    found = find(World(gaps, there, last, 63, source_end=110), None)
    assert isinstance(found, Position) and (found.offset, found.map_end) == (105, None)
    whole = find(World(gaps[:2], there[:2], last, 62, source_end=110), None)
    assert isinstance(whole, Position) and (whole.offset, whole.map_end) == (102, MapEnd(50, 2))


@pytest.mark.parametrize("by_others", [True, False])
def test_what_mirrormaker_has_copied_is_not_counted_if_the_source_has_lost_it(by_others: bool) -> None:
    """Of 30 records, with a gap after each, the source has lost the first 20 offsets, so 10 records."""
    there = [record(60 + number, number) for number in range(30)]
    left = [record(100 + 2 * number, number) for number in range(10, 30)]
    last = LastEntry(100, 50, 60, 0)
    world = World(left, there, last, 90, source_start=120, source_end=160, by_others=by_others)
    found = find(world, None)
    assert isinstance(found, Undecided)
    assert ("the source has lost" in found.reason) == by_others


@pytest.mark.parametrize("deposed", [True, False])
def test_an_old_end_of_the_source_is_not_believed_where_records_can_be_compared(deposed: bool) -> None:
    copied = [record(up, up) for up in range(100, 150)]
    there = [(each[0] - 40, *each[1:]) for each in copied]
    world = World(copied, there, LastEntry(100, 50, 60, 0), 110, source_end=100 if deposed else 150)
    found = find(world, Position(100, "id", remote_id="remote-id"))
    assert isinstance(found, Undecided) if deposed else isinstance(found, Position) and found.offset == 150


@given(played(), st.data())
def test_whatever_is_known_the_end_is_exact(played: Played, data: st.DataObject) -> None:
    """The task's own position, or one from a report, which does not say where the map ends; or none at all."""
    known = data.draw(st.sampled_from([None, *played.snapshots]))
    if known is not None and data.draw(st.booleans()):
        known = replace(known, map_end=None)
    found = find(played.world(), known)
    if isinstance(found, Position):
        check(found, known, played)
    else:
        assert not played.target.stored and "the offset map has nothing" in found.reason


@given(played(), st.data())
def test_logs_that_have_lost_their_beginning_leave_it_exact_or_undecided(played: Played, data: st.DataObject) -> None:
    known = data.draw(st.sampled_from([None, *played.snapshots]))
    world = played.world()
    world.source_start = data.draw(st.integers(0, played.source[-1] + 1))
    world.remote_start = data.draw(st.integers(0, world.end))
    found = find(world, known)
    if isinstance(found, Position):
        check(found, known, played, world.source_start)


@given(played(), st.data())
def test_a_record_of_somebody_else_is_never_taken_for_a_copy(played: Played, data: st.DataObject) -> None:
    """It is after the last entry. Then only an end that needs no comparison is found."""
    world = played.world()
    if world.last is None:
        return
    known = data.draw(st.sampled_from([None, *played.snapshots]))
    at = data.draw(st.integers(world.last.downstream_end, world.end))
    foreign = record(at, -5)
    moved = [(offset + (offset >= at), stamp, content) for offset, stamp, content in world.target]
    world.target, world.end = sorted([*moved, foreign]), world.end + 1
    found = find(world, known)
    if isinstance(found, Undecided):
        assert f"its record at offset {at} is not" in found.reason or f"a record at offset {at}" in found.reason
    else:
        assert found == known and world.source_end <= known.offset


ENTRY = LastEntry(3, 0, 3, 0)  # upstream 0 to 2 are at 0 to 2
KNOWN = Position(3, "id", remote_id="remote-id", map_end=MapEnd(0))


def made(**changes: Any) -> World:
    """Ten records of the source, of which six are copied. A marker follows each three of them."""
    there = [record(at, up) for up, at in enumerate([0, 1, 2, 4, 5, 6])]
    return replace(World([record(at, at) for at in range(10)], there, ENTRY, 8, source_end=10), **changes)


def test_what_nobody_has_reported_is_not_copied_again() -> None:
    assert find(made(), KNOWN) == Position(6, "id", remote_id="remote-id", map_end=MapEnd(0, 3))
    assert find(made(), None) == Position(6, "id", remote_id="remote-id", map_end=MapEnd(0, 3))
    epochs = replace(KNOWN, epoch=4, epoch_before_markers=2)
    found = find(made(), epochs)
    assert isinstance(found, Position) and (found.epoch, found.newest_epoch) == (-1, 4)


def test_if_nothing_is_to_be_compared_nothing_is_read() -> None:
    whole = replace(KNOWN, offset=6, map_end=MapEnd(0, 3))
    world = made()
    assert find(world, whole) == whole and not world.read
    world = made(end=4, target=made().target[:3])
    found = find(world, replace(KNOWN, map_end=None))
    assert isinstance(found, Position) and found.offset == 3 and world.read == {"backup"}, "not of the source"


def test_a_transform_is_applied_to_what_the_source_has() -> None:
    """What it drops leaves nothing on the target, and the next record says so."""
    changed = flow(transform=f"{SHOP}.thirds")
    by = (b"by", b"thirds")
    there = [(at, 1_000 + up, encode(Content(b"key", b"<%d>" % up, [by]))) for at, up in ((4, 3), (5, 5), (6, 6))]
    found = find(made(target=there, flow=changed), KNOWN)
    assert isinstance(found, Position) and found.offset == 7


def test_a_record_for_which_the_transform_fails_was_not_copied() -> None:
    changed, source = flow(transform=f"{SHOP}.thirds"), made().source
    source[5] = (5, 1_005, encode(Content(b"key", b"bad", ())))
    there = [
        (at, 1_000 + up, encode(Content(b"key", b"<%d>" % up, [(b"by", b"thirds")]))) for at, up in ((4, 3), (5, 6))
    ]
    found = find(made(target=there, flow=changed, source=source), KNOWN)
    assert isinstance(found, Position) and found.offset == 7


def test_a_transform_that_depends_on_more_than_the_record() -> None:
    found = find(made(flow=flow(transform=f"{SHOP}.different")), KNOWN)
    assert isinstance(found, Undecided) and "makes different things of the record at offset 3" in found.reason


def test_with_both_clusters_written_to_only_our_copies_count() -> None:
    """Programs write to the remote topic, and what came from the target is not copied back."""
    ours, back = (NAME.encode(), b"primary.t,0,id-a"), (NAME.encode(), b"t,0,id-b")
    there = [record(4, 77), record(5, 3, ours), record(6, 78), record(7, 5, ours), record(8, 79)]
    source = made().source
    source[4] = record(4, 4, back)
    world = made(target=there, source=source, end=10, flow=flow(active_active=True))
    found = find(world, KNOWN)
    assert found == Position(6, "id", remote_id="remote-id"), "where the map ends is not known"
    there.append(record(9, 80, ours))
    found = find(world, KNOWN)
    assert isinstance(found, Undecided) and "its record at offset 9 is not the copy" in found.reason


def test_a_former_topics_position_says_nothing_of_the_present_one() -> None:
    former = Position(70, "former", remote_id="remote-id", resets=3)
    found = find(made(), former)
    assert found == Position(6, "id", remote_id="remote-id", map_end=MapEnd(0, 3))
    assert find(made(last=None), former) == former, "nothing of the present one was copied"


def test_a_compacted_topic_has_an_entry_for_each_transaction() -> None:
    compacted = replace(TOPIC, compacted=True)
    found = find(made(topic=compacted, target=[], end=4), replace(KNOWN, map_end=None))
    assert found == replace(KNOWN, map_end=None)


AWAY = ClusterAway("backup", "timed out")


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("await_no_open_transaction", PositionUnstable("a transaction hangs on the map")),
        ("await_no_open_transaction", AWAY),
        ("of", AWAY),
        ("bounds", PartitionError("no end of primary.t-0")),
        ("offsets", AWAY),
        ("consumed", MirrorError("t-0 on backup can't be read: damaged")),
    ],
)
def test_what_can_t_be_read_leaves_the_choice_to_people(
    method: str, error: MirrorError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the partition would only be retried, and nobody could decide otherwise."""

    def fails(*_: object, **__: object) -> Any:
        raise error

    monkeypatch.setattr(World, method, fails)
    assert find(made(), KNOWN) == Undecided(str(error))


def test_nor_does_a_source_without_offsets_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "offsets", lambda *_, **__: {})
    assert find(made(), KNOWN) == Undecided("the source gives no offsets of the partition")


def test_a_defect_of_ours_is_no_reason_to_ask_people(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(World, "bounds", fails)
    with pytest.raises(ZeroDivisionError):
        find(made(), KNOWN)


def test_a_transform_that_can_t_be_used_stops_the_partition() -> None:
    with pytest.raises(TransformUnusable):
        find(made(flow=flow(transform="no_such_module.f")), KNOWN)


def test_a_long_comparison_shows_that_it_goes_on() -> None:
    world = made()
    find(world, KNOWN)
    assert world.calls.count("progressed") >= 6
