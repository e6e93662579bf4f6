"""`mirror verify` with active_active: what others wrote is no difference, and a planted fault is found."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Message

from mirror.batches.records import Content, encode
from mirror.commands.verify.digests import Digester, Stretch
from mirror.commands.verify.partition_comparison import ComparisonResult
from mirror.commands.verify.ranges import PartitionRanges, Side
from mirror.commands.verify.verify import InProcess, verify
from mirror.kafka.provenance import NAME, ProvenanceFilter
from mirror.records.consumed import Record
from mirror.records.shared_topics import Shared

HERE = ("orders", 3)
TO_B, TO_A = Shared("a", "id-a", "id-b"), Shared("b", "id-b", "id-a")
OURS: tuple[bytes, bytes] = (NAME.encode(), b"orders,3,id-a")
OTHER = (b"app", b"1")


def record(*headers: tuple[bytes | None, bytes | None]) -> Record:
    return 7, 1_000, encode(Content(b"k", None, headers))


@pytest.mark.parametrize(
    ("headers", "on_source", "on_target"),
    [
        ([], True, False),
        ([OTHER], True, False),
        ([OURS], True, True),
        ([OTHER, OURS], True, True),
        ([(NAME.encode(), b"orders,3,id-c,id-a")], True, True),
        ([(NAME.encode(), b"orders,3,id-b")], False, False),
        ([(NAME.encode(), b"orders,3,id-b,id-a")], False, True),
        ([OURS, OURS], True, False),
        ([(NAME.encode(), b"results,3,id-a")], True, False),
        ([(NAME.encode(), b"results,3,id-b")], True, False),
        ([(NAME.encode() + b"\0", b"orders,3,id-b"), (None, b"mirror.provenance")], True, False),
    ],
)
def test_which_records_are_compared(headers: list[Any], on_source: bool, on_target: bool) -> None:
    """They are compared without the header, so that the source's records and their copies are the same."""
    plain = record(*(each for each in headers if each[0] != NAME.encode()))
    for cluster, expected in (("a", on_source), ("b", on_target)):
        found = list(TO_B.own(cluster, *HERE, [record(*headers)]))
        assert found == ([plain] if expected else [])


def test_a_record_that_can_not_be_read_is_none_of_the_copies() -> None:
    unreadable: Record = (7, 1_000, None)
    assert list(TO_B.own("a", *HERE, [unreadable])) == [unreadable] and not list(TO_B.own("b", *HERE, [unreadable]))


@dataclass
class World:
    """One partition on two clusters, with programs that write to both, and a flow in each direction."""

    logs: dict[str, list[Message]] = field(default_factory=lambda: {"a": [], "b": []})
    positions: dict[str, int] = field(default_factory=lambda: {"a": 0, "b": 0})
    ends: dict[str, int] = field(default_factory=lambda: {"a": 0, "b": 0})

    def write(self, cluster: str, value: bytes, headers: Any = None, timestamp: int = 1) -> None:
        self.logs[cluster].append(Message(*HERE, self.ends[cluster], None, value, headers, timestamp=(1, timestamp)))
        self.ends[cluster] += 1

    def copy(self, source: str, most: int) -> None:
        target = "b" if source == "a" else "a"
        new = [each for each in self.logs[source] if int(each.offset() or 0) >= self.positions[source]][:most]
        if not new:
            return
        kept, headers = ProvenanceFilter(HERE, HERE, (f"id-{source}", f"id-{target}"))(new, [m.headers() for m in new])
        for message, given in zip(kept, headers, strict=True):
            self.write(target, message.value() or b"", given, message.timestamp()[1])
        self.ends[target] += bool(kept)  # the transaction's marker
        self.positions[source] = int(new[-1].offset() or 0) + 1

    def compare(self, shared: Shared) -> ComparisonResult:
        source, target = shared.source, "b" if shared.source == "a" else "a"
        ranges = PartitionRanges(
            Side(source, *HERE, 0, self.positions[source]),
            Side(target, *HERE, 0, self.ends[target]),
            self.positions[source],
            True,
            (),
            True,
        )
        (result,) = verify([ranges], InMemory(self.logs, shared), InProcess(), lambda *_: None)
        return result


class InMemory(Digester):
    """Reads these logs."""

    def __init__(self, logs: dict[str, list[Message]], shared: Shared) -> None:
        super().__init__({}, shared=shared)
        self._logs = logs

    def _all(self, stretch: Stretch, stop: int) -> Iterator[Record]:
        for each in self._logs[stretch.cluster]:
            if stretch.start <= int(each.offset() or 0) < stop:
                headers: Sequence[Any] = [(name.encode(), value) for name, value in each.headers() or ()]
                yield int(each.offset() or 0), each.timestamp()[1], encode(Content(None, each.value(), headers))


def world(seed: int) -> World:
    """Programs have written 300 records on each side, some as others; all are copied."""
    chance, made = random.Random(seed), World()
    for number in range(600):
        cluster = "ab"[number % 2]
        made.write(cluster, b"%d" % (number if chance.random() < 0.9 else 0), chance.choice([None, [("app", b"1")]]))
        if chance.random() < 0.2:
            made.copy(chance.choice("ab"), chance.randint(1, 50))
    for _ in range(2):  # what the first flow brings, the second one leaves out
        made.copy("a", 10_000)
        made.copy("b", 10_000)
    return made


@pytest.mark.parametrize("seed", range(5))
def test_two_flows_are_equal_and_each_record_is_on_both_sides_once(seed: int) -> None:
    made = world(seed)
    assert {cluster: len(log) for cluster, log in made.logs.items()} == {"a": 600, "b": 600}
    for shared in (TO_B, TO_A):
        result = made.compare(shared)
        assert result.equal and (result.compared, result.in_flight) == (300, 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fault", ["lost", "duplicated", "altered"])
def test_a_fault_is_found_in_one_direction_and_not_in_the_other(seed: int, fault: str) -> None:
    made = world(seed)
    log = made.logs["b"]
    copies = [n for n, each in enumerate(log) if dict(each.headers() or ()).get(NAME)]
    at = random.Random(seed).choice(copies)
    old = log[at]
    if fault == "lost":
        del log[at]
    elif fault == "altered":
        log[at] = Message(*HERE, old.offset(), None, b"other", old.headers(), timestamp=(1, 2))
    else:
        made.write("b", old.value() or b"", old.headers())
    assert getattr(made.compare(TO_B).counts, fault) == 1 and not made.compare(TO_B).equal
    assert made.compare(TO_A).equal
