"""Partitions are compared in groups, and what is kept of their differences has a limit over all of them."""

from __future__ import annotations

import pytest

from mirror.commands.verify import verify as module
from mirror.commands.verify.verify import InProcess, verify
from tests.unit.commands.verify.test_unreadable import RECORDS, Logs, copied, log, ranges


def test_the_chunks_of_one_group_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group is compared before the next one is read."""
    monkeypatch.setattr(module, "GROUP_OFFSETS", 4 * RECORDS)
    read: list[str] = []
    records = copied("a", "b", "c")
    for topic in "abc":
        records[f"b.{topic}"] = log(*range(500), -1, *range(501, RECORDS))
    logs = Logs(records, lambda _, method, stretch: read.append(f"{method} {stretch.topic[-1]}"))
    found = verify([ranges(topic) for topic in "abc"], logs, InProcess(), lambda *_: None)
    assert [each.counts.altered for each in found] == [1, 1, 1]
    assert list(dict.fromkeys(read)) == [
        *("chunks a", "chunks b", "entries a", "entries b", "entries_with a", "entries_with b"),
        *("chunks c", "entries c", "entries_with c"),
    ]


@pytest.mark.parametrize("in_groups", [True, False])
def test_later_differences_are_only_counted(monkeypatch: pytest.MonkeyPatch, in_groups: bool) -> None:
    monkeypatch.setattr(module, "DETAIL_MAX", 4 * RECORDS)
    monkeypatch.setattr(module, "DETAIL_MIN", 100)
    monkeypatch.setattr(module, "GROUP_OFFSETS", (2 if in_groups else 100) * RECORDS)
    names = [f"t{number}" for number in range(5)]
    records = copied(*names, "one", "right")
    for name in names:
        records[f"b.{name}"] = log(*range(RECORDS, 2 * RECORDS))
    records["b.one"] = log(*range(500), -1, *range(501, RECORDS))
    wanted = [*map(ranges, names), ranges("one"), ranges("right", start=300)]
    *found, one, right = verify(wanted, Logs(records), InProcess(), lambda *_: None)
    assert [each.counts.altered for each in found] == [RECORDS] * 5, "all are counted"
    listed = [len(each.differences) for each in found]
    # Within a group nobody knows yet that the two records of a pair are one difference.
    assert listed == ([RECORDS, RECORDS, RECORDS, 0, 0] if in_groups else [RECORDS, RECORDS, 0, 0, 0])
    assert [each.unseen for each in found] == [2 * RECORDS - 2 * some for some in listed]
    # A few differences are always looked at: ranges begin and end within chunks.
    assert (one.counts.altered, one.unseen, one.compared) == (1, 0, RECORDS - 1)
    assert right.equal and (right.unseen, right.gone_source) == (0, 300)
