"""Where records go, and how many of those that were sent are read."""

from __future__ import annotations

import pytest

from tests.bench.live import TOPIC_MAX, Path, spread


@pytest.mark.parametrize(("partitions", "read"), [(4, 0), (10, 3), (3, 3)])
def test_records_of_partitions_that_are_read(partitions: int, read: int) -> None:
    path = Path("source", "topic", "target", "remote", partitions, read)
    for sent in range(25):
        assert path.arriving(sent) == sum(each % partitions < (read or partitions) for each in range(sent))


@pytest.mark.parametrize("partitions", [3, TOPIC_MAX, 2 * TOPIC_MAX + 5])
def test_each_partition_gets_a_record_in_turn(partitions: int) -> None:
    path = Path("source", "topic", "target", "remote", partitions)
    found = [path.place(number) for number in range(2 * partitions)]
    assert found[:partitions] == found[partitions:]
    parts = spread("topic", partitions)
    assert found[:partitions] == [(topic, number) for topic, count in parts.items() for number in range(count)]
    assert found[0] == ("topic", 0) and max(parts.values()) <= TOPIC_MAX
