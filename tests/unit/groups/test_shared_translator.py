"""Groups of a topic to which programs write on both sides: their offset on the other side passes over nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer
from hypothesis import given
from hypothesis import strategies as st

from mirror.groups import shared_translator
from mirror.groups.group_choice import GroupOutcome, choose
from mirror.groups.partition_map import PartitionMap
from mirror.groups.seen import RECREATED, Seen
from mirror.groups.shared_translator import EARLIER, LAST_COPY, NO_WAY_BACK, SharedTranslator
from mirror.groups.translated import Translation
from mirror.groups.translation import End, Unknown, is_after_all, read_before, to_downstream
from mirror.model import MapEnd, Partition, Position
from mirror.target.offset_map import Entry, EntryChooser, end_after, entries_in_pieces
from tests.unit.test_naming import flow


@dataclass
class Way:
    """One flow: its map as a reader has it, and its position."""

    position: int = 0
    map_end: MapEnd | None = MapEnd()  # noqa: RUF009  # frozen
    entries: PartitionMap = field(default_factory=PartitionMap)
    chooser: EntryChooser = field(default_factory=lambda: EntryChooser(1))

    @property
    def end(self) -> End:
        return End(self.position, self.map_end)


class World:
    """A partition on both clusters; each record is a number, and stands on both sides once."""

    def __init__(self) -> None:
        self.logs: dict[str, list[int | None]] = {"a": [], "b": []}  # by offset; None: a marker
        self.own: dict[str, set[int]] = {"a": set(), "b": set()}
        self.ways = {"a": Way(), "b": Way()}  # by source
        self._next = 0

    def write(self, cluster: str) -> None:
        self._next += 1
        self.own[cluster].add(self._next)
        self.logs[cluster].append(self._next)

    def copy(self, source: str, most: int, between: int) -> None:
        """One transaction of at most so many records; others write after each `between`."""
        target, way, log = ("b" if source == "a" else "a"), self.ways[source], self.logs[source]
        batch = list(range(way.position, min(len(log), way.position + most)))
        offsets = [at for at in batch if log[at] in self.own[source]]
        placed: dict[int, int] = {}
        for index, at in enumerate(offsets):
            if between and index and index % between == 0:
                self.write(target)
            placed[index] = len(self.logs[target])
            self.logs[target].append(log[at])
        if offsets:
            self.logs[target].append(None)
            assert way.chooser.is_due(offsets, way.map_end)
            made = entries_in_pieces(offsets, placed, way.map_end, 0)
            for entry in made:
                way.entries.add(entry)
            way.map_end = end_after(made, len(offsets))
            way.chooser.committed(offsets)
        way.position = batch[-1] + 1 if batch else way.position

    def translated(self, upstream: int) -> int | None:
        """The offset on B of a group that would read `upstream` next on A, as SharedTranslator makes it."""
        there, back = self.ways["a"], self.ways["b"]
        found = to_downstream(there.entries, upstream, there.end)
        if upstream <= there.position and is_after_all(there.entries, upstream, there.end):
            found = len(self.logs["b"])
        read = read_before(back.entries, upstream, back.end)
        assert isinstance(read, int)
        return min(found, read) if isinstance(found, int) else None


STEPS = st.lists(
    st.one_of(
        st.sampled_from("ab"),
        st.tuples(st.sampled_from("ab"), st.integers(1, 6), st.integers(0, 3)),
    ),
    max_size=40,
)


def played(steps: list[Any]) -> World:
    world = World()
    for step in steps:
        world.write(step) if isinstance(step, str) else world.copy(*step)
    return world


@given(STEPS)
def test_whatever_the_group_has_not_read_is_at_or_after_its_offset_on_the_other_side(steps: list[Any]) -> None:
    world = played(steps)
    here, there = world.logs["a"], world.logs["b"]
    for upstream in range(len(here) + 1):
        found = world.translated(upstream)
        assert set(there[:found]) - {None} <= set(here[:upstream]) - {None} or found is None


@given(STEPS)
def test_of_an_idle_pair_of_flows_the_next_record_is_one_that_the_group_has_not_read(steps: list[Any]) -> None:
    """The group's offset is the highest one that passes over nothing."""
    world = played(steps)
    for _ in range(3):
        world.copy("a", 10_000, 0)
        world.copy("b", 10_000, 0)
    here, there = world.logs["a"], world.logs["b"]
    assert set(here) - {None} == set(there) - {None} == world.own["a"] | world.own["b"]
    for upstream in range(len(here) + 1):
        found = world.translated(upstream)
        if found is None:
            assert not set(here[:upstream]) & world.own["a"], "only what comes before the first copy is not translated"
            continue
        following = [each for each in there[found:] if each is not None]
        assert not following or following[0] not in here[:upstream]


