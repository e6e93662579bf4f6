"""What has to hold of a compacted topic: records may vanish on both sides, but none that is the latest of its key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from tests.checker.checker import Violation, commits, liveness
from tests.checker.history import History, Record


def check_compacted(history: History) -> list[Violation]:
    """All violations of a history of a compacted topic; none: it is right."""
    # The concurrent reader also sees what compaction removes from the target before the final one comes.
    contents = [*_contents(history, history.target), *_contents(history, history.concurrent)]
    return [*contents, *_copied(history), *_latest(history), *_position(history), *commits(history), *liveness(history)]


def _contents(history: History, seen: Sequence[Record]) -> Iterator[Violation]:
    place = {sent.identity: index for index, sent in enumerate(history.sent) if sent.fate != "aborted"}
    originals = {record.identity: record for record in history.source}
    for record in seen:
        if record.identity not in place:
            yield Violation("I4", f"not from the source: {record}")
        original = originals.get(record.identity)
        if original is not None and original.content != record.content:
            yield Violation("I5", f"{original} became {record}")
    doubled = [identity for identity, count in Counter(r.identity for r in seen).items() if count > 1]
    if doubled:
        yield Violation("I2", f"{len(doubled)} records came twice, e.g. {doubled[0]}")
    known = [record for record in seen if record.identity in place]
    for before, after in pairwise(known):
        if place[after.identity] < place[before.identity]:
            yield Violation("I3", f"{after} comes after {before}")


def _copied(history: History) -> Iterator[Violation]:
    """What the source still has, the concurrent reader has seen, at its place, before the target's compaction came."""
    seen = {record.offset: record for record in history.concurrent}
    identities = {record.identity for record in (*history.concurrent, *history.target)}
    for record in history.source:
        if record.identity not in identities:
            yield Violation("I1", f"never on the target: {record}")
    for record in history.target:
        if seen.get(record.offset, record) != record:
            yield Violation("I7", f"{record} was {seen[record.offset]} before")


def _latest(history: History) -> Iterator[Violation]:
    wanted, found = _table(history.source), _table(history.target)
    for key in wanted.keys() | found.keys():
        if wanted.get(key) != found.get(key):
            yield Violation("I1", f"the latest of {key!r} is {wanted.get(key)} on the source, {found.get(key)} there")


def _table(records: Iterable[Record]) -> dict[bytes | None, tuple[object, ...]]:
    """What a reader makes of it: a tombstone, which compaction may drop or not, is no value."""
    latest = {record.key: record for record in records}
    return {key: record.identity for key, record in latest.items() if record.value is not None}


def _position(history: History) -> Iterator[Violation]:
    last = history.source[-1].offset if history.source else -1
    if history.position is None or not last < history.position <= history.source_end:
        yield Violation("I6", f"position {history.position}: last record {last}, end {history.source_end}")
