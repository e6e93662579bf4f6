"""The judge judged: right histories pass, and each way to be wrong is caught, with its own invariant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.chaos.watch import Counted
from tests.checker.checker import STALL_MAX, check
from tests.checker.compacted import check_compacted
from tests.checker.history import Committed, Fate, History, Memory, Record, Sample, Sent


@dataclass(frozen=True)
class Replay:
    """A right history, and how its target transactions cut the source's records."""

    history: History
    cuts: list[int]  # records visible after each transaction


def last_offset(source: list[Record], cut: int) -> int:
    return source[cut - 1].offset


@st.composite
def replays(draw: st.DrawFn, least: int = 3) -> Replay:
    """Histories of a source with aborted and unknown records and gaps, copied in transactions and sampled between."""
    fates = draw(st.lists(st.sampled_from(("acknowledged", "acknowledged", "aborted", "unknown")), max_size=30))
    fates += ["acknowledged"] * least
    source, sent, offset = [], [], 0
    for number, fate in enumerate(fates):
        offset += draw(st.integers(1, 3))  # markers and compacted records leave gaps
        value: bytes | None = b"%d" % number
        headers = (("number", value),)
        chosen: Fate = fate  # type: ignore[assignment]
        sent.append(Sent(None, value, headers, chosen))
        if fate == "acknowledged" or (fate == "unknown" and draw(st.booleans())):
            source.append(Record(offset, None, value, headers, 1000 + number))
    end = offset + 1 + draw(st.integers(0, 3))
    target, downstream = [], 0
    for record in source:
        downstream += draw(st.integers(1, 2))
        target.append(record._replace(offset=downstream))
    middle = draw(st.sets(st.integers(1, len(source)), max_size=5))
    cuts = sorted({*middle, len(source)})
    samples = [Sample(-1, 0, -1)]
    for before, after in zip([0, *cuts], cuts, strict=False):
        first = source[before - 1].offset + 1 if before else -1
        last = source[after - 1].offset + 1
        samples += [Sample(first, draw(st.sampled_from((before, after))), last), Sample(last, after, last)]
    return Replay(
        History(
            sent=sent,
            source=source,
            target=target,
            concurrent=target[: draw(st.integers(0, len(target)))],
            samples=samples,
            recorded=[Committed(last_offset(source, cut) + 1) for cut in cuts],
            position=draw(st.integers(source[-1].offset + 1, end)),
            source_end=end,
            stable=downstream + 2,
            high=downstream + 2,
            stalls=draw(st.lists(st.floats(0, STALL_MAX), max_size=3)),
        ),
        cuts,
    )


def caught(history: History) -> set[str]:
    return {violation.invariant for violation in check(history)}


def with_target(replay: Replay, target: list[Record]) -> History:
    """A history in which both readers see this target, as they do when the wrong thing was committed."""
    return replace(replay.history, target=target, concurrent=target)


@given(replays())
def test_a_right_history_passes(replay: Replay) -> None:
    assert check(replay.history) == []


@given(replays(), st.data())
def test_a_dropped_record(replay: Replay, data: st.DataObject) -> None:
    target = list(replay.history.target)
    del target[data.draw(st.integers(0, len(target) - 1))]
    assert {"I1", "I6"} <= caught(with_target(replay, target))


@given(replays(), st.data())
def test_a_truncated_target(replay: Replay, data: st.DataObject) -> None:
    target = list(replay.history.target)[: data.draw(st.integers(0, len(replay.history.target) - 1))]
    assert {"I1", "I6"} <= caught(with_target(replay, target))


@given(replays(), st.data())
def test_a_duplicate(replay: Replay, data: st.DataObject) -> None:
    target = list(replay.history.target)
    again = data.draw(st.sampled_from(target))
    target.insert(data.draw(st.integers(0, len(target))), again)
    assert "I2" in caught(with_target(replay, target))


@given(replays(), st.data())
def test_two_records_swapped(replay: Replay, data: st.DataObject) -> None:
    target = list(replay.history.target)
    one, other = data.draw(st.lists(st.integers(0, len(target) - 1), min_size=2, max_size=2, unique=True))
    target[one], target[other] = target[other], target[one]
    assert caught(with_target(replay, target)) == {"I3"}


@given(replays(), st.data(), st.sampled_from(("aborted", "unknown", "foreign")))
def test_a_record_that_does_not_belong(replay: Replay, data: st.DataObject, kind: str) -> None:
    record = Record(0, b"never", b"committed", (), 1)
    history = with_target(replay, list(replay.history.target))
    if kind != "foreign":
        fate: Fate = "aborted" if kind == "aborted" else "unknown"
        history = replace(history, sent=[*history.sent, Sent(record.key, record.value, (), fate)])
    target = list(history.target)
    target.insert(data.draw(st.integers(0, len(target))), record)
    assert "I4" in caught(replace(history, target=target, concurrent=target))


