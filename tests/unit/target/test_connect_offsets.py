"""What MirrorMaker 2 has recorded, read from topics to which anybody may write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model import Partition
from mirror.target import connect_offsets
from mirror.target.connect_offsets import Raw, Recorded, Sync, Written, positions, syncs
from mirror.target.offset_syncs import OffsetSync

CONNECTOR, CLUSTER = "MirrorSourceConnector", "primary"
ORDERS = Partition("orders", 3)
# As Kafka 4.2 writes it.
KEY = b'["MirrorSourceConnector",{"cluster":"primary","partition":3,"topic":"orders"}]'


def read(*records: tuple[bytes | None, bytes | None]) -> Written:
    return positions([Raw(0, *record) for record in records], CONNECTOR, CLUSTER)


def key(connector: Any = CONNECTOR, **of: Any) -> bytes:
    return json.dumps([connector, {"cluster": CLUSTER, "partition": 3, "topic": "orders", **of}]).encode()


def test_the_position_is_the_offset_after_the_last_copied_record() -> None:
    assert read((KEY, b'{"offset":41}')) == Written({ORDERS: Recorded(42)}, 0)


def test_the_newest_value_of_a_key_counts_and_a_tombstone_takes_it_back() -> None:
    assert read((KEY, b'{"offset":41}'), (KEY, b'{"offset":7}')).positions == {ORDERS: Recorded(8)}
    assert read((KEY, b'{"offset":41}'), (KEY, None)).positions == {}


def test_what_others_have_recorded_is_left_out() -> None:
    others = [
        key("MirrorHeartbeatConnector"),
        key(cluster="other"),
        b'["jdbc",{"table":"orders"}]',
        b'["MirrorCheckpointConnector"]',
        b"task-count-record",
        b"\xff\xfe",
        b"",
        None,
    ]
    assert read(*((other, b'{"offset":1}') for other in others)) == Written({}, 0)


@pytest.mark.parametrize(
    "wrong",
    [{"partition": -1}, {"partition": "3"}, {"partition": True}, {"topic": "a b"}, {"topic": 5}, {"cluster": 1}],
)
def test_a_key_of_the_connector_that_names_no_partition_is_counted(wrong: dict[str, Any]) -> None:
    assert read((key(**wrong), b'{"offset":1}')) == Written({}, 1)


@pytest.mark.parametrize(
    "value", [b"", b"41", b"null", b"[]", b"{}", b'{"offset":"41"}', b'{"offset":-1}', b'{"offset":1.5}', b"\xff"]
)
def test_a_value_that_is_no_offset_is_a_problem_of_its_partition(value: bytes) -> None:
    (found,) = read((KEY, value)).positions.values()
    assert found.position == -1 and "can't be decoded" in found.problem


def test_an_offset_that_no_log_has_is_a_problem() -> None:
    (found,) = read((KEY, json.dumps({"offset": 2**63 - 1}).encode())).positions.values()
    assert found.position == -1


def test_two_keys_for_one_partition_count_if_they_agree() -> None:
    other = b'["MirrorSourceConnector",{"topic":"orders","partition":3,"cluster":"primary"}]'
    assert read((KEY, b'{"offset":41}'), (other, b'{"offset":41}')).positions == {ORDERS: Recorded(42)}
    (found,) = read((KEY, b'{"offset":41}'), (other, b'{"offset":7}')).positions.values()
    assert found.position == -1 and "42 and 8" in found.problem


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
KEYS = st.one_of(
    st.binary(max_size=40),
    JSON.map(lambda each: json.dumps(each).encode()),
    st.dictionaries(st.sampled_from(["cluster", "partition", "topic", "x"]), JSON).map(
        lambda each: json.dumps([CONNECTOR, each]).encode()
    ),
    st.just(KEY),
)


@given(
    st.lists(
        st.builds(
            Raw,
            st.integers(0, 3),
            st.none() | KEYS,
            st.none() | st.binary(max_size=20) | JSON.map(lambda each: json.dumps({"offset": each}).encode()),
        ),
        max_size=6,
    )
)
def test_whatever_stands_there_positions_are_sound(records: list[Raw]) -> None:
    for partition, found in positions(records, CONNECTOR, CLUSTER).positions.items():
        assert isinstance(partition.topic, str) and 0 <= partition.partition < 2**31
        assert (0 < found.position < 2**63) != bool(found.problem)
        assert all(character.isprintable() for character in found.problem)


def test_the_newest_sync_of_each_partition() -> None:
    written = [OffsetSync("orders", 3, 10, 12), OffsetSync("orders", 0, 1, 1), OffsetSync("orders", 3, 20, 30)]
    records = [Raw(0, sync.key(), sync.value()) for sync in written]
    assert syncs(records) == {ORDERS: Sync(20, 30), Partition("orders", 0): Sync(1, 1)}


@given(st.lists(st.builds(Raw, st.just(0), st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=20))))
def test_what_is_no_sync_is_left_out(records: list[Raw]) -> None:
    for partition, sync in syncs(records).items():
        assert partition.partition >= 0 and min(sync) >= 0


def test_a_sync_with_impossible_numbers_is_left_out() -> None:
    wrong = [OffsetSync("orders", -1, 1, 1), OffsetSync("orders", 0, -1, 1), OffsetSync("a b", 0, 1, 1)]
    assert syncs([Raw(0, sync.key(), sync.value()) for sync in wrong]) == {}


def test_a_key_has_the_very_bytes_of_kafka_connect() -> None:
    """Connect looks for a key by its bytes."""
    assert connect_offsets.key(CONNECTOR, CLUSTER, ORDERS) == KEY
    strimzi = connect_offsets.key("a->b.MirrorSourceConnector", "a", Partition("x.y-z_1", 12))
    assert strimzi == b'["a->b.MirrorSourceConnector",{"cluster":"a","partition":12,"topic":"x.y-z_1"}]'
    assert connect_offsets.key("é", "a", ORDERS).startswith('["é",'.encode())


def test_a_value_is_the_offset_of_the_last_copied_record() -> None:
    assert connect_offsets.value(42) == b'{"offset":41}'
    assert connect_offsets.value(1) == b'{"offset":0}'
    assert connect_offsets.value(0) is None


@given(topic=st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True), number=st.integers(0, 10**5), at=st.integers(1))
def test_what_is_written_is_read(topic: str, number: int, at: int) -> None:
    position = at % 2**63 or 1
    where = Partition(topic, number)
    record = Raw(0, connect_offsets.key(CONNECTOR, CLUSTER, where), connect_offsets.value(position))
    assert positions([record], CONNECTOR, CLUSTER) == Written({where: Recorded(position)}, 0)
