"""Transactions of whole batches: whatever a broker answers, nothing is ended that is not there as a whole."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.batches.headers import RecordBatch, walk
from mirror.batches.records import Content
from mirror.errors import (
    Interleaved,
    OutcomeUnknown,
    PartitionError,
    ProducerFenced,
    RecordsRefused,
    Unanswered,
    Unavailable,
    WireError,
)
from mirror.target import batch_session, coordination
from mirror.target.batch_session import BatchSession, Beside
from mirror.target.batch_take_over import Owner, take_over
from mirror.wire.access import Address
from mirror.wire.cluster import Cluster
from mirror.wire.cursor import Cursor
from mirror.wire.error_codes import CODES
from mirror.wire.metadata import Leader
from mirror.wire.offsets import Offset, Offsets
from mirror.wire.produce import ALL, LEADER, ProduceAnswer, Produced
from mirror.wire.requests import Request
from mirror.wire.transactional import Entered, Identity
from mirror.wire.writer import Writer
from tests.harness import batches

OWNER = Owner("name", "group", "remote", 0, "barrier", 60.0)
BY = Identity("name", 7, 3)
ID = {"remote": b"r" * 16, "own": b"o" * 16, "barrier": b"b" * 16}
NAMES = {each: name for name, each in ID.items()}
POSITION = Offset(99, "metadata", 2)


@dataclass(frozen=True)
class Sent:
    """A request as it came: its kind, and for Produce the acks and for each topic the first sequence and the count."""

    kind: str
    node: int
    lane: str
    acks: int = 0
    batches: tuple[tuple[str, int, int, int, int], ...] = ()  # topic, producer, epoch, sequence, records


@dataclass
class Target:
    """In place of a cluster: brokers that keep their protocol, but for what `faults` says of the n-th request."""

    faults: dict[int, WireError | int] = field(default_factory=dict)  # an error, or an error code
    kinds: dict[str, list[int]] = field(default_factory=dict)  # error codes of the next answers of a kind
    own_node: int = 1
    ends: dict[str, int] = field(default_factory=lambda: {"remote": 100, "own": 5})
    only: str = ""  # topic that an error code is for, if not for all
    shift: int = 0  # of base offsets, from the second batch on
    requests: list[Sent] = field(default_factory=list)
    positions: list[Offset] = field(default_factory=list)
    ended: int = 0
    stable: list[int] = field(default_factory=lambda: [100])
    token: str | None = ""
    held: int = 0  # answers in which a transaction holds the position
    forgotten: list[str] = field(default_factory=list)

    async def leader(self, topic: str, partition: int) -> Leader:
        return Leader(self.own_node if topic == "own" else 1, 4)

    async def coordinator(self, kind: int, name: str) -> int:
        return 2 + kind

    async def connection(self, node: int, lane: str = "other") -> Connected:
        return Connected(self, node, lane)

    def topic_id(self, topic: str) -> bytes:
        return ID[topic]

    def forget_leader(self, topic: str, partition: int) -> None:
        self.forgotten.append(topic)

    def forget_coordinator(self, kind: int, name: str) -> None:
        self.forgotten.append(name)

    def hint(self, topic: str, partition: int, leader: Leader, address: Address | None) -> None:
        self.forgotten.append(f"{topic} to {leader.node}")

    def count(self, kind: str) -> int:
        return sum(each.kind == kind for each in self.requests)


@dataclass(frozen=True)
class Connected:
    """A connection to one of these brokers."""

    target: Target
    node: int
    lane: str

    def send(self, request: Request[Any]) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        kind = request.api.name
        writer = Writer(request.api.last, True)
        request.write(writer)
        number = len(self.target.requests)
        self.target.requests.append(self._seen(kind, b"".join(writer.parts)))
        codes = self.target.kinds.get(kind)
        fault = codes.pop(0) if codes else self.target.faults.get(number, 0)
        if isinstance(fault, WireError):
            future.set_exception(fault)
            future.exception()
        else:
            future.set_result(self._answer(kind, fault))
        return future

    async def ask(self, request: Request[Any]) -> Any:
        await asyncio.sleep(0)
        return await self.send(request)

    def _seen(self, kind: str, body: bytes) -> Sent:
        if kind == "TxnOffsetCommit":
            offset, epoch = struct.unpack_from(">qi", body, body.index(b"remote") + 11)
            self.target.positions.append(Offset(offset, "metadata" if b"metadata" in body else "", epoch))
        if kind == "OffsetCommit":
            self.target.token = body[body.index(b"barrier") :][7 + 1 + 4 + 8 + 4 + 1 :][:32].decode()
        if kind != "Produce":
            return Sent(kind, self.node, self.lane)
        answer = Cursor(body, 13, True)
        answer.string()
        acks, _ = answer.int16(), answer.int32()
        found = answer.by_topic_id(_batch, 5)
        answer.tags()
        return Sent(kind, self.node, self.lane, acks, tuple((NAMES[key], *each) for key, each in found))

    def _answer(self, kind: str, code: int) -> Any:
        target = self.target
        if kind == "Produce":
            return ProduceAnswer([self._produced(each, code) for each in target.requests[-1].batches], {5: ("e", 5)})
        if kind == "TxnOffsetCommit":
            return {("remote", 0): code}
        if kind == "OffsetCommit":
            return {("barrier", 0): code}
        if kind == "OffsetFetch":
            target.held -= 1
            error = CODES["UNSTABLE_OFFSET_COMMIT"] if target.held >= 0 else 0
            told = {("barrier", 0): (0, Offset(0, target.token or "another")), ("remote", 0): (error, POSITION)}
            return Offsets(code, told)
        if kind == "ListOffsets":
            return code, target.stable.pop(0) if len(target.stable) > 1 else target.stable[0]
        if kind == "EndTxn" and not code:
            target.ended += 1
        return Entered(code, 7, 4)

    def _produced(self, batch: tuple[str, int, int, int, int], code: int) -> tuple[bytes, Produced]:
        topic, *_, sequence, records = batch
        base, code = -1, code if self.target.only in ("", topic) else 0
        if not code:
            base = self.target.ends[topic] + (self.target.shift if sequence else 0)
            self.target.ends[topic] += records
        return ID[topic], Produced(0, code, base, "", Leader(5, 9) if code == CODES["NOT_LEADER_OR_FOLLOWER"] else None)


def _batch(answer: Cursor) -> tuple[int, int, int, int]:
    answer.int32()
    data = answer.bytes()
    answer.tags()
    producer, epoch, sequence, records = struct.unpack_from(">qhii", data, 43)
    walk(data)  # its checksum is right
    return producer, epoch, sequence, records


def made(*counts: int) -> list[RecordBatch]:
    """Batches with so many records."""
    found, at = [], 0
    for count in counts:
        records = [(at + n, n, Content(b"%d" % n, None, ())) for n in range(count)]
        found += walk(memoryview(bytearray(batches.batch(records))))
        at += count
    return found


def sync(base: int) -> Sequence[Beside]:
    """A record of our own that depends on where the copy is."""
    (batch,) = made(1)
    struct.pack_into(">q", batch.data, 27, base)
    return [Beside("own", 0, batch.data)]


def session(target: Target) -> BatchSession:
    return BatchSession(cast(Cluster, target), OWNER, BY)


def test_a_transaction() -> None:
    """The first and the last batch wait for replication; position and the other batches wait for the first."""

    async def run() -> None:
        target = Target()
        copying = session(target)
        assert await copying.commit(made(3, 2, 4, 1), POSITION) == 100
        kinds = [each.kind for each in target.requests]
        assert kinds[0] == "Produce" and kinds[-1] == "EndTxn" and target.positions == [POSITION]
        produced = [each for each in target.requests if each.kind == "Produce"]
        assert [each.acks for each in produced] == [ALL, LEADER, LEADER, ALL]
        assert [each.batches for each in produced] == [
            (("remote", 7, 3, sequence, records),) for sequence, records in ((0, 3), (3, 2), (5, 4), (9, 1))
        ]
        assert len({(each.node, each.lane) for each in produced[1:]}) == 1 and produced[0].lane != produced[1].lane
        target.ends["remote"] += 1  # the marker
        assert await copying.commit(made(2), POSITION) == 111
        assert target.requests[len(kinds)].batches == (("remote", 7, 4, 0, 2),), "the next epoch begins with 0"
        assert target.requests[len(kinds)].acks == ALL and target.ended == 2

    asyncio.run(run())


def test_a_position_alone() -> None:
    async def run() -> None:
        target = Target()
        assert await session(target).commit([], POSITION) == -1
        assert [each.kind for each in target.requests] == ["TxnOffsetCommit", "EndTxn"]

    asyncio.run(run())


@pytest.mark.parametrize("own_node", [1, 6])
def test_records_of_our_own_know_where_the_copy_is(own_node: int) -> None:
    """From the answer the first time, then by prediction: so they go with the first batch if one broker leads both."""

    async def run() -> None:
        target = Target(own_node=own_node)
        copying = session(target)
        await copying.commit(made(3, 2), POSITION, sync)
        with_own = [each for each in target.requests if any(batch[0] == "own" for batch in each.batches)]
        assert [each.node for each in with_own] == [own_node] and target.requests.index(with_own[0]) == 1
        del target.requests[:]
        target.ends["remote"] += 1
        await copying.commit(made(3, 2), POSITION, sync)
        topics = [[batch[0] for batch in each.batches] for each in target.requests if each.kind == "Produce"]
        assert topics == ([["remote", "own"], ["remote"]] if own_node == 1 else [["remote"], ["own"], ["remote"]])

    asyncio.run(run())


def test_a_wrong_prediction_is_not_committed() -> None:
    async def run() -> None:
        target = Target()
        copying = session(target)
        await copying.commit(made(3), POSITION, sync)
        target.ends["remote"] += 2  # the marker, and somebody else's record
        with pytest.raises(Interleaved, match="the records stand at 105 instead of 104"):
            await copying.commit(made(3), POSITION, sync)
        assert target.ended == 1

    asyncio.run(run())


def test_a_gap_is_not_committed() -> None:
    """As after a leader has lost what it had acknowledged (docs/decisions/0006)."""

    async def run() -> None:
        target = Target(shift=-1)
        with pytest.raises(Interleaved, match="remote-0: a batch stands at 102 instead of 103"):
            await session(target).commit(made(3, 2, 1), POSITION)
        assert target.ended == 0 and not target.count("EndTxn")
        careful, target.ends["remote"] = BatchSession(cast(Cluster, target), OWNER, BY, careful=True), 200
        assert await careful.commit(made(3, 2, 1), POSITION, sync) == 200
        assert all(each.acks == ALL for each in target.requests[-6:] if each.kind == "Produce")
        with pytest.raises(Interleaved):
            await careful.commit(made(3, 2, 1), POSITION)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "error", "blocked"),
    [
        ("INVALID_PRODUCER_EPOCH", ProducerFenced, False),
        ("MESSAGE_TOO_LARGE", RecordsRefused, True),
        ("TOPIC_AUTHORIZATION_FAILED", OutcomeUnknown, True),
        ("NOT_LEADER_OR_FOLLOWER", OutcomeUnknown, False),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", OutcomeUnknown, False),
    ],
)
@pytest.mark.parametrize("number", [0, 2])
def test_an_error_says_what_follows(name: str, error: type[PartitionError], blocked: bool, number: int) -> None:
    async def run() -> None:
        target = Target(faults={number: CODES[name]})
        with pytest.raises(PartitionError, match=f"Produce was answered with {name}") as raised:
            await session(target).commit(made(3, 2, 1), POSITION)
        assert type(raised.value) is error and raised.value.blocked == blocked
        assert not target.count("EndTxn") and "remote" in target.forgotten
        assert ("remote to 5" in target.forgotten) == (name == "NOT_LEADER_OR_FOLLOWER")

    asyncio.run(run())


def test_the_first_batch_is_sent_again_while_it_can_not_have_been_appended() -> None:
    async def run() -> None:
        target = Target(kinds={"Produce": [CODES["CONCURRENT_TRANSACTIONS"], CODES["NOT_ENOUGH_REPLICAS"]]})
        assert await session(target).commit(made(3), POSITION) == 100
        assert target.count("Produce") == 3
        target = Target(kinds={"Produce": [CODES["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]]})
        with pytest.raises(OutcomeUnknown):
            await session(target).commit(made(3), POSITION)
        assert target.count("Produce") == 1

    asyncio.run(run())


def test_a_batch_that_one_partition_has_taken_is_not_sent_again() -> None:
    async def run() -> None:
        target = Target()
        copying = session(target)
        await copying.commit(made(3), POSITION, sync)
        target.ends["remote"] += 1
        target.only, target.kinds = "own", {"Produce": [CODES["CONCURRENT_TRANSACTIONS"]]}
        with pytest.raises(OutcomeUnknown, match="Produce was answered with CONCURRENT_TRANSACTIONS"):
            await copying.commit(made(3), POSITION, sync)
        assert target.ended == 1 and target.ends["remote"] == 107

    asyncio.run(run())


def test_a_request_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordination, "PATIENCE", 0.05)
    monkeypatch.setattr(batch_session, "PATIENCE", 0.05)

    async def run() -> None:
        for kind in ("Produce", "TxnOffsetCommit", "EndTxn"):
            target = Target(kinds={kind: [CODES["CONCURRENT_TRANSACTIONS"]] * 1000})
            with pytest.raises(OutcomeUnknown, match=f"{kind} was answered with CONCURRENT_TRANSACTIONS"):
                await session(target).commit(made(3), POSITION)
            assert target.ended == 0 and 1 < target.count(kind) < 30

    asyncio.run(run())


CODES_THAT_COME = st.sampled_from([*CODES.values(), 9999])
FAULTS = st.dictionaries(
    st.integers(0, 12),
    st.one_of(CODES_THAT_COME, st.builds(Unanswered, st.just("no answer")), st.builds(Unavailable, st.just("away"))),
    max_size=3,
)


@given(FAULTS, st.lists(st.integers(1, 5), min_size=1, max_size=6), st.sampled_from([1, 6]), st.booleans())
def test_whatever_is_answered_nothing_is_ended_that_is_not_whole(
    faults: dict[int, WireError | int], counts: list[int], own_node: int, with_own: bool
) -> None:
    """A commit that returns has committed once, after good answers to all. One that fails has not asked for the end
    before all were good."""

    async def run() -> None:
        target = Target(faults=faults, own_node=own_node)
        try:
            base = await session(target).commit(made(*counts), POSITION, sync if with_own else None)
        except PartitionError:
            good = target.ends["remote"] == 100 + sum(counts)
            assert not target.count("EndTxn") or good
            assert target.ended <= 1
        else:
            assert base == 100 and target.ended == 1 and target.positions[-1] == POSITION
            assert target.ends == {"remote": 100 + sum(counts), "own": 5 + with_own}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordination, "PATIENCE", 0.02)
        patch.setattr(batch_session, "PATIENCE", 0.02)
        asyncio.run(run())


def test_a_take_over_waits_for_open_transactions_and_believes_only_its_token() -> None:
    async def run() -> None:
        target = Target(kinds={"InitProducerId": [CODES["CONCURRENT_TRANSACTIONS"], CODES["NOT_COORDINATOR"]]})
        target.stable = [100, 90, 95, 100]  # the high watermark, and then the last stable offset
        target.held = 2
        by, position = await take_over(cast(Cluster, target), OWNER)
        assert (by, position) == (Identity("name", 7, 4), POSITION)
        kinds = [each.kind for each in target.requests]
        assert kinds == ["InitProducerId"] * 3 + ["ListOffsets"] * 4 + ["OffsetCommit", "OffsetFetch"] * 3

    asyncio.run(run())


def test_a_coordinator_that_was_deposed_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells what it remembers, without our token."""
    monkeypatch.setattr("mirror.target.batch_take_over.PATIENCE", 0.1)

    class Deposed(Connected):
        def _answer(self, kind: str, code: int) -> Any:
            if kind == "OffsetFetch":
                self.target.token = "older"
            return super()._answer(kind, code)

    class Old(Target):
        async def connection(self, node: int, lane: str = "other") -> Connected:
            return Deposed(self, node, lane)

    async def run() -> None:
        with pytest.raises(PartitionError, match="the position of remote-0"):
            await take_over(cast(Cluster, Old()), OWNER)

    asyncio.run(run())
