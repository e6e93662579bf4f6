"""What has to hold of the records that programs write to the target, where programs write to a topic on both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tests.checker.checker import Violation
from tests.checker.history import Record, Sent


def check_own(sent: Sequence[Sent], there: Iterable[Record], here: Iterable[Record]) -> list[Violation]:
    """All violations; none: it is right.

    `sent` is what the target's programs have sent. `there` and `here` are the records of the target and of the source
    that mirror does not call copies.
    """
    counts = Counter(record.identity for record in there)
    return [*_written(sent, counts), *_came_back(sent, here)]


def _written(sent: Sequence[Sent], counts: Counter[tuple[object, ...]]) -> Iterator[Violation]:
    for each in sent:
        if each.fate == "acknowledged" and not counts[each.identity]:
            yield Violation("I1", f"acknowledged, but not on the target: {each}")
    possible = {each.identity for each in sent if each.fate != "aborted"}
    for identity, count in counts.items():
        if identity not in possible:
            yield Violation("I4", f"on the target without being a copy, but not from its programs: {identity}")
        elif count > 1:
            yield Violation("I2", f"{count} times on the target without being a copy: {identity}")


def _came_back(sent: Sequence[Sent], here: Iterable[Record]) -> Iterator[Violation]:
    theirs = {each.identity for each in sent}
    for record in here:
        if record.identity in theirs:
            yield Violation("I2", f"on the source without being a copy, but from the target's programs: {record}")
