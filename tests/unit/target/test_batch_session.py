"""Transactions of whole batches: whatever a broker answers, nothing is ended that is not there as a whole."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.batches.headers import RecordBatch
from mirror.batches.records import Content, decode, encode
from mirror.clock import Clock
from mirror.errors import (
    Interleaved,
    OutcomeUnknown,
    PartitionError,
    ProducerFenced,
    RecordsRefused,
    Unanswered,
    Unavailable,
    Unsupported,
    WireError,
)
from mirror.model import MapEnd, Partition, Position, Topic
from mirror.settings import Flow
from mirror.target import batch_transaction, beside, coordination
from mirror.target.batch_session import BatchSession
from mirror.target.batch_take_over import TakenOver
from mirror.target.offset_map import Entry, decode_key, decode_value
from mirror.target.offset_syncs import OffsetSync
from mirror.target.position_metadata import decoded
from mirror.target.transaction_content import Places
from mirror.target.written import AppendedOffsets
from mirror.wire.cluster import Cluster
from mirror.wire.error_codes import CODES
from mirror.wire.metadata import Leader, id_of
from mirror.wire.pool import MOST_CONNECTIONS
from mirror.wire.produce import ALL, LEADER
from mirror.wire.requests import Request
from mirror.wire.transactional import Identity
from tests.harness.batch_requests import MAP, SYNCS
from tests.harness.batch_target import PRODUCER, REMOTE_ID, Connected, Fault, Lost, Target, made
from tests.unit.test_naming import flow

TOPIC = Topic("remote", "id", 1, 1, REMOTE_ID)
AT = Position(0, "id", 4, remote_id=REMOTE_ID, map_end=MapEnd())
RARELY = flow(offset_lag_max=1_000)
ANOTHER_ID = "YW5vdGhlci1hbm90aGVyLQ"  # of no topic of the target


def session(target: Target, of: Flow = RARELY, topic: Topic = TOPIC, careful: bool = False) -> BatchSession:
    taken = TakenOver(Identity("group/remote/0", PRODUCER, target.epoch), None, target.ends["remote"])
    return BatchSession(cast(Cluster, target), of, Partition("t", 0), topic, taken, Clock(), careful)


def after(batches: Sequence[RecordBatch], map_end: MapEnd | None = AT.map_end) -> Position:
    return replace(AT, offset=batches[-1].last + 1, map_end=map_end)


def syncs(target: Target) -> list[OffsetSync]:
    pairs = [decode(each) for _, each in sorted(target.committed[SYNCS].items())]
    return [OffsetSync.decode(each.key or b"", each.value or b"") for each in pairs]


def entries(target: Target) -> list[Entry]:
    pairs = [decode(each) for _, each in sorted(target.committed[MAP].items())]
    return [decode_value(decode_key(each.key or b"")[1], each.value or b"") for each in pairs]


def test_a_transaction() -> None:
    """The first and the last batch wait for replication; position and the other batches wait for the first."""

    async def run() -> None:
        target = Target()
        copying = session(target, topic=replace(TOPIC, remote_id=""))  # no map
        first = made(3, 2, 4, 1)
        written = await copying.copy(first, after(first))
        assert written.appended == AppendedOffsets(None, 100, 109, 10) and written.size == sum(
            len(each.data) for each in first
        )
        assert written.position == after(first, None)
        kinds = [each.kind for each in target.requests]
        assert kinds[0] == "Produce" and kinds[-1] == "EndTxn"
        assert decoded(target.position.offset, target.position.epoch, target.position.metadata) == written.position
        copies = [each for each in target.produced if each.batches[0][0] == "remote"]
        assert [each.acks for each in copies] == [ALL, LEADER, LEADER, ALL]
        assert [each.batches for each in copies] == [
            (("remote", sequence, records),) for sequence, records in ((0, 3), (3, 2), (5, 4), (9, 1))
        ]
        assert len({(each.node, each.purpose) for each in copies[1:]}) == 1 and copies[0].purpose != copies[1].purpose
        assert [target.committed["remote"][100 + n] for n in range(10)] == [
            encode(Content(b"%d" % n, None, ())) for n in range(10)
        ]
        second = made(2, at=10)
        assert (await copying.copy(second, after(second, None))).appended == AppendedOffsets(111, 111, 112, 2)
        assert target.requests[len(kinds)].batches == (("remote", 0, 2),), "the next epoch begins with 0"
        assert target.requests[len(kinds)].acks == ALL and target.commits == 2

    asyncio.run(run())


@pytest.mark.parametrize("nodes", [{}, {SYNCS: 6}, {MAP: 6}, {SYNCS: 6, MAP: 7}, {SYNCS: 6, MAP: 6}])
def test_what_is_for_our_own_topics_knows_where_the_copy_is(nodes: dict[str, int]) -> None:
    """The first answer tells the place; then it is predicted, so that a broker that leads both gets both at once."""

    async def run() -> None:
        target = Target(nodes=nodes)
        copying = session(target)
        first = made(3, 2, gaps=(0, 5))
        position = (await copying.copy(first, after(first))).position
        assert position.map_end == MapEnd(100, 0)
        assert [(each.upstream, each.downstream) for each in syncs(target)] == [(0, 100), (8, 103)]
        assert [(each.upstream, each.downstream, each.runs) for each in entries(target)] == [(0, 100, (3, 5, 2))]
        assert target.produced[0].batches == (("remote", 0, 3),), "nothing was predicted"
        before = len(target.requests)
        second = made(2, 1, at=20)
        await copying.copy(second, after(second, position.map_end))
        assert syncs(target)[2:] == [OffsetSync("t", 0, 20, 106)] and len(entries(target)) == 2
        produced = [
            [topic for topic, *_ in each.batches] for each in target.requests[before:] if each.kind == "Produce"
        ]
        along = [each for each in (SYNCS, MAP) if each not in nodes]
        assert produced[0] == ["remote", *along] and produced[-1] == ["remote"]
        others = produced[1:-1]
        assert sorted(topic for topics in others for topic in topics) == sorted(nodes)
        assert len(others) == len(set(nodes.values())), "one request for each broker"

    asyncio.run(run())


def test_as_many_syncs_as_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They need several batches, which are no part of one request."""
    monkeypatch.setattr(beside, "BATCH_MAX", 100)

    async def run() -> None:
        target = Target()
        copying = session(target, flow(offset_lag_max=0))
        for at in (0, 20):
            batches = made(7, 5, at=at)
            await copying.copy(batches, after(batches))
        assert [(each.upstream, each.downstream) for each in syncs(target)] == [
            *((n, 100 + n) for n in range(12)),
            *((20 + n, 113 + n) for n in range(12)),
        ]
        assert len([each for each in target.produced if any(topic == SYNCS for topic, *_ in each.batches)]) > 4

    asyncio.run(run())