FIRST = Entry(10, 100, (2,), MapEnd())  # upstream 10 and 11, downstream 100 and 101
SECOND = Entry(20, 110, (1,), MapEnd(100))


def map_of(*made: Entry) -> PartitionMap:
    read = PartitionMap()
    for entry in made:
        read.add(entry)
    return read


@pytest.mark.parametrize(
    ("entries", "downstream", "end", "found"),
    [
        ((), 7, End(5, MapEnd()), 5),
        ((), 7, End(5, MapEnd(100)), Unknown.INCOMPLETE),
        ((), 7, End(5, None), Unknown.INCOMPLETE),
        ((FIRST,), 99, End(30, MapEnd(100)), 10),
        ((SECOND,), 99, End(30, MapEnd(110)), Unknown.BEFORE_THE_MAP),
        ((FIRST,), 101, End(30, MapEnd(100)), 11),
        ((FIRST,), 102, End(30, MapEnd(100)), 30),
        ((FIRST,), 102, End(30, MapEnd(100, 3)), 12),
        ((FIRST,), 102, End(30, MapEnd(110)), 12),
        ((FIRST,), 102, End(30, None), 12),
        ((FIRST, SECOND), 105, End(30, MapEnd(110)), 20),
        ((FIRST, Entry(20, 110, (1,), MapEnd(100, 2))), 105, End(30, MapEnd(110)), 12),
        ((FIRST, Entry(20, 110, (1,), None)), 105, End(30, MapEnd(110)), 12),
        ((FIRST, SECOND), 111, End(15, MapEnd(100)), 21),
    ],
)
def test_up_to_where_all_is_read(entries: tuple[Entry, ...], downstream: int, end: End, found: int | Unknown) -> None:
    assert read_before(map_of(*entries), downstream, end) == found


FLOW = flow(active_active=True)
HERE = Partition("t", 0)
AT = Position(50, "id", remote_id="remote", map_end=MapEnd(100))


class Stub:
    """A translator of one partition."""

    def __init__(self, translated: int | None, entries: PartitionMap, position: Position | None = AT, **more: Any):
        self.answer = Translation(HERE, "t", 40, translated, "" if translated is not None else "why")
        self._entries = entries
        self._seen = Seen(**{"position": position, "log_start": 0, "log_end": 300, "compacted": False, **more})

    def to_downstream(self, _: Partition, upstream: int) -> Translation:
        return replace(self.answer, offset=upstream)

    def seen(self, _: object) -> Seen:
        return self._seen

    def entries(self, *_: object) -> PartitionMap:
        return self._entries


def copied_to(upstream: int, downstream: int, records: int = 1) -> PartitionMap:
    return map_of(Entry(upstream, downstream, (records,), MapEnd()))


THERE = Stub(80, copied_to(10, 100, 60))  # the offset 40 is in the middle of what is copied
IDLE = Stub(None, copied_to(10, 100, 20))  # and here it is after that