@given(replays(), st.data(), st.sampled_from(("timestamp", "key", "value", "headers")))
def test_an_altered_record(replay: Replay, data: st.DataObject, part: str) -> None:
    target = list(replay.history.target)
    index = data.draw(st.integers(0, len(target) - 1))
    altered: Any = {"timestamp": 1, "key": b"", "value": None, "headers": (("number", b"x"),)}[part]
    target[index] = target[index]._replace(**{part: altered})
    # A record with another key, value or headers is another record.
    assert ("I5" if part == "timestamp" else "I4") in caught(with_target(replay, target))


@given(replays(), st.data())
def test_a_torn_transaction(replay: Replay, data: st.DataObject) -> None:
    """Some records of a transaction are visible while its position is not, or the other way round."""
    source = replay.history.source
    begun = data.draw(st.sampled_from([0, *replay.cuts[:-1]]))
    ended = next(cut for cut in replay.cuts if cut > begun)
    if data.draw(st.booleans()):
        at = source[begun - 1].offset + 1 if begun else -1
        torn = Sample(at, data.draw(st.integers(begun + 1, ended)), at)
    else:
        at = source[ended - 1].offset + 1
        torn = Sample(at, data.draw(st.integers(begun, ended - 1)), at)
    assert caught(replace(replay.history, samples=[*replay.history.samples, torn])) == {"I6"}


@given(replays(), st.data())
def test_a_transaction_that_is_torn_while_others_end(replay: Replay, data: st.DataObject) -> None:
    """Some records of one are visible between two looks at the position, which has gone on meanwhile."""
    cuts = [0, *replay.cuts]
    inside = sorted(set(range(len(replay.history.source))) - set(cuts))
    assume(inside)
    last = last_offset(list(replay.history.source), cuts[-1]) + 1
    torn = Sample(-1, data.draw(st.sampled_from(inside)), last)
    assert caught(replace(replay.history, samples=[torn])) == {"I6"}


@given(replays(), st.data())
def test_a_position_that_moved(replay: Replay, data: st.DataObject) -> None:
    last = replay.history.source[-1].offset
    back = data.draw(st.integers(0, last))
    assert "I6" in caught(replace(replay.history, position=back))
    assert "I6" in caught(replace(replay.history, position=None))
    ahead = replay.history.source_end + data.draw(st.integers(1, 9))
    assert "I6" in caught(replace(replay.history, position=ahead))


@given(replays(), st.data())
def test_a_position_that_moved_for_a_while(replay: Replay, data: st.DataObject) -> None:
    """No sample has seen it, and all came right in the end."""
    recorded = list(replay.history.recorded)
    where = data.draw(st.integers(1, len(recorded)))
    for wrong in (
        data.draw(st.integers(0, recorded[where - 1].offset - 1)),
        replay.history.source_end + data.draw(st.integers(1, 9)),
    ):
        moved = [*recorded[:where], Committed(wrong), *recorded[where:]]
        assert caught(replace(replay.history, recorded=moved)) == {"I6"}


@given(replays(), st.data())
def test_a_reader_that_saw_something_else(replay: Replay, data: st.DataObject) -> None:
    target = list(replay.history.target)
    seen = list(target)
    del seen[data.draw(st.integers(0, len(seen) - 2))]
    assert "I7" in caught(replace(replay.history, concurrent=seen))
    vanished = [*target, Record(10**6, None, b"aborted later", (), 1)]
    assert caught(replace(replay.history, concurrent=vanished)) == {"I7"}


@given(replays())
def test_no_progress_and_open_transactions(replay: Replay) -> None:
    history = replay.history
    assert caught(replace(history, stalls=[STALL_MAX + 1])) == {"I8"}
    assert caught(replace(history, high=history.high + 1)) == {"I8"}


@given(replays())
def test_a_source_that_lost_what_it_acknowledged(replay: Replay) -> None:
    sent = [*replay.history.sent, Sent(b"gone", None, (), "acknowledged")]
    assert caught(replace(replay.history, sent=sent)) == {"I1"}


@given(replays(), st.data())
def test_what_was_passed_over_is_not_missed_but_must_not_appear(replay: Replay, data: st.DataObject) -> None:
    history = replay.history
    index = data.draw(st.integers(0, len(history.target) - 1))
    target = [*history.target[:index], *history.target[index + 1 :]]
    told = frozenset({history.source[index].offset})
    without = replace(history, target=target, concurrent=(), samples=(), passed_over=told)
    assert check(without) == []
    assert "I4" in caught(replace(without, target=history.target))