def test_an_idle_partition_settles() -> None:
    async def run() -> None:
        target = Target()
        copying = session(target)
        batches = made(3)
        await copying.copy(batches, after(batches))
        assert copying.unsynced_tail
        before = len(target.requests)
        await copying.settle(replace(AT, offset=9))
        assert [each.kind for each in target.requests[before:]] == ["Produce", "TxnOffsetCommit", "EndTxn"]
        assert syncs(target)[-1] == OffsetSync("t", 0, 2, 102) and target.position.offset == 9
        assert not copying.unsynced_tail and copying.end == 104, "no marker of it is in the remote partition"
        await copying.commit_position(replace(AT, offset=9))
        assert [each.kind for each in target.requests[before + 3 :]] == ["TxnOffsetCommit", "EndTxn"]

    asyncio.run(run())


def test_a_wrong_prediction_is_not_committed() -> None:
    async def run() -> None:
        target = Target(others=[0, 1])
        copying = session(target)
        first, second = made(3), made(3, at=10)
        await copying.copy(first, after(first))
        with pytest.raises(Interleaved, match="remote-0: the first batch is at 105 instead of 104") as raised:
            await copying.copy(second, after(second))
        assert target.commits == 1 and raised.value.appended == (104, 105, 107, 3)

    asyncio.run(run())


