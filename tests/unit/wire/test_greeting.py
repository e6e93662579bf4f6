"""What a broker says of itself before the login: its versions and features."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import Malformed, Unsupported, WireError
from mirror.varints import write_unsigned
from mirror.wire.cursor import ITEMS_MAX, Cursor
from mirror.wire.greeting import Features, api_versions
from mirror.wire.requests import Api


def decoded(answer: bytes) -> Features:
    found, _ = api_versions().decode(3, memoryview(answer))
    return found.features


# As Kafka 4.2.0 answers, with two of its requests.
def compact(count: int) -> bytes:
    return bytes([count + 1])


def named(name: str, first: int, second: int) -> bytes:
    return compact(len(name)) + name.encode() + struct.pack(">hh", first, second) + b"\0"


def tagged(tag: int, content: bytes) -> bytes:
    return bytes([tag, len(content)]) + content


HEAD = struct.pack(">h", 0) + compact(2)
HEAD += struct.pack(">hhh", 0, 3, 13) + b"\0" + struct.pack(">hhh", 24, 0, 5) + b"\0" + struct.pack(">i", 0)
SUPPORTED = tagged(0, compact(1) + named("metadata.version", 7, 29))
EPOCH = tagged(1, struct.pack(">q", 5))
FINALIZED = tagged(2, compact(1) + named("transaction.version", 2, 2))
ANSWER = HEAD + b"\x03" + SUPPORTED + EPOCH + FINALIZED


def test_an_answer_is_read() -> None:
    assert decoded(ANSWER) == Features({"metadata.version": 29}, {"transaction.version": 2})
    assert decoded(HEAD + b"\0") == Features({}, {}), "a broker before features"


def test_a_broker_that_does_not_know_the_clusters_levels_says_so() -> None:
    unknown = tagged(1, struct.pack(">q", -1))
    assert decoded(HEAD + b"\x03" + SUPPORTED + unknown + FINALIZED).finalized == {}


def test_a_broker_that_is_too_old_for_the_request() -> None:
    """It says so in the format of version 0 (KIP-511), and is asked again."""
    found, _ = api_versions().decode(3, memoryview(struct.pack(">h", 35) + b"\0\0\0\0"))
    assert not found.known


@pytest.mark.parametrize("cut", range(len(ANSWER)))
def test_an_answer_that_is_cut(cut: int) -> None:
    with pytest.raises(Malformed):
        decoded(ANSWER[:cut])


@given(st.binary(max_size=200), st.integers(0, len(ANSWER)))
def test_any_bytes_are_an_answer_or_refused(noise: bytes, at: int) -> None:
    """Hostile lengths take no time and no memory."""
    try:
        decoded(ANSWER[:at] + noise)
    except WireError as error:
        assert str(error)


@pytest.mark.parametrize("flexible", [False, True])
def test_lists_have_no_more_items_than_memory_is_worth(flexible: bool) -> None:
    """Each needs a hundred times the bytes that it takes in the answer. They are counted before they are read."""
    half = ITEMS_MAX // 2
    length = write_unsigned(half + 2) if flexible else struct.pack(">i", half + 1)
    answer = Cursor((length + bytes(half + 1)) * 2, flexible=flexible)
    assert len(answer.array(Cursor.int8, 1)) == half + 1
    with pytest.raises(Malformed, match=f"more than {ITEMS_MAX} items"):
        answer.array(lambda _: pytest.fail("it is read"), 1)
    tags = Cursor(write_unsigned(ITEMS_MAX + 1) + bytes(2 * ITEMS_MAX + 2), flexible=True)
    with pytest.raises(Malformed, match=f"more than {ITEMS_MAX} items"):
        tags.tags()


def test_the_newest_version_that_both_have() -> None:
    api = Api("Any", 1, first=4, last=7, flexible=9)
    assert [api.version({1: has}) for has in ((0, 5), (4, 9), (7, 7))] == [5, 7, 7]
    for broker in ({1: (0, 3)}, {1: (8, 9)}, {}):
        with pytest.raises(Unsupported, match="Any needs version 4 to 7: the broker"):
            api.version(broker)