@given(replays(), st.data())
def test_a_position_goes_back_by_a_choice_that_was_told_and_not_else(replay: Replay, data: st.DataObject) -> None:
    recorded = list(replay.history.recorded)
    where = data.draw(st.integers(1, len(recorded)))
    back = Committed(data.draw(st.integers(0, recorded[where - 1].offset - 1)), resets=1)
    reset = [*recorded[:where], back, *(each._replace(resets=1) for each in recorded[where:])]
    history = replace(replay.history, recorded=reset, samples=())
    assert check(replace(history, choices=1)) == []
    assert caught(history) == {"I6"}, "nobody has told of it"
    forgotten = [*recorded[:where], back, *recorded[where:]]
    assert (where < len(recorded)) == ("I6" in caught(replace(history, recorded=forgotten, choices=1)))


@given(replays(), st.data())
def test_a_remote_topic_that_was_made_again_is_whole_from_a_choice_on(replay: Replay, data: st.DataObject) -> None:
    history = replay.history
    source, target = list(history.source), list(history.target)
    # Who copied when it was deleted has written some records before the choice to the new one, or none.
    first = data.draw(st.integers(0, len(target) - 2))
    chosen = source[data.draw(st.integers(first, len(target) - 1))].offset
    anew = replace(history, chosen=chosen, target=target[first:], concurrent=(), samples=())
    assert check(anew) == []
    assert not first or {"I1", "I6"} <= caught(replace(anew, chosen=None)), "without a choice all has to be there"
    gap = data.draw(st.integers(first + 1, len(target) - 1))
    assert {"I1", "I6"} <= caught(replace(anew, target=[*target[first:gap], *target[gap + 1 :]]))
    late = data.draw(st.integers(0, len(source) - 2))
    begins_late = replace(anew, chosen=source[late].offset, target=target[late + 1 :])
    assert {"I1", "I6"} <= caught(begins_late), "what was chosen is missing"
    assert "I2" in caught(replace(anew, target=[*target[first:], target[-1]]))


@given(replays(), st.data())
def test_a_circle(replay: Replay, data: st.DataObject) -> None:
    """A record comes back to the source, and is copied once more."""
    history = replay.history
    again = data.draw(st.sampled_from(list(history.source)))._replace(offset=history.source_end)
    source = [*history.source, again]
    here = replace(history, source=source, source_end=again.offset + 1, position=again.offset + 1)
    assert "I2" in caught(here)
    assert "I2" in caught(replace(here, target=[*history.target, again], concurrent=()))


@given(replays())
def test_a_record_where_nothing_may_be_copied(replay: Replay) -> None:
    assert caught(replace(replay.history, strays=replay.history.source[:1])) == {"I4"}


@given(replays(), st.integers(0, 10**9))
def test_a_worker_that_takes_more_memory_than_it_may(replay: Replay, bound: int) -> None:
    assert check(replace(replay.history, memory=[Memory(bound, bound)])) == []
    assert caught(replace(replay.history, memory=[Memory(0, bound), Memory(bound + 1, bound)])) == {"I9"}


@pytest.mark.parametrize(("crashes", "caught_as"), [(0, {"I2"}), (1, set())])
@given(replay=replays(least=5))
def test_at_least_once_allows_a_batch_for_each_crash(replay: Replay, crashes: int, caught_as: set[str]) -> None:
    target = list(replay.history.target)
    doubled = [*target[:4], *target[1:4], *target[4:]]
    history = replace(with_target(replay, doubled), crashes=crashes, batch=3, samples=())
    assert caught(history) == caught_as
    assert "I2" in caught(replace(with_target(replay, [*doubled, *target]), crashes=1, batch=3, samples=()))
    assert "I2" in caught(replace(history, crashes=1, batch=2))
    assert "I3" in caught(replace(with_target(replay, [*target[:2], *target[3:]]), crashes=9, batch=9, samples=()))
    assert "I1" in caught(replace(with_target(replay, doubled[:-1]), crashes=1, batch=3, samples=()))


@given(replay=replays(least=5), data=st.data())
def test_a_position_before_its_records_that_duplicates_hide(replay: Replay, data: st.DataObject) -> None:
    """At least once, the position comes after its records. As many are visible as it says, but some of them twice."""
    target = list(replay.history.target)
    history = replace(with_target(replay, [*target[:4], *target[1:4], *target[4:]]), crashes=1, batch=3)
    at, doubled = data.draw(st.integers(5, len(target))), data.draw(st.integers(1, 3))
    offset = history.source[at - 1].offset + 1
    right = Sample(offset, at + doubled, offset, doubled=doubled)
    assert check(replace(history, samples=[right])) == []
    assert caught(replace(history, samples=[replace(right, visible=at + doubled - 1)])) == {"I6"}