def test_a_wrong_prediction_that_nothing_depends_on_is_none() -> None:
    """A prediction is not wrong either if what depends on it was not sent yet."""

    async def run() -> None:
        target = Target(others=[0, 1, 0, 1], nodes={SYNCS: 6, MAP: 6})
        copying = session(target)
        first, second, third = made(3), made(3, at=3), made(3, at=10)
        end = (await copying.copy(first, after(first))).position.map_end
        written = await copying.copy(second, after(second, end))
        assert written.appended == AppendedOffsets(104, 105, 107, 3) and written.position.map_end == MapEnd(
            100, 3, 3, 108
        )
        target.others = [1]
        await copying.copy(third, after(third, written.position.map_end))
        assert [each.downstream for each in syncs(target)] == [100, 110]

    asyncio.run(run())


def test_a_gap_is_not_committed_but_carefully() -> None:
    """A leader leaves a gap if it has lost what it had acknowledged (docs/decisions/0006), or if others write there."""

    async def run() -> None:
        target = Target(others=[0, 2])
        batches = made(3, 2, 1)
        with pytest.raises(Interleaved, match="remote-0: a batch is at 105 instead of 103") as raised:
            await session(target).copy(batches, after(batches))
        assert not target.count("EndTxn") and raised.value.appended == (None, 100, 107, 6)
        target = Target(others=[0, 2])
        careful = session(target, flow(offset_lag_max=2), careful=True)
        batches = made(3, 2, 1)
        written = await careful.copy(batches, after(batches))
        assert all(each.acks == ALL for each in target.produced) and written.appended == AppendedOffsets(
            None, 100, 107, 6
        )
        assert [(each.upstream, each.downstream) for each in syncs(target)] == [(0, 100), (2, 102), (4, 106)]
        assert [(each.upstream, each.records) for each in entries(target)] == [(0, 1)], "where the others are is open"
        assert written.position.map_end is None
        assert [each.kind for each in target.requests] == [*["Produce"] * 4, "TxnOffsetCommit", "EndTxn"]
        assert [topic for topic, *_ in target.produced[-1].batches] == [SYNCS, MAP], "once it is known where all are"
        batches = made(2, 2, 2, at=10)
        await careful.copy(batches, after(batches))
        assert [each.acks for each in target.produced[-2:]] == [LEADER, ALL], "only the first transaction is careful"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("name", "error", "blocked"),
    [
        ("INVALID_PRODUCER_EPOCH", ProducerFenced, False),
        ("MESSAGE_TOO_LARGE", RecordsRefused, True),
        ("POLICY_VIOLATION", RecordsRefused, True),
        ("TOPIC_AUTHORIZATION_FAILED", OutcomeUnknown, True),
        ("NOT_LEADER_OR_FOLLOWER", OutcomeUnknown, False),
        ("OUT_OF_ORDER_SEQUENCE_NUMBER", OutcomeUnknown, False),
    ],
)
@pytest.mark.parametrize("number", [0, 2])
def test_an_error_says_what_follows(name: str, error: type[PartitionError], blocked: bool, number: int) -> None:
    async def run() -> None:
        target, batches = Target(faults={number: CODES[name]}), made(3, 2, 1)
        with pytest.raises(PartitionError, match=f"Produce to remote-0 was answered with {name}") as raised:
            await session(target, topic=replace(TOPIC, remote_id="")).copy(batches, after(batches))
        assert type(raised.value) is error and raised.value.blocked == blocked
        assert not target.count("EndTxn") and "remote" in target.forgotten
        assert ("remote to 5" in target.forgotten) == (name == "NOT_LEADER_OR_FOLLOWER")

    asyncio.run(run())


