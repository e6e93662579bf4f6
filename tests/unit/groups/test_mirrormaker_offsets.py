"""Which positions are written for MirrorMaker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.groups.mirrormaker_offsets import changed
from mirror.model import Partition, Position, Topic

ORDERS = Partition("orders", 0)
TOPIC = Topic("primary.orders", "source-1", 1, 1, "remote-1")
TOPICS = {"orders": TOPIC}
HERE = Position(7, "source-1", remote_id="remote-1")


def test_only_what_has_changed_is_written() -> None:
    assert changed(TOPICS, {ORDERS: HERE}, {}) == {ORDERS: HERE}
    assert changed(TOPICS, {ORDERS: HERE}, {ORDERS: HERE}) == {}
    later = replace(HERE, offset=8)
    assert changed(TOPICS, {ORDERS: later}, {ORDERS: HERE}) == {ORDERS: later}


def test_an_old_answer_never_replaces_a_newer_one() -> None:
    """A coordinator that was deposed tells it. A decision that sets the position back is no old answer."""
    assert changed(TOPICS, {ORDERS: replace(HERE, offset=6)}, {ORDERS: HERE}) == {}
    decided = replace(HERE, offset=6, resets=1)
    assert changed(TOPICS, {ORDERS: decided}, {ORDERS: HERE}) == {ORDERS: decided}


def test_a_position_in_a_recreated_topic_is_written_though_it_is_lower() -> None:
    again = {"orders": replace(TOPIC, topic_id="source-2")}
    first = Position(0, "source-2", remote_id="remote-1")
    assert changed(again, {ORDERS: first}, {ORDERS: HERE}) == {ORDERS: first}


@pytest.mark.parametrize(
    "strange",
    [
        None,
        replace(HERE, topic_id=""),
        replace(HERE, topic_id="source-0"),
        replace(HERE, remote_id="remote-0"),
        HERE.handed_back("remote-1"),
    ],
)
def test_what_is_not_our_own_is_not_written(strange: Position | None) -> None:
    assert changed(TOPICS, {ORDERS: strange}, {}) == {}


def test_a_position_of_an_older_mirror_is_written() -> None:
    older = replace(HERE, remote_id="")
    assert changed(TOPICS, {ORDERS: older}, {}) == {ORDERS: older}