def test_a_sample_counts_what_is_there_twice() -> None:
    one, other, left_out = (Record(offset, None, b"%d" % offset, (), 0) for offset in range(3))
    counted, records = Counted(), [one, left_out]

    def copies(some: Sequence[Record]) -> list[Record]:
        return [record for record in some if record != left_out]

    counted.look(records, copies)
    assert (counted.visible, counted.doubled) == (1, 0)
    records += [other, one._replace(offset=4), other._replace(offset=5), one._replace(offset=6)]
    for _ in range(2):
        counted.look(records, copies)
        assert (counted.visible, counted.doubled) == (5, 3), "each record is looked at once"


# Compacted topics.


@st.composite
def compactions(draw: st.DrawFn) -> History:
    """Right histories of a compacted topic: each side has lost any records but the latest of a key, or a tombstone."""
    keys = draw(st.lists(st.integers(0, 3), min_size=4, max_size=30))
    everything = [
        Record(
            number, b"%d" % key, draw(st.sampled_from((b"value", None))), (("number", b"%d" % number),), 1000 + number
        )
        for number, key in enumerate(keys)
    ]
    everything.append(Record(len(keys), b"last", b"value", (("number", b"%d" % len(keys)),), 2000))
    latest = {record.key: record for record in everything}

    def compacted() -> list[Record]:
        kept = draw(st.sets(st.sampled_from(everything)))
        # A tombstone goes after all that it stands for.
        gone = {key for key, record in latest.items() if record.value is None and record not in kept}
        return [r for r in everything if r.key not in gone and (r in kept or r is latest[r.key])]

    source, target = compacted(), compacted()
    return History(
        sent=[Sent(record.key, record.value, record.headers, "acknowledged") for record in everything],
        source=[*source, *(() if everything[-1] in source else everything[-1:])],
        target=target,
        concurrent=everything,
        samples=[],
        recorded=(),
        position=len(everything),
        source_end=len(everything),
        stable=1,
        high=1,
    )


def caught_compacted(history: History) -> set[str]:
    return {violation.invariant for violation in check_compacted(history)}


@given(compactions())
def test_a_right_compacted_history_passes(history: History) -> None:
    assert check_compacted(history) == []


@given(compactions())
def test_the_latest_of_a_key_is_lost(history: History) -> None:
    assert "I1" in caught_compacted(replace(history, target=history.target[:-1]))


@given(compactions(), st.data())
def test_a_record_that_compaction_could_have_removed_is_lost(history: History, data: st.DataObject) -> None:
    lost = data.draw(st.sampled_from(list(history.source)))
    without = [r for r in history.concurrent if r != lost]
    target = [r for r in history.target if r != lost]
    assert "I1" in caught_compacted(replace(history, concurrent=without, target=target))


@given(compactions(), st.data())
def test_a_compacted_reader_saw_something_else(history: History, data: st.DataObject) -> None:
    changed = data.draw(st.sampled_from(list(history.target)))
    concurrent = [r._replace(timestamp=7) if r == changed else r for r in history.concurrent]
    assert "I7" in caught_compacted(replace(history, concurrent=concurrent))


@given(compactions())
def test_a_tombstone_is_lost(history: History) -> None:
    number = len(history.sent)
    tombstone = Record(number, b"last", None, (("number", b"%d" % number),), 3000)
    sent = Sent(tombstone.key, None, tombstone.headers, "acknowledged")
    source = [*history.source, tombstone]
    grown = replace(history, sent=[*history.sent, sent], source=source, position=number + 1, source_end=number + 1)
    assert caught_compacted(grown) == {"I1"}


@given(compactions(), st.data())
def test_a_compacted_record_comes_twice(history: History, data: st.DataObject) -> None:
    again = data.draw(st.sampled_from(list(history.target)))
    assert "I2" in caught_compacted(replace(history, target=[again, *history.target]))
    assert "I2" in caught_compacted(replace(history, concurrent=[*history.target, again])), "compaction hides one"


@given(compactions())
def test_an_older_record_comes_after_a_newer_one(history: History) -> None:
    target = [*history.target, *([history.target[0]] if len(history.target) > 1 else [])]
    if len(target) > 1:
        assert "I3" in caught_compacted(replace(history, target=target))


@given(compactions(), st.sampled_from(("aborted", "foreign")))
def test_a_compacted_record_that_does_not_belong(history: History, kind: str) -> None:
    record = Record(0, b"never", b"committed", (), 1)
    sent = [*history.sent, Sent(record.key, record.value, (), "aborted")] if kind == "aborted" else history.sent
    assert "I4" in caught_compacted(replace(history, sent=sent, target=[record, *history.target]))


@given(compactions(), st.integers(-1, 0))
def test_a_position_that_stays_behind(history: History, behind: int) -> None:
    last = history.source[-1].offset
    assert caught_compacted(replace(history, position=last + behind)) == {"I6"}
    assert caught_compacted(replace(history, position=None)) == {"I6"}
