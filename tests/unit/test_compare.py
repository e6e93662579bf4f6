"""What the comparison of two streams of records says of them."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, NamedTuple, cast

import pytest

from mirror.compare import Counts, judge


class Fake(NamedTuple):
    """As much of a confluent_kafka.Message as is needed."""

    number: int
    text: bytes = b""

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self.text

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, self.number


def judged(source: list[int], target: list[int]) -> Counts:
    return judge(cast(Any, map(Fake, source)), cast(Any, map(Fake, target)), lambda m: cast(Any, m).number)


@pytest.mark.parametrize(
    ("source", "target", "lost", "duplicated", "reordered"),
    [
        ([], [], 0, 0, 0),
        ([1, 2, 5, 9], [1, 2, 5, 9], 0, 0, 0),
        ([1, 2, 3], [], 3, 0, 0),
        ([1, 2, 3], [1, 3], 1, 0, 0),
        ([1, 2, 3], [2, 3], 1, 0, 0),
        ([1, 2, 3], [1, 2], 1, 0, 0),
        ([1, 2, 3], [1, 2, 2, 3], 0, 1, 0),
        ([1, 2, 3], [1, 2, 3, 1, 2, 3], 0, 3, 0),
        ([1, 2, 3], [1, 3, 2], 0, 0, 1),
        ([1, 2, 3], [1, 3, 2, 2], 0, 1, 1),
        ([1, 3], [1, 2, 3], 0, 1, 0),  # one that the source does not have
        ([1, 3], [1, 3, 4], 0, 1, 0),
        ([1, 2, 3, 4], [1, 4, 4, 2], 1, 1, 1),
    ],
)
def test_counts(source: list[int], target: list[int], lost: int, duplicated: int, reordered: int) -> None:
    found = judged(source, target)
    assert astuple(found) == (len(source), len(target), lost, duplicated, reordered, 0)
    assert found.equal == (source == target)


def test_an_altered_record() -> None:
    source, target = [Fake(1, b"a"), Fake(2, b"b")], [Fake(1, b"a"), Fake(2, b"x")]
    found = judge(cast(Any, source), cast(Any, target), lambda m: cast(Any, m).number)
    assert found == Counts(2, 2, altered=1) and not found.equal
