"""Checkpoints and heartbeats are bytes that MirrorMaker's Java client reads."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import Malformed
from mirror.groups.checkpoints import STRING_MAX, Checkpoint
from mirror.groups.heartbeats import Heartbeat

CHECKPOINT = Checkpoint("bé", "a.t", 3, 256, 7, "m")


def test_a_checkpoint() -> None:
    assert CHECKPOINT.key() == b"\0\3b\xc3\xa9" + b"\0\3a.t" + b"\0\0\0\3"
    assert CHECKPOINT.value() == b"\0\0" + b"\0\0\0\0\0\0\1\0" + b"\0\0\0\0\0\0\0\7" + b"\0\1m"
    assert Checkpoint.decode(CHECKPOINT.key(), CHECKPOINT.value()) == CHECKPOINT


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", CHECKPOINT.value()),
        (CHECKPOINT.key(), b""),
        (CHECKPOINT.key() + b"\0", CHECKPOINT.value()),
        (CHECKPOINT.key()[:-1], CHECKPOINT.value()),
        (CHECKPOINT.key(), CHECKPOINT.value() + b"\0"),
        (CHECKPOINT.key(), CHECKPOINT.value()[:-1]),
        (CHECKPOINT.key(), b"\0\1" + CHECKPOINT.value()[2:]),  # of another version
        (CHECKPOINT.key(), struct.pack(">hqqh", 0, 256, -1, 0)),
        (CHECKPOINT.key(), struct.pack(">hqqh", 0, -1, 7, 0)),
        (CHECKPOINT.key(), struct.pack(">hqqh", 0, 256, 7, 1) + b"\xff"),  # no UTF-8
        (Checkpoint("g", "no topic's name", 3, 256, 7, "").key(), CHECKPOINT.value()),
        (Checkpoint("g", "a.t", -1, 256, 7, "").key(), CHECKPOINT.value()),
    ],
)
def test_what_is_no_checkpoint_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(Malformed):
        Checkpoint.decode(key, value)


@given(st.binary(), st.binary())
def test_nothing_that_somebody_writes_breaks_the_reader_of_checkpoints(key: bytes, value: bytes) -> None:
    with contextlib.suppress(Malformed):
        Checkpoint.decode(key, value)
    with contextlib.suppress(Malformed):
        Checkpoint.decode(CHECKPOINT.key(), value)


def test_metadata_that_the_format_has_no_room_for_is_left_out() -> None:
    for metadata, length in (("x" * STRING_MAX, STRING_MAX), ("x" * STRING_MAX + "x", 0), ("é" * 20_000, 0)):
        assert len(Checkpoint("g", "t", 0, 1, 1, metadata).value()) == 20 + length


def test_a_heartbeat() -> None:
    beat = Heartbeat("a", "bc", 258)
    assert beat.key() == b"\0\1a\0\2bc"
    assert beat.value() == b"\0\0" + b"\0\0\0\0\0\0\1\2"
