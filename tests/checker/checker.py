"""The invariants of replication, checked on a history.

I1 complete below the position; I2 no duplicate; I3 the source's order; I4 nothing aborted or foreign; I5 equal key,
value, headers and timestamp; I6 the position and the visible records belong together at every moment; I7 the
concurrent reader never contradicts the final one; I8 progress after each fault, and no transaction left open; I9 a
worker's memory stays under its bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.checker.history import History, Record

STALL_MAX = 60.0  # seconds until there is progress again


class Violation(NamedTuple):
    """An invariant that does not hold, and what shows it."""

    invariant: str
    what: str


def check(history: History) -> list[Violation]:
    """All violations of a history; none: it is right."""
    begin = _beginning(history)
    wanted = [r for r in history.source if r.offset >= begin and r.offset not in history.passed_over]
    return [
        *_sending(history),
        *_elsewhere(history),
        *_contents(history, wanted),
        *_positions(history, wanted),
        *commits(history),
        *_readers(history),
        *liveness(history),
        *_memory(history),
    ]


def _beginning(history: History) -> int:
    """The upstream offset from which on all has to be there.

    Of a remote topic that was made again what was chosen, or what comes first there if that was before it: who copied
    when the old one was deleted writes to the new one until the choice comes, and that has to be whole as well.
    """
    if history.chosen is None:
        return 0
    offsets = {record.identity: record.offset for record in history.source}
    first = next((offsets[record.identity] for record in history.target if record.identity in offsets), history.chosen)
    return min(first, history.chosen)


def _sending(history: History) -> Iterator[Violation]:
    """The source has what was acknowledged, or nothing here can be judged. The target has nothing that was aborted."""
    there = {record.identity for record in history.source}
    visible = {record.identity for record in history.target}
    for sent in history.sent:
        if sent.fate == "acknowledged" and sent.identity not in there:
            yield Violation("I1", f"acknowledged, but not on the source: {sent}")
        if sent.fate == "aborted" and sent.identity in visible:
            yield Violation("I4", f"aborted, but on the target: {sent}")


def _elsewhere(history: History) -> Iterator[Violation]:
    """What two flows that don't go together would do: copy in a circle, or to where nothing may be copied."""
    came_back = len(history.source) - len({record.identity for record in history.source})
    if came_back:
        yield Violation("I2", f"{came_back} records are on the source more than once")
    if history.strays:
        yield Violation("I4", f"{len(history.strays)} records where nothing may be, e.g. {history.strays[0]}")


def _contents(history: History, wanted: Sequence[Record]) -> Iterator[Violation]:
    by_identity = {record.identity: record for record in wanted}
    counts = Counter(record.identity for record in history.target)
    for record in history.target:
        original = by_identity.get(record.identity)
        if original is None:
            yield Violation("I4", f"not from the source: {record}")
        elif original.content != record.content:
            yield Violation("I5", f"{original} became {record}")
    position = history.position if history.position is not None else -1
    for record in wanted:
        if record.offset < position and not counts[record.identity]:
            yield Violation("I1", f"lost: {record}, position {position}")
    doubled = sum(count - 1 for count in counts.values())
    if history.crashes is not None:
        yield from _rewinds(history, wanted, history.crashes)
    elif doubled:
        yield Violation("I2", f"{doubled} duplicates")
    yield from _order(history, wanted)


def _order(history: History, wanted: Sequence[Record]) -> Iterator[Violation]:
    place = {record.identity: index for index, record in enumerate(wanted)}
    found = list(dict.fromkeys(place[r.identity] for r in history.target if r.identity in place))
    for before, after in pairwise(found):
        if after != before + 1:
            yield Violation("I3", f"{wanted[after]} comes after {wanted[before]}")
    if found and found[0] != 0:
        yield Violation("I3", f"begins with {wanted[found[0]]}")


def _rewinds(history: History, wanted: Sequence[Record], crashes: int) -> Iterator[Violation]:
    """Violations of at-least-once: copying may go back by one batch per crash, and then goes on in order."""
    place = {record.identity: index for index, record in enumerate(wanted)}
    found = [place[record.identity] for record in history.target if record.identity in place]
    back = [(before, after) for before, after in pairwise(found) if after <= before]
    if len(back) > crashes:
        yield Violation("I2", f"goes back {len(back)} times, {crashes} allowed")
    for before, after in back:
        if before - after >= history.batch:
            yield Violation("I2", f"{before - after + 1} records again, {history.batch} allowed")
    for before, after in pairwise(found):
        if after > before + 1:
            yield Violation("I3", f"{wanted[after]} comes after {wanted[before]}")


def _positions(history: History, wanted: Sequence[Record]) -> Iterator[Violation]:
    """Records and position are one transaction: what is visible is what is before a position."""
    offsets = [record.offset for record in wanted]
    whole = {0, *(bisect_left(offsets, position.offset) for position in history.recorded)}
    loose = history.crashes is not None  # at least once, the position follows the records
    for sample in history.samples:
        least = 0 if sample.before < 0 else bisect_left(offsets, sample.before)
        most = 0 if sample.after < 0 else bisect_left(offsets, sample.after)
        if sample.visible - sample.doubled < least or (sample.visible > most and not loose):
            yield Violation("I6", f"{sample}: {least} to {most} records are before the position")
        elif sample.visible not in whole and not loose:
            yield Violation("I6", f"{sample}: no transaction ended there")
    reached = -1 if history.position is None else history.position
    if reached > history.source_end:
        yield Violation("I6", f"position {reached} is behind the source's end {history.source_end}")
    visible = len({record.identity for record in history.target})
    before = 0 if reached < 0 else bisect_left(offsets, reached)
    if visible != before:
        yield Violation("I6", f"in the end {visible} records are visible, {before} are before position {reached}")
    if before != len(wanted):
        yield Violation("I1", f"in the end {len(wanted) - before} records are not before position {reached}")


def _readers(history: History) -> Iterator[Violation]:
    if list(history.concurrent) != list(history.target[: len(history.concurrent)]):
        pairs = zip(history.concurrent, history.target, strict=False)
        where = next((i for i, (a, b) in enumerate(pairs) if a != b), len(history.target))
        yield Violation("I7", f"the concurrent reader differs from the final one at record {where}")


def commits(history: History) -> Iterator[Violation]:
    """I6 of the positions themselves: none goes back but by a choice that was told, or beyond what the source has."""
    for before, after in pairwise(history.recorded):
        if after.progress < before.progress:
            yield Violation("I6", f"position {before} was committed, then {after}")
    reached = max((position.offset for position in history.recorded), default=0)
    if reached > history.source_end:
        yield Violation("I6", f"position {reached} was committed, the source's end is {history.source_end}")
    resets = max((position.resets for position in history.recorded), default=0)
    if resets > history.choices:
        yield Violation("I6", f"the position was set {resets} times, {history.choices} were told")


def liveness(history: History) -> Iterator[Violation]:
    """I8, which is the same for every kind of topic."""
    for stall in history.stalls:
        if stall > STALL_MAX:
            yield Violation("I8", f"no progress for {stall:.0f} s after a fault had ended")
    if history.stable != history.high:
        yield Violation("I8", f"a transaction is open: last stable offset {history.stable}, end {history.high}")


def _memory(history: History) -> Iterator[Violation]:
    for memory in history.memory:
        if memory.grown > memory.bound:
            yield Violation("I9", f"a worker has grown by {memory.grown:,} bytes, {memory.bound:,} are its bound")
