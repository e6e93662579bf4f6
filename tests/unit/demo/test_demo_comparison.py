"""What the demo counts: a partition that was never copied is lost, and what can't be compared is no success."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.commands.verify.differences import Counts
from mirror.commands.verify.digests import Digester, Stretch
from mirror.commands.verify.ranges import PartitionRanges, Side
from mirror.commands.verify.selection import Selection
from mirror.demo import command
from mirror.errors import MirrorError
from mirror.records.consumed import Record
from tests.unit.test_naming import flow


class Hundred(Digester):
    """A hundred records in each log; those of a topic named `backup.other` are others."""

    def _all(self, stretch: Stretch, stop: int) -> Iterator[Record]:
        for offset in range(stretch.start, min(100, stop)):
            yield offset, 0, b"%s %d" % (b"x" if stretch.topic == "backup.other" else b"", offset)


def compare(monkeypatch: pytest.MonkeyPatch, selection: Selection) -> Counts:
    loaded = SimpleNamespace(flows=[flow()])
    monkeypatch.setattr(command, "load", lambda _: loaded)
    monkeypatch.setattr(command, "select", lambda *_: selection)
    monkeypatch.setattr(command, "Digester", Hundred)
    demo: Any = command.Demo.__new__(command.Demo)
    demo.service = SimpleNamespace(config=Path("demo.yaml"))
    demo._signals = SimpleNamespace(check=lambda: None)
    found: Counts = demo._compare("orders")
    return found


def ranges(partition: int, copied: int, target: str = "backup.orders", start: int = 0) -> PartitionRanges:
    sides = Side("primary", "orders", partition, start, 100), Side("backup", target, partition, 0, copied)
    return PartitionRanges(*sides, 100, True)


def test_a_partition_that_was_never_copied_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compare(monkeypatch, Selection([ranges(0, 100)], (), [ranges(1, 0)]))
    assert (found.source, found.target, found.lost, found.equal) == (200, 100, 100, False)
    assert compare(monkeypatch, Selection([ranges(0, 100)], (), ())).equal


def test_what_can_not_be_compared_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MirrorError, match="orders-0 can't be compared: nothing says which records of both clusters"):
        compare(monkeypatch, Selection([ranges(0, 100, "backup.other", start=10)], (), ()))
    unknown = PartitionRanges(ranges(0, 0).source, ranges(0, 0).target, 0, True, reason="its leader is away")
    with pytest.raises(MirrorError, match="orders-0 can't be compared: its leader is away"):
        compare(monkeypatch, Selection([unknown], (), ()))
