"""The transactional ids of a cluster, as its brokers list them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import Malformed, Refused, Unavailable, Unsupported, WireError
from mirror.wire import transactions
from mirror.wire.transactions import is_hidden, list_transactions, transactional_ids
from tests.harness import fake_broker
from tests.harness.fake_broker import LIST_TRANSACTIONS, METADATA, FakeBroker
from tests.harness.fake_coordinator import FIND_COORDINATOR


def listed(*names: str, error: int = 0) -> bytes:
    """An answer to ListTransactions, version 0."""

    def compact(text: str) -> bytes:
        return bytes([len(text.encode()) + 1]) + text.encode()

    each = b"".join(compact(name) + struct.pack(">q", 7) + compact("CompleteCommit") + b"\0" for name in names)
    return b"\0" + struct.pack(">ih", 0, error) + b"\1" + bytes([len(names) + 1]) + each + b"\0"


@pytest.fixture
def two() -> Iterator[tuple[FakeBroker, FakeBroker]]:
    with FakeBroker() as first, FakeBroker() as second:
        yield first, second


def serve(brokers: tuple[FakeBroker, FakeBroker], *answers: Callable[[], bytes]) -> None:
    where = fake_broker.metadata("", 1, {1: brokers[0].port, 2: brokers[1].port})
    for broker, answer in zip(brokers, answers, strict=True):
        broker.answers = lambda api, _, answer=answer: where if api == METADATA else answer()  # type: ignore[misc]


def test_every_broker_is_asked(two: tuple[FakeBroker, FakeBroker]) -> None:
    serve(two, lambda: listed("a-0", "b"), lambda: listed("a-1"))
    assert transactional_ids(two[0].properties) == {"a-0", "a-1", "b"}
    assert all(broker.count(LIST_TRANSACTIONS) == 1 for broker in two)


def test_a_broker_that_loads_is_asked_again(two: tuple[FakeBroker, FakeBroker]) -> None:
    serve(two, lambda: listed(error=14 if two[0].count(LIST_TRANSACTIONS) == 1 else 0), lambda: listed("a"))
    assert transactional_ids(two[0].properties) == {"a"}
    assert two[0].count(LIST_TRANSACTIONS) == 2


def test_it_is_not_waited_for_ever(two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "TIMEOUT", 0.1)
    serve(two, lambda: listed(error=14), lambda: listed("a"))
    with pytest.raises(Unavailable, match="loading"):
        transactional_ids(two[0].properties)


def test_what_a_broker_refuses(two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    serve(two, lambda: listed(error=35), lambda: listed("a"))
    with pytest.raises(WireError, match="UNSUPPORTED_VERSION"):
        transactional_ids(two[0].properties)
    older = {key: versions for key, versions in fake_broker.VERSIONS.items() if key != LIST_TRANSACTIONS}
    monkeypatch.setattr(fake_broker, "VERSIONS", older)
    with pytest.raises(Unsupported, match=r"before Kafka 3\.0"):
        transactional_ids(two[0].properties)


def coordinated(port: int, error: int) -> bytes:
    """An answer to FindCoordinator, version 4, about the transactional id "a-0"."""
    host = "" if error else "127.0.0.1"
    place = struct.pack(">i", -1 if error else 1) + bytes([len(host) + 1]) + host.encode() + struct.pack(">i", port)
    return b"\0" + struct.pack(">i", 0) + b"\2" + b"\4a-0" + place + struct.pack(">h", error) + b"\0\0\0"


@pytest.mark.parametrize("error, hidden", [(0, False), (53, True)])
def test_an_id_that_we_may_not_describe_is_hidden(
    two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch, error: int, hidden: bool
) -> None:
    monkeypatch.setitem(fake_broker.VERSIONS, FIND_COORDINATOR, (0, 4))
    serve(two, lambda: coordinated(two[0].port, error), lambda: coordinated(two[0].port, error))
    assert is_hidden(two[0].properties, "a-0") is hidden


def test_what_else_a_broker_refuses_is_an_error(
    two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fake_broker.VERSIONS, FIND_COORDINATOR, (0, 4))
    serve(two, lambda: coordinated(two[0].port, 29), lambda: coordinated(two[0].port, 29))
    with pytest.raises(Refused):
        is_hidden(two[0].properties, "a-0")


@given(st.data())
def test_a_damaged_answer_is_refused_or_decoded(data: st.DataObject) -> None:
    answer = listed("a-0", "b" * 20, "c")
    place = data.draw(st.integers(0, len(answer)))
    nonsense = data.draw(st.binary(max_size=6))
    try:
        damaged = answer[:place] + nonsense + answer[place + len(nonsense) :]
        found, _ = list_transactions().decode(0, memoryview(damaged))
    except Malformed:
        return
    assert all(isinstance(name, str) for name in found.names) and len(found.names) <= len(answer)
