"""What the fault matrix says in the end, and what it does about a failure of its own."""

from __future__ import annotations

import json
import struct
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.chaos import commits, groups, recorder, sender
from tests.chaos.__main__ import Results, Total, _false_alarms
from tests.chaos.own_recorders import OwnServiceRecorder
from tests.checker.history import Record
from tests.harness.load import mixed
from tests.harness.pair import Pair
from tests.harness.service import PASSED_OVER

PAIR = Pair("source", "target", "alias", "prefix-")


def test_a_round_that_was_not_played_is_told_and_is_no_success(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    results = Results(file)
    results.take(Total("one", rounds=2), 2)
    assert results.code == 0 and "NOT PLAYED" not in results.told()
    results.take(Total("other", rounds=0), 5)
    results.take(Total("some", rounds=3), 5)
    assert results.code == 1
    assert "NOT PLAYED: 5 rounds of other" in results.told() and "NOT PLAYED: 2 rounds of some" in results.told()
    assert [each["name"] for each in json.loads(file.read_text())] == ["one", "some"]
    assert "| other |" not in results.told()


def test_a_violation_is_no_success() -> None:
    results = Results(None)
    results.take(Total("one", rounds=1, violations=["wrong"]), 1)
    assert results.code == 1


def test_two_topics_of_a_name_may_lose_the_same_offsets() -> None:
    """And a worker that is killed says of the same topic what the one before it has said."""
    said = [
        {"partition": 0, "reason": "offsets 1 to 2", "topic_id": "a"},
        {"partition": 0, "reason": "offsets 1 to 2", "topic_id": "a"},
        {"partition": 0, "reason": "offsets 1 to 2", "topic_id": "b"},
        {"partition": 1, "reason": "offset 7"},
    ]
    arena = cast(Any, SimpleNamespace(find=lambda message, topic: said if message == PASSED_OVER else []))

    def alarms(losses: dict[int, int]) -> list[str]:
        return _false_alarms(arena, cast(Any, SimpleNamespace(topic="t", losses=Counter(losses))), 1)

    assert not alarms({0: 2, 1: 1})
    assert len(alarms({0: 1, 1: 1})) == len(alarms({0: 3, 1: 1})) == len(alarms({0: 2})) == 1


class Admin:
    """An admin client whose requests are never answered."""

    def delete_consumer_groups(self, names: list[str]) -> dict[str, Future[None]]:
        return {name: Future() for name in names}

    def delete_topics(self, names: list[str]) -> dict[str, Future[None]]:
        return {name: Future() for name in names}


def test_a_clean_up_that_fails_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arena gets its service back, and whoever asks what was wrong gets the first failure."""
    monkeypatch.setattr("tests.harness.topics.admin", lambda _: Admin())
    monkeypatch.setattr("tests.harness.topics.PATIENCE", 0.01)
    monkeypatch.setattr(groups, "TIMEOUT", 0.01)
    monkeypatch.setattr(recorder.Recorder, "__enter__", lambda self: self)
    events: list[str] = []

    def late() -> int:
        events.append("terminate")
        raise AssertionError("does not end")

    own = SimpleNamespace(terminate=late, close=lambda: events.append("close"))
    arenas = SimpleNamespace(await_plan=lambda: events.append("await_plan"))
    tested = OwnServiceRecorder.__new__(OwnServiceRecorder)
    tested.pair, tested.topic, tested.senders = PAIR, "t", []
    tested.watch = cast(Any, SimpleNamespace(stop=lambda: None))
    tested.groups = groups.Groups(PAIR, "t", 1)
    monkeypatch.setattr(tested.groups, "stop", lambda: None)
    tested._arena = cast(Any, SimpleNamespace(service=own, start_service=lambda: arenas))
    with pytest.raises(ValueError, match="the first failure"), tested:
        raise ValueError("the first failure")
    with pytest.raises(AssertionError, match="does not end"), tested:
        pass
    assert events == ["terminate", "close", "await_plan"] * 2


def test_who_stops_sending_waits_for_the_markers_of_the_last_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit is answered before."""
    calls: list[str] = []

    class Producer:
        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: calls.append(name)

    def transactional(*_: object) -> Producer:
        calls.append("init_transactions")
        return Producer()

    monkeypatch.setattr(sender, "transactional", transactional)
    monkeypatch.setattr(sender, "TRANSACTION", 1)
    tested = sender.Sender("source", "t", 1, 10_000.0, mixed)
    tested.start()
    while "commit_transaction" not in calls:
        tested._thread.join(0.01)
    tested.stop()
    assert calls[-1] == "init_transactions" and calls.count("init_transactions") == 2


def test_positions_that_the_brokers_have_compacted_meanwhile_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    log = [committed(offset) for offset in range(4)]
    begun: list[dict[int, int]] = []

    class Reader:
        def __init__(self, *_: object, begins: dict[int, int]) -> None:
            begun.append(dict(begins))
            self._records = [record for record in log if record.offset >= begins.get(0, 0)]

        def to_end(self) -> dict[int, list[Record]]:
            return {0: self._records}

        def close(self) -> None:
            pass

    monkeypatch.setattr("tests.harness.oracle.Reader", Reader)
    monkeypatch.setattr("tests.harness.topics.partitions", lambda *_: 0)
    tested = commits.Commits(PAIR, "t")
    tested.follow()
    log[:] = [committed(9)]
    assert [position.offset for _, _, position in tested.read()] == [0, 1, 2, 3, 9]
    assert [position.offset for _, _, position in tested.read()] == [0, 1, 2, 3, 9]
    assert begun == [{}, {0: 4}, {0: 10}]


def committed(offset: int) -> Record:
    """A position, as a broker keeps it."""

    def text(value: bytes) -> bytes:
        return struct.pack(">h", len(value)) + value

    key = struct.pack(">h", 1) + text(PAIR.group.encode()) + text(b"t") + struct.pack(">i", 0)
    value = struct.pack(">hqi", 3, offset, -1) + text(b'{"topic_id":"id"}') + struct.pack(">q", 0)
    return Record(offset, key, value, (), 0)
