"""Checkpoints and heartbeats are bytes that MirrorMaker's Java client reads."""

from __future__ import annotations

from mirror.groups.checkpoints import STRING_MAX, Checkpoint
from mirror.groups.heartbeats import Heartbeat


def test_a_checkpoint() -> None:
    checkpoint = Checkpoint("bé", "a.t", 3, 256, 7, "m")
    assert checkpoint.key() == b"\0\3b\xc3\xa9" + b"\0\3a.t" + b"\0\0\0\3"
    assert checkpoint.value() == b"\0\0" + b"\0\0\0\0\0\0\1\0" + b"\0\0\0\0\0\0\0\7" + b"\0\1m"


def test_metadata_that_the_format_has_no_room_for_is_left_out() -> None:
    for metadata, length in (("x" * STRING_MAX, STRING_MAX), ("x" * STRING_MAX + "x", 0), ("é" * 20_000, 0)):
        assert len(Checkpoint("g", "t", 0, 1, 1, metadata).value()) == 20 + length


def test_a_heartbeat() -> None:
    beat = Heartbeat("a", "bc", 258)
    assert beat.key() == b"\0\1a\0\2bc"
    assert beat.value() == b"\0\0" + b"\0\0\0\0\0\0\1\2"