def test_a_leader_of_our_own_topic_that_moves_is_asked_for() -> None:
    async def run() -> None:
        target, batches = Target(only=SYNCS, kinds={"Produce": [0, CODES["NOT_LEADER_OR_FOLLOWER"]]}), made(3)
        with pytest.raises(OutcomeUnknown, match=f"Produce to {SYNCS}-0 was answered with NOT_LEADER_OR_FOLLOWER"):
            await session(target).copy(batches, after(batches))
        assert target.forgotten == [SYNCS, f"{SYNCS} to 5"]

    asyncio.run(run())


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("topic", [SYNCS, MAP])
def test_nothing_is_sent_while_one_of_our_own_topics_has_no_leader(topic: str, careful: bool) -> None:
    """Each try would leave a batch in the remote partition that is aborted."""

    class Leaderless(Target):
        async def leader(self, topic_: str, partition: int) -> Leader:
            if topic_ == topic:
                raise Unavailable(f"{topic} has no leader")
            return await super().leader(topic_, partition)

    async def run() -> None:
        target, batches = Leaderless(), made(3, 2)
        for tried in range(3):
            copying = session(target, careful=careful)
            with pytest.raises(OutcomeUnknown, match="has no leader") as raised:
                await copying.copy(batches, after(batches))
            assert raised.value.away and not target.requests, tried
            assert not copying.in_transaction, "nothing was begun"
        if topic == MAP:  # a topic without entries does not need it
            copying = session(target, topic=replace(TOPIC, remote_id=""), careful=careful)
            await copying.copy(batches, after(batches, None))
            assert target.commits == 1

    asyncio.run(run())


@pytest.mark.parametrize("topic", ["remote", SYNCS])
def test_an_answer_that_leaves_a_partition_out_proves_nothing(topic: str) -> None:
    async def run() -> None:
        target, batches = Target(silent=topic), made(3)
        with pytest.raises(OutcomeUnknown, match=r"an answer to Produce does not have each partition once"):
            await session(target).copy(batches, after(batches))
        assert not target.count("EndTxn")

    asyncio.run(run())


def test_a_broker_that_does_not_answer_may_lead_no_more() -> None:
    async def run() -> None:
        target, batches = Target(faults={0: Unanswered("gone")}), made(3)
        with pytest.raises(OutcomeUnknown, match="gone") as raised:
            await session(target).copy(batches, after(batches))
        assert raised.value.away and {"remote", SYNCS, MAP} <= set(target.forgotten)

    asyncio.run(run())


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("first", [True, False])
def test_a_remote_topic_that_was_created_again_gets_nothing(first: bool, careful: bool) -> None:
    """Its log begins anew, and until the metadata is read again only that tells it from the other one."""

    async def run() -> None:
        target = Target()
        copying = session(target, topic=replace(TOPIC, remote_id=""), careful=careful)
        if not first:
            await copying.copy(made(3), after(made(3), None))
        target.ends["remote"] = 7
        batches = made(3, 2, at=3)
        with pytest.raises(
            OutcomeUnknown, match=f"remote-0 begins anew: a batch is at 7, below {100 if first else 103}"
        ):
            await copying.copy(batches, after(batches, None))
        assert target.commits == (not first) and target.forgotten == ["remote"]

    asyncio.run(run())


def test_another_remote_topic_than_the_plans_gets_nothing() -> None:
    """The metadata was read again, for another partition of it."""

    async def run() -> None:
        target, batches = Target(), made(3)
        copying = session(target, topic=replace(TOPIC, remote_id=ANOTHER_ID))
        with pytest.raises(OutcomeUnknown, match="remote is another topic"):
            await copying.copy(batches, after(batches))
        assert not target.requests and not copying.in_transaction

    asyncio.run(run())


@pytest.mark.parametrize("commit", [BatchSession.settle, BatchSession.commit_position])
def test_no_position_is_committed_for_another_remote_topic_than_the_plans(
    commit: Callable[[BatchSession, Position], Coroutine[Any, Any, None]],
) -> None:
    """Nor the sync of a record that the other topic had."""

    async def run() -> None:
        target, batches = Target(), made(3)
        copying = session(target)
        await copying.copy(batches, after(batches))
        asked = len(target.requests)
        target.topic_id = lambda topic: id_of(ANOTHER_ID)  # type: ignore[method-assign]
        with pytest.raises(OutcomeUnknown, match="remote is another topic"):
            await commit(copying, replace(AT, offset=9))
        assert len(target.requests) == asked and not copying.in_transaction and copying.unsynced_tail
        assert target.forgotten == ["remote"], "the next take-over asks which topic it is"

    asyncio.run(run())


