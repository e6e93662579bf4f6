"""How many records are between two offsets of a remote partition, as the batch path reads them."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from mirror.batches.headers import TRANSACTIONAL
from mirror.errors import OutcomeUnknown, PositionUnstable, Unavailable
from mirror.target import visible_records
from mirror.target.visible_records import count_between, is_visible
from mirror.wire.cluster import Cluster
from mirror.wire.error_codes import CODES
from mirror.wire.fetch import FetchAnswer
from tests.harness import batches
from tests.harness.batch_target import Target
from tests.unit.target.test_batch_take_over import part_of

OPEN, THEIRS = part_of(10, TRANSACTIONAL, producer=8), part_of(14)
MARKER = batches.marker(13, 8, commit=False)


def counted(target: Target, first: int, end: int, most: int = 100) -> int | None:
    return asyncio.run(count_between(cast(Cluster, target), ("remote", 0), first, end, most))


@pytest.mark.parametrize(
    ("logs", "records"),
    [
        ({10: OPEN + MARKER + THEIRS}, 6),
        ({10: OPEN, 13: MARKER, 14: THEIRS}, 6),
        ({10: OPEN + MARKER + THEIRS + part_of(17)}, 6),  # what begins at the end is not counted
        ({10: part_of(7) + OPEN + MARKER + THEIRS}, 6),  # nor what is before
        ({10: batches.batch([], first=10, last=15) + batches.marker(16, 8, commit=True)}, 0),  # compacted away
        ({10: OPEN}, None),  # what follows is not said
        ({10: OPEN + MARKER + THEIRS[:-1] + b"?"}, None),  # it can't be read
        ({}, None),
    ],
)
def test_records_count_and_markers_do_not(logs: dict[int, bytes], records: int | None) -> None:
    """Whether a transaction has ended, or was aborted, makes no difference."""
    target = Target(log=lambda at: (logs.get(at, b""), ()))
    assert counted(target, 10, 17) == records
    assert set(target.isolations) == {0}, "an open transaction hides nothing"


def test_no_more_is_read_than_is_needed() -> None:
    logs = {10: OPEN, 13: MARKER, 14: THEIRS}
    target = Target(log=lambda at: (logs[at], ()))
    assert counted(target, 10, 17, most=2) == 3 and target.count("Fetch") == 1


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "TOPIC_AUTHORIZATION_FAILED", "OFFSET_OUT_OF_RANGE"])
def test_a_target_that_refuses_to_say_it(error: str) -> None:
    assert counted(Target(kinds={"Fetch": [CODES[error]]}), 10, 17) is None


def test_a_target_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_records, "COUNT_TIMEOUT", 0.01)
    target = Target(delay=30, log=lambda _: (OPEN + MARKER + THEIRS, ()))
    assert counted(target, 10, 17) is None and not target.requests


@pytest.mark.parametrize(
    ("log", "aborted", "visible"),
    [
        (OPEN + MARKER + THEIRS, ((8, 10),), False),
        (OPEN + batches.marker(13, 8, commit=True) + THEIRS, (), True),
        (OPEN + MARKER, ((8, 4),), False),  # the transaction began before
        (part_of(10), (), True),
        (part_of(9), (), True),  # the offset is within the batch
        (THEIRS, (), None),  # compaction or retention has removed it
        (batches.batch([], first=10, last=12), (), None),
        (OPEN[:-1] + b"?", (), None),  # it can't be read
        (b"", (), None),
    ],
)
def test_a_record_is_visible_unless_its_transaction_was_aborted(
    log: bytes, aborted: tuple[tuple[int, int], ...], visible: bool | None
) -> None:
    target = Target(log=lambda _: (log, aborted))
    assert asyncio.run(is_visible(cast(Cluster, target), ("remote", 0), 10)) is visible
    assert target.isolations == [1]


def test_a_target_that_gives_no_partition_for_a_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "_fetched", lambda *_: FetchAnswer(0, 30, [], {}, 0, False))
    with pytest.raises(Unavailable):
        asyncio.run(is_visible(cast(Cluster, Target()), ("remote", 0), 10))


def test_a_target_that_does_not_say_whether_a_record_is_visible() -> None:
    """What passes is tried again with the take-over. If it does not, the position alone counts."""
    behind = Target(ends={"remote": 10})  # its leader was elected just now
    with pytest.raises(PositionUnstable):
        asyncio.run(is_visible(cast(Cluster, behind), ("remote", 0), 10))
    moved = Target(kinds={"Fetch": [CODES["NOT_LEADER_OR_FOLLOWER"]]})
    with pytest.raises(OutcomeUnknown):
        asyncio.run(is_visible(cast(Cluster, moved), ("remote", 0), 10))
    failing = Target(kinds={"Fetch": [CODES["UNKNOWN_SERVER_ERROR"]]})
    with pytest.raises(OutcomeUnknown):
        asyncio.run(is_visible(cast(Cluster, failing), ("remote", 0), 10))
    for lasting in ("TOPIC_AUTHORIZATION_FAILED", "OFFSET_OUT_OF_RANGE"):
        target = Target(kinds={"Fetch": [CODES[lasting]]})
        assert asyncio.run(is_visible(cast(Cluster, target), ("remote", 0), 10)) is None
