"""The mapping of offsets that consumers move over with."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import pytest

from tests.checker.history import Record
from tests.harness import syncs
from tests.harness.load import Load, Made
from tests.harness.pair import Pair
from tests.harness.syncs import Sync
from tests.harness.waiting import until

LAG_MAX = 100  # the default of offset_lag_max

pytestmark = [pytest.mark.containers, pytest.mark.both_paths]


def test_syncs_are_exact_dense_and_never_ahead(shared: Pair) -> None:
    topic = shared.topic("synced", 4)
    with Load(shared.source, {topic: 3}) as plain:
        plain.wait_for(5_000)
    # Markers and aborted records leave gaps in the upstream offsets.
    with Load(shared.source, {topic: 3}, transaction=251, abort_every=4, first=1_000_000) as transactions:
        transactions.wait_for(5_000)
    shared.produce(topic, Made(b"lone", b"record"), partition=3)
    source = shared.await_same(topic)
    target = shared.copied(topic)
    tails = {partition: records[-1].offset for partition, records in source.items()}

    def complete() -> dict[int, list[Sync]] | None:
        found = syncs.read(shared.target, shared.alias)
        mine = {partition: found[topic, partition] for partition in tails}
        synced = {partition: each[-1].upstream if each else None for partition, each in mine.items()}
        return mine if synced == tails else None

    written = until("the last record of each idle partition has a sync", complete)
    for partition, records in source.items():
        check(records, target[partition], written[partition])


def check(source: list[Record], target: list[Record], written: list[Sync]) -> None:
    assert written == sorted(set(written)), "in order, none twice"
    exact = {up.offset: down.offset for up, down in zip(source, target, strict=True)}
    for sync in written:
        assert exact.get(sync.upstream) == sync.downstream, f"{sync} pairs two different records"
    marks = [sync.upstream for sync in written]
    upstream = list(exact)
    for index, offset in enumerate(upstream):
        before = bisect_right(marks, offset) - 1
        assert before >= 0, f"offset {offset} has no sync before it"
        since = index - bisect_left(upstream, marks[before])
        assert since <= LAG_MAX, f"offset {offset} is {since} records after its sync"
        assert since == offset - marks[before], f"there is a gap between offset {offset} and its sync"
    downstream = list(exact.values())
    for position in range(upstream[0], upstream[-1] + 2):
        translated = syncs.translate(written, position)
        assert translated is not None
        # What a group at this position has not read yet begins here.
        first = bisect_left(upstream, position)
        unread = downstream[first] if first < len(downstream) else downstream[-1] + 1
        assert translated <= unread, f"position {position} becomes {translated}, which skips the record at {unread}"
        again = bisect_left(downstream, unread) - bisect_left(downstream, translated)
        assert again <= LAG_MAX, f"position {position} becomes {translated}: {again} records are read again"