NOT_ANSWERED = Unanswered("gone")


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        pytest.param({"append_time": 5}, False, id="replaced timestamps"),
        pytest.param({"faults": {0: NOT_ANSWERED}}, False, id="the first batch"),
        pytest.param({"kinds": {"TxnOffsetCommit": [CODES["UNKNOWN_SERVER_ERROR"]]}}, False, id="the position"),
        pytest.param({"faults": {4: NOT_ANSWERED}}, True, id="the end is not answered"),
        pytest.param({"faults": {4: Lost(NOT_ANSWERED)}}, True, id="the answer to the end is lost"),
        pytest.param({"kinds": {"EndTxn": [CODES["UNKNOWN_SERVER_ERROR"]]}}, True, id="the end is refused"),
    ],
)
def test_the_commit_counts_as_asked_for_only_from_its_end_on(target: dict[str, Any], asked: bool) -> None:
    """What was not ended was not committed, so nobody needs to look whether it was."""

    async def run() -> None:
        broken, batches = Target(**target), made(3, 2)
        copying = session(broken)
        with pytest.raises(PartitionError):
            await copying.copy(batches, after(batches))
        assert copying.commit_asked == ((after(batches, MapEnd(100, 0)), 100) if asked else None)
        assert bool(broken.count("EndTxn")) == asked and copying.in_transaction

    asyncio.run(run())


def test_what_is_committed_is_neither_asked_for_nor_under_way() -> None:
    async def run() -> None:
        copying, batches = session(Target()), made(3)
        await copying.copy(batches, after(batches))
        await copying.settle(replace(AT, offset=9))
        assert copying.commit_asked is None and not copying.in_transaction

    asyncio.run(run())


@pytest.mark.parametrize("purpose_of_silent", [batch_transaction.FIRST_PURPOSE, batch_transaction.PURPOSE])
def test_a_transaction_that_takes_too_long_is_given_up_with_what_was_sent(purpose_of_silent: str) -> None:
    """The next one would wait for its answers. Nothing is ended."""
    retired: list[str] = []

    class Silent(Connected):
        def send(self, request: Request[Any]) -> asyncio.Future[Any]:
            return asyncio.get_running_loop().create_future()

        async def ask(self, request: Request[Any]) -> Any:
            return await self.send(request)

        def retire(self) -> None:
            retired.append(self.purpose)

    class Slow(Target):
        async def connection(self, node: int, purpose: str = "other") -> Connected:
            return (Silent if purpose == purpose_of_silent else Connected)(self, node, purpose)

    async def run() -> None:
        target, batches = Slow(), made(3, 2, 1)
        with pytest.raises(OutcomeUnknown, match="remote-0: a transaction takes too long"):
            await session(target, replace(RARELY, transaction_timeout=0.2)).copy(batches, after(batches))
        assert retired == [purpose_of_silent] and not target.count("EndTxn")

    asyncio.run(run())


@pytest.mark.parametrize("number", [0, 1])
def test_a_partition_that_can_not_be_replicated_blocks_no_others_until_it_commits(number: int) -> None:
    """Its Produce, the first or the last of the transaction, blocks a connection for as long as it may take."""

    async def run() -> None:
        target = Target(faults={number: CODES["REQUEST_TIMED_OUT"]})
        with pytest.raises(OutcomeUnknown, match="REQUEST_TIMED_OUT"):
            await session(target).copy(batches := made(3, 2), after(batches))
        target.do("InitProducerId", b"", target.requests[0], {})
        copying = session(target)
        for purposes in ([batch_transaction.UNREPLICATED_PURPOSE], ["first", "produce"]):
            before, batches = len(target.produced), made(3, 2)
            await copying.copy(batches, after(batches))
            assert [*dict.fromkeys(each.purpose for each in target.produced[before:])] == purposes
        assert target.commits == 2

    asyncio.run(run())


