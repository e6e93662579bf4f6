"""A topic whose transform depends on more than the record: it is not comparable, and the others are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mirror.batches.records import Content, encode
from mirror.commands.verify.command import FlowResult, shown
from mirror.commands.verify.digests import Digester, RecordDigest, Stretch
from mirror.commands.verify.partition_comparison import ComparisonResult
from mirror.commands.verify.ranges import PartitionRanges, Side
from mirror.commands.verify.verify import InProcess, verify
from mirror.errors import NotComparable
from mirror.settings import Cluster

SHOP = "tests.transforms.shop_transforms"
VALUES = [b"1", b"2", b"3"]
COPIES = [b"1", b"2", b"4"]  # one is altered


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition has three records. The copies in `b.altered` have one that differs."""

    def whole(alias: str, properties: Any, stable: bool, stretch: Stretch, stop: int) -> Iterator[Any]:
        values = COPIES if stretch.topic == "b.altered" else VALUES
        for offset, value in enumerate(values):
            if stretch.start <= offset < stop:
                yield offset, 1_000 + offset, encode(Content(b"key", value, ()))

    monkeypatch.setattr("mirror.commands.verify.digests._whole", whole)


def ranges(topic: str, partition: int = 0) -> PartitionRanges:
    source, target = Side("a", topic, partition, 0, 3), Side("b", f"b.{topic}", partition, 0, 3)
    return PartitionRanges(source, target, 3, True, (), True)


def compared(digester: Digester, *wanted: PartitionRanges) -> list[ComparisonResult]:
    return verify(wanted, digester, InProcess(), lambda *_: None)


CLUSTERS = {alias: Cluster(alias, {}, {}, {}) for alias in ("a", "b")}
DIFFERENT = Digester(CLUSTERS, transforms={("a", "different"): f"{SHOP}.different", ("a", "same"): f"{SHOP}.same"})
WANTED = [ranges("altered"), ranges("different", 0), ranges("different", 1), ranges("same")]
SAID = f"different-0 is not comparable: the transform {SHOP}.different makes different things of the record at offset 0"


def test_the_other_topics_are_compared() -> None:
    altered, first, second, same = compared(DIFFERENT, *WANTED)
    assert same.equal and same.compared == 3 and not same.reason
    assert not altered.equal and altered.counts.altered == 1 and altered.compared == 2
    for each in (first, second):
        assert not each.equal and each.compared == 0 and each.counts.equal and each.reason.startswith(SAID)


@pytest.mark.parametrize("late", ["entries", "entries_with"])
def test_it_may_show_only_when_records_are_read_again(late: str) -> None:
    class Late(Digester):
        def entries(self, stretch: Stretch) -> list[RecordDigest]:
            self._check(stretch, "entries")
            return super().entries(stretch)

        def entries_with(self, wanted: frozenset[bytes], stretch: Stretch) -> list[RecordDigest]:
            self._check(stretch, "entries_with")
            return super().entries_with(wanted, stretch)

        def _check(self, stretch: Stretch, method: str) -> None:
            if method == late and stretch.topic == "altered" and stretch.partition == 0:
                raise NotComparable("it depends on the time")

    found = compared(Late(CLUSTERS), ranges("altered", 0), ranges("altered", 1), ranges("same"))
    assert [each.reason for each in found] == ["it depends on the time"] * 2 + [""]
    assert found[2].equal and not any(each.counts.altered for each in found)


def result(results: Sequence[ComparisonResult]) -> FlowResult:
    return FlowResult("a->b", results, (), (), None)


def test_the_answer_has_the_reason_and_is_kept() -> None:
    found = result(compared(DIFFERENT, *WANTED[1:]))
    assert not found.equal and not found.whole
    text = shown(found, 20)
    (row,) = [line for line in text.splitlines() if line.startswith("different ")]
    assert row.split()[:4] == ["different", "2", "not", "comparable"]
    assert text.count(f"  {SAID}") == 1
    assert text.endswith("\nnot known to be equal: 2 partitions can't be compared")
    first, _, same = found.as_dict(20)["partitions"]
    assert (first["equal"], first["reason"][: len(SAID)], same["equal"], same["reason"]) == (False, SAID, True, None)
    kept = found.verification()
    assert (kept.equal, kept.compared, kept.differences) == (False, 3, 0)


def test_differences_come_first() -> None:
    assert shown(result(compared(DIFFERENT, *WANTED)), 20).endswith("\nnot equal")
