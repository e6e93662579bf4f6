"""The header that keeps a record from coming back: which ones count, and what a copy gets."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.provenance import NAME, VALUE_MAX, ProvenanceFilter, encode, is_usable_id, route
from mirror.kafka.record_headers import UNREADABLE

A, B, C = "id-a", "id-b", "id-c"
HERE, REMOTE = ("orders", 3), ("orders", 3)
OURS = (NAME, b"orders,3,id-a")


def filtered(*headers: Any, remote: tuple[str, int] = REMOTE) -> dict[int, Any]:
    """What a flow from A to B gives to records with these headers, by index."""
    messages = [Message(*HERE, n, None, b"v", None) for n in range(len(headers))]
    kept, given_ = ProvenanceFilter(HERE, remote, (A, B))(messages, list(headers))
    return dict(zip([int(message.offset() or 0) for message in kept], given_, strict=True))


@pytest.mark.parametrize(
    ("values", "ids"),
    [
        ([b"orders,3,id-a"], (A,)),
        ([b"orders,3,id-a,id-b"], (A, B)),
        (["orders,3,é".encode()], ("é",)),
        ([], ()),
        ([b"orders,3,id-a", b"orders,3,id-a"], ()),
        ([None], ()),
        ([b""], ()),
        ([b"orders"], ()),
        ([b"orders,3"], ()),
        ([b"orders,3,"], ()),
        ([b"orders,3,id-a,,id-b"], ()),
        ([b"orders,03,id-a"], ()),
        ([b"orders,4,id-a"], ()),
        ([b"results,3,id-a"], ()),
        ([b"\xff,3,id-a"], ()),
        ([b"orders,3," + b"x" * (VALUE_MAX - 9)], ("x" * (VALUE_MAX - 9),)),
        ([b"orders,3," + b"x" * (VALUE_MAX - 8)], ()),
    ],
)
def test_one_header_of_this_partition_counts_and_no_other(values: list[bytes | None], ids: tuple[str, ...]) -> None:
    assert route(values, *HERE) == ids


@given(st.lists(st.text("abc-_é0123", min_size=1, max_size=300), min_size=1, max_size=100))
def test_of_a_long_way_the_newest_part_is_kept(ids: list[str]) -> None:
    value = encode(*REMOTE, ids)
    found = route([value], *REMOTE)
    assert len(value) <= VALUE_MAX and found and tuple(ids[-len(found) :]) == found
    if len(found) < len(ids):
        assert len(value) + len(ids[-len(found) - 1].encode()) + 1 > VALUE_MAX, "no more than needed is left out"


def test_what_was_on_the_target_is_left_out_and_the_rest_gets_the_header() -> None:
    other = ("app", b"1")
    assert filtered(None, None) == {0: [OURS], 1: [OURS]}
    found = filtered(
        None,
        [other],
        [(NAME, b"orders,3,id-b")],
        [other, (NAME, b"orders,3,id-c,id-b")],
        [(NAME, b"orders,3,id-c"), other],
        [(NAME, b"results,3,id-b"), other],
        [(NAME, b"orders,3,id-b"), (NAME, b"orders,3,id-b")],
        [(NAME + "x", b"orders,3,id-b")],
    )
    assert found == {
        0: [OURS],
        1: [other, OURS],
        4: [other, (NAME, b"orders,3,id-c,id-a")],
        5: [other, OURS],
        6: [OURS],
        7: [(NAME + "x", b"orders,3,id-b"), OURS],
    }


def test_the_header_names_the_remote_partition() -> None:
    assert filtered([(NAME, b"orders,3,id-c")], remote=("bills", 3)) == {0: [(NAME, b"bills,3,id-c,id-a")]}


def test_headers_that_can_not_be_read_stay_so() -> None:
    assert filtered(None, UNREADABLE) == {0: [OURS], 1: UNREADABLE}


@pytest.mark.parametrize("first", [(A, B), (B, A)])
def test_of_a_ring_each_record_comes_to_each_cluster_once(first: tuple[str, str]) -> None:
    """A forged header changes nothing: each flow adds its own id last, and never drops the last ids."""
    forged = [(NAME, encode(*HERE, [f"forged-{n:090}" for n in range(60)]))]
    for begins in (None, forged, [(NAME, b"x" * 9000)]):
        headers: Any = begins
        ring = [*first, C]
        for at, (here, there) in enumerate(zip(ring, [*ring[1:], ring[0]], strict=True)):
            message = Message(*HERE, 0, None, b"v", None)
            kept, after = ProvenanceFilter(HERE, REMOTE, (here, there))([message], [headers])
            assert bool(kept) == (at < 2), "it comes back to where it began, or not all the way"
            headers = after[0] if after else None


@pytest.mark.parametrize(
    ("cluster_id", "usable"),
    [("k7bT0aGZQ2mF5vJ0cXhW4g", True), ("redpanda.1", True), ("", False), ("a,b", False), ("a\nb", False)],
)
def test_which_ids_the_header_can_have(cluster_id: str, usable: bool) -> None:
    assert is_usable_id(cluster_id) is usable