@pytest.mark.parametrize("accepted", [False, True])
def test_timestamps_that_the_target_replaces_are_for_the_record_path(accepted: bool) -> None:
    async def run() -> None:
        target, batches = Target(append_time=5), made(3)
        copying = session(target, replace(RARELY, accept_log_append_time=accepted))
        if accepted:
            await copying.copy(batches, after(batches))
        else:
            with pytest.raises(RecordsRefused, match="remote replaces the timestamps"):
                await copying.copy(batches, after(batches))
        assert target.commits == accepted

    asyncio.run(run())


def test_the_first_batch_is_sent_again_while_it_can_not_have_been_appended() -> None:
    async def run() -> None:
        batches = made(3)
        target = Target(kinds={"Produce": [CODES["CONCURRENT_TRANSACTIONS"], CODES["NOT_ENOUGH_REPLICAS"]]})
        await session(target).copy(batches, after(batches))
        assert len(target.committed["remote"]) == 3
        target = Target(kinds={"Produce": [CODES["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]]})
        with pytest.raises(OutcomeUnknown):
            await session(target).copy(made(3), after(batches))
        assert target.count("Produce") == 1

    asyncio.run(run())


def test_the_first_batch_is_seldom_sent_while_replicas_are_away_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """But soon at first: most often it waits for markers."""
    pauses, sleep = list[float](), asyncio.sleep

    async def slept(pause: float) -> None:
        pauses.append(pause)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", slept)

    async def run() -> None:
        batches, target = made(3), Target(kinds={"Produce": [CODES["NOT_ENOUGH_REPLICAS"]] * 15})
        await session(target).copy(batches, after(batches))
        assert len(target.committed["remote"]) == 3

    asyncio.run(run())
    waits = [each for each in pauses if each]
    assert len(waits) == 15 and sum(waits[:5]) < 0.1 and all(0.5 <= each <= 1.0 for each in waits[-5:])


def test_a_batch_that_one_partition_has_taken_is_not_sent_again() -> None:
    async def run() -> None:
        target = Target()
        copying = session(target)
        first, second = made(3), made(3, at=10)
        await copying.copy(first, after(first))
        target.only, target.kinds = SYNCS, {"Produce": [CODES["CONCURRENT_TRANSACTIONS"]]}
        with pytest.raises(OutcomeUnknown, match=f"Produce to {SYNCS}-0 was answered with CONCURRENT_TRANSACTIONS"):
            await copying.copy(second, after(second))
        assert target.commits == 1 and target.ends["remote"] == 107

    asyncio.run(run())


def test_a_request_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordination, "PATIENCE", 0.05)
    monkeypatch.setattr(batch_transaction, "PATIENCE", 0.05)

    async def run() -> None:
        for kind in ("Produce", "TxnOffsetCommit", "EndTxn"):
            target, batches = Target(kinds={kind: [CODES["CONCURRENT_TRANSACTIONS"]] * 1000}), made(3)
            with pytest.raises(OutcomeUnknown, match=f"{kind}.* was answered with CONCURRENT_TRANSACTIONS"):
                await session(target).copy(batches, after(batches))
            assert target.commits == 0 and 1 < target.count(kind) < 30

    asyncio.run(run())


@pytest.mark.parametrize(
    ("unreplicated", "needs"),
    [
        (False, {("remote", "first"), ("remote", "produce"), (SYNCS, "first"), (MAP, "first")}),
        (True, {(topic, "unreplicated") for topic in ("remote", SYNCS, MAP)}),
    ],
)
def test_a_quota_of_any_leader_that_a_transaction_needs_holds_it_back(
    unreplicated: bool, needs: set[tuple[str, str]]
) -> None:
    class Quiet(Target):
        held_back = "", ""

        def quiet_until(self, topic: str, partition: int, purpose: str) -> float:
            return 7.0 if (topic, purpose) == self.held_back else 5.0

    target = Quiet()
    if unreplicated:
        target.unreplicated.add(("remote", 0))
    for topic, purpose in itertools.product(("remote", SYNCS, MAP), MOST_CONNECTIONS):
        target.held_back = topic, purpose
        assert session(target).quiet_until == (7 if (topic, purpose) in needs else 5)


class SilentAtFirst(Target):
    """It does not answer some questions that come before a request to a coordinator."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self._left = dict.fromkeys([step], 3)

    async def coordinator(self, kind: int, name: str) -> int:
        self._answer("coordinator")
        return await super().coordinator(kind, name)

    async def connection(self, node: int, purpose: str = "other") -> Connected:
        self._answer(f"connection for {purpose}")
        return await super().connection(node, purpose)

    def _answer(self, step: str) -> None:
        if self._left.get(step):
            self._left[step] -= 1
            raise Unanswered("the connection was closed")


@pytest.mark.parametrize("step", ["coordinator", f"connection for {coordination.PURPOSE}"])
def test_a_transaction_goes_on_if_nobody_answers_before_its_request_is_sent(step: str) -> None:
    """That can't have had an effect."""

    async def run() -> None:
        target, batches = SilentAtFirst(step), made(3)
        await session(target).copy(batches, after(batches))
        assert target.commits == target.count("EndTxn") == target.count("TxnOffsetCommit") == 1

    asyncio.run(run())


def test_a_target_that_is_too_old() -> None:
    async def run() -> None:
        batches = made(3)
        with pytest.raises(Unsupported):
            await session(Target(faults={0: Unsupported("Produce needs version 12")})).copy(batches, after(batches))

    asyncio.run(run())


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 50))
def test_where_records_are(counts: list[int], base: int) -> None:
    places = Places.following(base, counts)
    indexes = range(sum(counts))
    assert places.of(indexes) == {index: base + index for index in indexes} and places.last == base + sum(counts) - 1
    apart = Places([2 * each for each in places.bases], counts)
    assert list(apart.of(indexes).values()) == [
        2 * first + n for first, count in zip(places.bases, counts, strict=True) for n in range(count)
    ]


CODES_THAT_COME = st.sampled_from([*CODES.values(), 9999])
ERRORS = st.one_of(st.builds(Unanswered, st.just("no answer")), st.builds(Unavailable, st.just("away")))
FAULTS = st.dictionaries(st.integers(0, 12), st.one_of(CODES_THAT_COME, ERRORS, st.builds(Lost, ERRORS)), max_size=3)


@given(FAULTS, st.lists(st.integers(1, 5), min_size=1, max_size=6), st.sampled_from([1, 6]), st.booleans())
def test_whatever_is_answered_nothing_is_ended_that_is_not_whole(
    faults: dict[int, Fault], counts: list[int], own_node: int, careful: bool
) -> None:
    """A copy that returns has committed once, after good answers to all. One that fails has not asked for the end
    before all were good."""

    async def run() -> None:
        target = Target(faults=faults, nodes={SYNCS: own_node})
        batches = made(*counts)
        copying = session(target, careful=careful)
        try:
            written = await copying.copy(batches, after(batches))
        except (PartitionError, WireError):
            assert target.commits <= 1
            whole = len(target.committed["remote"]) == sum(counts) and target.position.offset == sum(counts)
            assert whole == bool(target.commits)
        else:
            assert written.appended == AppendedOffsets(None, 100, 99 + sum(counts), sum(counts)) and target.commits == 1
            assert sorted(target.committed["remote"]) == list(range(100, 100 + sum(counts)))
            assert [(each.upstream, each.downstream) for each in syncs(target)] == [(0, 100)]
            assert len(entries(target)) == 1 and target.position.offset == sum(counts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordination, "PATIENCE", 0.02)
        patch.setattr(batch_transaction, "PATIENCE", 0.02)
        asyncio.run(run())