@pytest.mark.parametrize(
    ("there", "back", "unmoved", "translated", "reason"),
    [
        (THERE, Stub(None, copied_to(90, 35)), True, 80, ""),
        (THERE, Stub(None, copied_to(90, 41)), True, 80, ""),
        (THERE, Stub(None, copied_to(70, 41)), True, 70, EARLIER),
        (Stub(80, copied_to(10, 100, 60), log_start=75), Stub(None, copied_to(70, 41)), True, 75, EARLIER),
        (THERE, Stub(None, copied_to(70, 41), None), True, None, f"{NO_WAY_BACK}: {Unknown.NOT_COPIED.value}"),
        (THERE, Stub(None, PartitionMap()), True, None, f"{NO_WAY_BACK}: {Unknown.INCOMPLETE.value}"),
        (THERE, None, True, None, NO_WAY_BACK),
        # The target's topic is another one than that which the flow back has copied.
        (THERE, Stub(None, copied_to(90, 41), recreated=RECREATED), True, None, f"{NO_WAY_BACK}: {RECREATED}"),
        (Stub(None, copied_to(10, 100, 20), recreated=RECREATED), Stub(None, copied_to(400, 41)), True, None, "why"),
        # After all that is copied: as far as the log goes, if nothing was copied meanwhile.
        (IDLE, Stub(None, copied_to(400, 41)), True, 300, ""),
        (IDLE, Stub(None, copied_to(200, 41)), True, 200, EARLIER),
        (IDLE, Stub(None, copied_to(400, 41)), False, None, "why"),
        # If that is not known, the last copied record may be far before the end, and that is not exact.
        (Stub(130, copied_to(10, 100, 20)), Stub(None, copied_to(400, 41)), False, 130, LAST_COPY),
        (Stub(130, copied_to(10, 100, 20)), Stub(None, copied_to(120, 41)), False, 120, EARLIER),
        (Stub(300, copied_to(10, 100, 20)), Stub(None, copied_to(400, 41)), False, 300, ""),
        (Stub(None, copied_to(10, 100, 20), log_end=None), Stub(None, copied_to(400, 41)), True, None, "why"),
        (Stub(None, copied_to(10, 100, 20), None), Stub(None, copied_to(400, 41)), True, None, "why"),
    ],
)
def test_the_smaller_offset_stands_for_the_group(
    monkeypatch: pytest.MonkeyPatch, there: Any, back: Any, unmoved: bool, translated: int | None, reason: str
) -> None:
    shared = translator(monkeypatch, there, back)
    shared._unmoved = {HERE} if unmoved else set()
    found = shared.to_downstream(HERE, 40)
    assert (found.translated, found.reason) == (translated, reason)


def translator(monkeypatch: pytest.MonkeyPatch, there: Any, back: Any) -> SharedTranslator:
    """With these two translators, as a refresh leaves them."""
    monkeypatch.setattr(shared_translator, "Translator", lambda _: there)
    made = SharedTranslator(FLOW)
    if back is not None:
        made._own._by_topic, made._own._translators = {HERE.topic: "backup"}, {"backup": (FLOW, back)}
    return made


def test_only_what_is_known_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcome of a group round: a group may be a million records before the end of the log."""
    there, back = Stub(130, copied_to(10, 100, 20)), Stub(None, copied_to(400, 41))
    shared = translator(monkeypatch, there, back)
    for shared._unmoved, outcome in (({HERE}, GroupOutcome.EXACT), (set(), GroupOutcome.EARLIER)):
        found = shared.to_downstream(HERE, 40)
        assert choose(found, found, None, False).outcome is outcome


def test_a_topic_with_another_name_there_has_no_way_back(monkeypatch: pytest.MonkeyPatch) -> None:
    there: Any = Stub(80, copied_to(10, 100, 60))
    there.answer = replace(there.answer, remote="u")
    assert translator(monkeypatch, there, there).to_downstream(HERE, 40).reason == NO_WAY_BACK


def test_the_reader_of_plans_ends_with_the_translator() -> None:
    """Its consumer stays open between two rounds."""
    shared, closed = SharedTranslator(FLOW), list[bool]()
    plans = shared._own._finder._plans
    plans._idle = cast(Consumer, SimpleNamespace(close=lambda: closed.append(True)))
    shared.close()
    assert closed == [True] and plans._idle is None
