"""A partition that can't be read is left out alone; of one whose records are removed meanwhile, what is left counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import pytest

from mirror.commands.verify import jobs
from mirror.commands.verify import verify as module
from mirror.commands.verify.command import FlowResult, shown
from mirror.commands.verify.digests import Chunk, Digester, RecordDigest, Stretch, cut
from mirror.commands.verify.partition_comparison import ComparisonResult
from mirror.commands.verify.ranges import PartitionRanges, Side
from mirror.commands.verify.verify import InProcess, verify
from mirror.errors import Malformed, MirrorError, NotComparable

RECORDS = 1_000
METHODS = ["chunks", "entries", "entries_with"]
Happening = Callable[["Logs", str, Stretch], None]


def digest(content: int) -> bytes:
    """The digest of a record; one of eight ends a chunk."""
    mark = blake2b(b"%d" % content, digest_size=16).digest()
    return (b"\x00\x00" if mark[-1] < 32 else b"\xff\xff") + mark[2:]


def log(*contents: int) -> list[RecordDigest]:
    return [RecordDigest(offset, digest(content), 0) for offset, content in enumerate(contents)]


@dataclass
class Logs(Digester):
    """Reads logs, by topic, that may be shortened: `happens` is called before each reading."""

    records: dict[str, list[RecordDigest]]
    happens: Happening = lambda *_: None
    starts: dict[str, int] = field(default_factory=dict)

    def chunks(self, stretch: Stretch) -> list[Chunk]:
        """The chunks of a stretch."""
        read = self._read_now("chunks", stretch, stretch.limit)
        return cut(((entry.offset, entry.digest) for entry in read), stretch.end, stretch.first)

    def entries(self, stretch: Stretch) -> list[RecordDigest]:
        """Each record of a stretch."""
        return self._read_now("entries", stretch, stretch.end)

    def entries_with(self, wanted: frozenset[bytes], stretch: Stretch) -> list[RecordDigest]:
        """The records of a stretch that have one of these digests."""
        return [entry for entry in self._read_now("entries_with", stretch, stretch.end) if entry.digest in wanted]

    def start(self, stretch: Stretch) -> int:
        """Where the log begins."""
        return self.starts.get(stretch.topic, 0)

    def _read_now(self, method: str, stretch: Stretch, stop: int) -> list[RecordDigest]:
        self.happens(self, method, stretch)
        if stretch.start < stop and stretch.start < self.start(stretch):
            raise MirrorError("records were removed")
        return [entry for entry in self.records[stretch.topic] if stretch.start <= entry.offset < stop]


def ranges(topic: str, partition: int = 0, start: int = 0, records: int = RECORDS) -> PartitionRanges:
    source, target = Side("a", topic, partition, start, RECORDS), Side("b", f"b.{topic}", partition, 0, records)
    return PartitionRanges(source, target, RECORDS, True, (), True)


def copied(*topics: str) -> dict[str, list[RecordDigest]]:
    return {name: log(*range(RECORDS)) for topic in topics for name in (topic, f"b.{topic}")}


def compared(logs: Logs, *wanted: PartitionRanges) -> list[ComparisonResult]:
    return verify(wanted, logs, InProcess(), lambda *_: None)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STRETCH_MIN", 100)
    monkeypatch.setattr(module, "STRETCH_MAX", 100)


def failing(error: Exception, topic: str, method: str, partition: int = 0) -> Happening:
    def happens(logs: Logs, called: str, stretch: Stretch) -> None:
        if (stretch.topic, called, stretch.partition) == (topic, method, partition):
            raise error

    return happens


@pytest.mark.parametrize(
    ("side", "method"), [*((side, method) for side in ("bad", "b.bad") for method in METHODS[:2]), ("bad", METHODS[2])]
)
def test_the_other_partitions_are_compared(side: str, method: str) -> None:
    records = copied("bad", "good")
    records["b.bad"] = records["b.good"] = log(*range(500), -1, *range(501, RECORDS))
    happens = failing(MirrorError("bad-0 can't be read: a checksum is wrong"), side, method)
    bad, other, good = compared(Logs(records, happens), ranges("bad"), ranges("bad", 1), ranges("good"))
    assert (bad.reason, bad.equal, bad.compared) == ("bad-0 can't be read: a checksum is wrong", False, 0)
    assert not other.reason and not good.reason
    assert good.counts.altered == other.counts.altered == 1 and good.compared == RECORDS - 1


def test_the_answer_has_the_reason_and_the_others() -> None:
    happens = failing(Malformed("the checksum is wrong"), "bad", "chunks")
    found = compared(Logs(copied("bad"), happens), ranges("bad"), ranges("bad", 1))
    result = FlowResult("a->b", found, (), (), None)
    text = shown(result, 20)
    assert not result.equal and not result.whole
    assert "  bad-0 on a can't be read: the checksum is wrong\n" in text
    (row,) = [line for line in text.splitlines() if line.startswith("bad ")]
    assert row.split()[:3] == ["bad", "2", "1,000"]
    assert text.endswith("\nnot known to be equal: 1 partition can't be compared")
    assert [each["reason"] is None for each in result.as_dict(20)["partitions"]] == [False, True]
    assert (result.verification().equal, result.verification().compared) == (False, RECORDS)


def test_a_topic_that_is_not_comparable_is_so_in_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUP_PARTITIONS", 1)
    happens = failing(NotComparable("it depends on the time"), "bad", "chunks", 1)
    found = compared(Logs(copied("bad", "good"), happens), ranges("bad"), ranges("bad", 1), ranges("good"))
    assert [each.reason for each in found] == ["it depends on the time"] * 2 + [""]


def test_ranges_that_are_not_known_are_not_read() -> None:
    unknown = replace(ranges("bad"), reason="its leader is away")
    happens = failing(AssertionError("it is read"), "bad", "chunks")
    bad, good = compared(Logs(copied("bad", "good"), happens), unknown, ranges("good"))
    assert (bad.reason, good.equal) == ("its leader is away", True)


def removing(side: str, method: str, start: int, only: int = 0) -> Happening:
    """Remove the records before `start` when a stretch from `only` on is read by this method."""

    def happens(logs: Logs, called: str, stretch: Stretch) -> None:
        if (stretch.topic, called) == (side, method) and stretch.start >= only:
            logs.starts[side] = start

    return happens


@pytest.mark.parametrize("only", [0, 300])
@pytest.mark.parametrize("start", [1, 250, 300, 305, 399, 700, RECORDS])
@pytest.mark.parametrize("side", ["t", "b.t"])
def test_what_is_removed_meanwhile_is_no_difference(side: str, start: int, only: int) -> None:
    (result,) = compared(Logs(copied("t"), removing(side, "chunks", start, only)), ranges("t"))
    assert result.equal and not result.reason, result
    gone = (result.gone_source, result.gone_target)[side == "b.t"]
    assert result.compared == RECORDS - gone
    if start > only:
        assert 0 <= gone - start < 60, "at most the rest of a chunk is left out with it"
    else:
        assert not gone, "it was read before"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start", [100, 300, 450])
def test_a_difference_after_what_is_removed_meanwhile_is_found(start: int, method: str) -> None:
    records = copied("t")
    records["b.t"] = log(*range(500), 7, *range(501, RECORDS), 700)
    (result,) = compared(Logs(records, removing("t", method, start)), ranges("t", records=RECORDS + 1))
    assert not result.reason
    # What is there twice is known for that as long as the source has the first one.
    assert result.counts.altered + result.counts.lost == 1 and result.counts.duplicated >= 1


@pytest.mark.parametrize("side", ["t", "b.t"])
def test_the_beginning_is_removed_before_it_is_compared(side: str) -> None:
    """The first chunk of a log that was cut is always read again, and what it has is removed by then."""
    (result,) = compared(Logs(copied("t"), removing(side, "entries", 400)), ranges("t", start=200))
    assert result.equal and not result.reason
    assert result.compared + max(result.gone_source, result.gone_target) >= RECORDS - 200


@pytest.mark.parametrize("method", ["chunks", "entries"])
def test_a_log_that_is_shortened_again_and_again_is_given_up(method: str) -> None:
    records = copied("t", "good")
    records["b.t"] = log(*range(RECORDS, 2 * RECORDS))

    def happens(logs: Logs, called: str, stretch: Stretch) -> None:
        if (stretch.topic, called) == ("t", method):
            logs.starts["t"] = stretch.start + 1

    result, good = compared(Logs(records, happens), ranges("t"), ranges("good"))
    assert result.reason == "t-0 on a can't be compared: its records are removed while they are read" and good.equal


def test_an_error_is_the_reason_if_the_log_has_not_lost_what_is_read() -> None:
    logs = Logs(copied("t"), failing(MirrorError("truncated"), "t", "chunks"), {"t": 0})
    assert [each.reason for each in compared(logs, ranges("t"))] == ["truncated"]


def test_jobs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "JOB_MAX", 7)
    sizes, told = [], []

    class Spy(InProcess):
        def map(self, function, items, progress):  # type: ignore[no-untyped-def]
            sizes.append(len(items))
            return super().map(function, items, progress)

    wanted = [ranges(f"t{number}") for number in range(3)]
    found = verify(wanted, Logs(copied("t0", "t1", "t2")), Spy(), lambda done, total: told.append((done, total)))
    assert all(each.equal and each.compared == RECORDS for each in found)
    assert max(sizes) == 7 and sum(sizes) == 60
    assert told == sorted(told) and told[-1] == (6 * RECORDS, 6 * RECORDS)
