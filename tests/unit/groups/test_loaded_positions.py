"""Positions of many partitions are loaded at once, and one that a transaction holds is in nobody's way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.errors import PositionUnstable
from mirror.groups.loaded_positions import LoadedPositions
from mirror.model import MapEnd, Partition, Position
from mirror.settings import Cluster
from mirror.target import coordination
from mirror.target.position_metadata import encoded
from mirror.wire.error_codes import CODES
from mirror.wire.offsets import Offset, Where
from tests.harness.fake_coordinator import FIND_COORDINATOR, Commit, FakeCoordinator
from tests.unit.test_naming import flow

PARTITIONS = [Partition("orders", number) for number in range(3)]
FIRST, SECOND, THIRD = PARTITIONS
AT = Position(40, "id", remote_id="remote", map_end=MapEnd(7))
COMMITTED = Offset(AT.offset, encoded(AT))
TOKEN = ("mirror-control.primary.internal", 0)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCoordinator]:
    """All have a position but the last one. It takes tokens."""
    with FakeCoordinator(monkeypatch) as made:
        given: dict[Where, Offset] = {FIRST: COMMITTED, SECOND: COMMITTED}

        def commit(asked: Commit) -> Mapping[Where, int]:
            given.update(asked.offsets)
            return dict.fromkeys(asked.offsets, 0)

        made.given, made.commit = given, commit
        yield made


def of(broker: FakeCoordinator, load_all: Any = None, **properties: str) -> LoadedPositions:
    one = flow(target=Cluster("backup", {**broker.properties, **properties}, {}, {}))
    assert one.control_topic == TOKEN[0]
    return LoadedPositions(one, SimpleNamespace(load_all=load_all))  # type: ignore[arg-type]


def test_a_position_that_a_transaction_holds_is_missing_and_the_others_are_not(broker: FakeCoordinator) -> None:
    broker.pending = [FIRST]
    with closing(of(broker)) as positions:
        assert positions.load(PARTITIONS) == {SECOND: AT}
        broker.pending = []
        positions.disconnect()
        assert positions.load(PARTITIONS) == {FIRST: AT, SECOND: AT}
        assert positions.load([]) == {}
    assert [each.stable for each in broker.fetches] == [True, True]


def test_an_answer_counts_only_with_a_token_of_this_call(broker: FakeCoordinator) -> None:
    """A coordinator that was deposed takes no commits, and answers from its memory."""
    takes = broker.commit
    with closing(of(broker)) as positions:
        positions.load([FIRST])

        def third_time(asked: Commit) -> Mapping[Where, int] | None:
            return takes(asked) if len(broker.commits) == 4 else dict.fromkeys(asked.offsets, 0)

        broker.commit = third_time
        assert positions.load([FIRST]) == {FIRST: AT}
    assert len(broker.commits) == 4
    assert {where for each in broker.commits for where in each.offsets} == {TOKEN}


@pytest.mark.parametrize(("others", "asked"), [(["a/1", "b/1", "a/2"], 1), (["a/1", "a/1", "a/1"], 3)])
def test_the_coordinator_is_asked_for_again_only_if_the_token_stands_still(
    others: list[str], asked: int, broker: FakeCoordinator
) -> None:
    """One that can still commit may show the token of a task, which was committed after ours."""
    takes, left = broker.commit, list(others)

    def after_ours(made: Commit) -> Mapping[Where, int] | None:
        return takes(replace(made, offsets={TOKEN: Offset(0, left.pop(0))}) if left else made)

    broker.commit = after_ours
    with closing(of(broker)) as positions:
        assert positions.load([FIRST]) == {FIRST: AT}
    assert len(broker.commits) == 4 and broker.count(FIND_COORDINATOR) == asked


def test_without_such_an_answer_nothing_is_loaded(broker: FakeCoordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordination, "PATIENCE", 0.1)
    for error in (0, CODES["GROUP_AUTHORIZATION_FAILED"]):
        broker.commit = partial(answered, error)
        with closing(of(broker)) as positions:
            assert positions.load(PARTITIONS) == {}


def answered(error: int, asked: Commit) -> Mapping[Where, int]:
    return dict.fromkeys(asked.offsets, error)


def test_where_only_librdkafka_can_log_in_it_loads_them(broker: FakeCoordinator) -> None:
    only = {"broker.address.ttl": "1000"}  # a property that our client does not support
    with closing(of(broker, lambda _: {tuple(FIRST): AT, tuple(THIRD): None}, **only)) as positions:
        assert positions.load(PARTITIONS) == {FIRST: AT}

    def held(_: object) -> None:
        raise PositionUnstable("held")

    with closing(of(broker, held, **only)) as positions:
        assert positions.load(PARTITIONS) == {}
    assert not broker.requests
