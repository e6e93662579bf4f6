"""Fence, then load: what a take-over by whole batches waits for, and which answers it believes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from mirror.batches.headers import TRANSACTIONAL
from mirror.batches.records import Content
from mirror.errors import LoginRefused, OutcomeUnknown, PositionUnstable, ProducerFenced, Unanswered, Unsupported
from mirror.model import Position, Topic
from mirror.target import batch_take_over, coordination
from mirror.target.batch_take_over import Owner, TakenOver, take_over
from mirror.target.loading import Tokens
from mirror.target.position_metadata import encoded
from mirror.wire.cluster import Cluster
from mirror.wire.error_codes import CODES, failure
from mirror.wire.offsets import Offset
from mirror.wire.transactional import Identity
from tests.harness import batches
from tests.harness.batch_target import PRODUCER, REMOTE_ID, Target
from tests.unit.target.test_batch_session import ANOTHER_ID
from tests.unit.test_naming import flow

TOPIC = Topic("remote", "id", 1, 1, REMOTE_ID)
OWNER = Owner.of(flow(), TOPIC, 0)
AT = Position(99, "id", 2, remote_id=REMOTE_ID, resets=1)
COMMITTED = Offset(AT.offset, encoded(AT), AT.epoch)


def part_of(first: int, attributes: int = 0, producer: int = -1) -> bytes:
    """A batch of three records."""
    contents = [(at, at, Content(b"%d" % at, None, ())) for at in range(first, first + 3)]
    return batches.batch(contents, attributes=attributes, producer=producer)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (coordination, batch_take_over):
        monkeypatch.setattr(module, "PATIENCE", 0.2)


async def taking(
    target: Target, tokens: Tokens | None = None, progressed: Callable[[], None] = lambda: None
) -> TakenOver:
    return await take_over(cast(Cluster, target), OWNER, tokens or Tokens(), progressed)


def test_the_owner_is_that_of_the_record_path() -> None:
    assert (OWNER.name, OWNER.group, OWNER.where) == ("group/remote/0", "group", ("remote", 0))


def test_it_waits_for_open_transactions_and_for_a_position_that_one_holds() -> None:
    async def run() -> None:
        target = Target(kinds={"InitProducerId": [CODES["CONCURRENT_TRANSACTIONS"], CODES["NOT_COORDINATOR"]]})
        target.position, target.stable, target.held = COMMITTED, [100, 90, 95, 100], 2
        assert await taking(target) == TakenOver(Identity("group/remote/0", PRODUCER, 4), AT, 100)
        kinds = [each.kind for each in target.requests]
        assert kinds == ["InitProducerId"] * 3 + ["ListOffsets"] * 4 + ["OffsetCommit"] + ["OffsetFetch"] * 3

    asyncio.run(run())


def test_a_partition_that_was_never_copied() -> None:
    async def run() -> None:
        target = Target(ends={"remote": 0})
        taken = await taking(target)
        assert taken.position is None and not taken.has_records and not target.count("Fetch")

    asyncio.run(run())


ABORTED = part_of(0, TRANSACTIONAL, producer=7)
MARKER, OTHER_MARKER = batches.marker(3, 7, commit=False), batches.marker(3, 8, commit=True)


@pytest.mark.parametrize(
    ("logs", "aborted", "visible"),
    [
        ({0: ABORTED + MARKER}, [(7, 0)], False),
        ({0: ABORTED, 3: MARKER}, [(7, 0)], False),
        ({0: MARKER}, [], False),
        ({0: ABORTED + MARKER}, [], True),
        ({0: ABORTED + OTHER_MARKER}, [(8, 0)], True),
        ({0: part_of(0)}, [(-1, 0)], True),
        ({0: ABORTED}, [(7, 0)], True),  # what follows is not said
        ({}, [], True),
        ({0: ABORTED[:-1] + b"?" + MARKER}, [(7, 0)], True),  # it can't be read
        ({0: batches.message(3, 1, b"", b"")}, [], True),  # an old format
    ],
)
def test_only_records_that_are_seen_count(
    logs: dict[int, bytes], aborted: list[tuple[int, int]], visible: bool
) -> None:
    """Unless it is known that nobody sees anything, there may be something."""

    async def run() -> None:
        target = Target(ends={"remote": 4}, log=lambda at: (logs.get(at, b""), aborted))
        taken = await taking(target)
        assert (taken.position, taken.has_records) == (None, visible)
        assert set(target.isolations) == {1}

    asyncio.run(run())


def test_it_says_that_it_goes_on_while_it_reads_aborted_transactions() -> None:
    """There may be any number of them, and who stands still for long is taken for hung."""

    async def run() -> None:
        calls: list[None] = []
        target = Target(ends={"remote": 4}, log=lambda at: ({0: ABORTED, 3: MARKER}[at], [(7, 0)]))
        assert not (await taking(target, progressed=lambda: calls.append(None))).has_records
        assert len(calls) == 3 + target.count("Fetch") == 5

    asyncio.run(run())


@pytest.mark.parametrize(("error", "passes"), [("TOPIC_AUTHORIZATION_FAILED", False), ("NOT_LEADER_OR_FOLLOWER", True)])
def test_who_may_not_look_takes_it_that_there_are_records(error: str, passes: bool) -> None:
    """If that passes, it looks again."""

    async def run() -> None:
        target = Target(ends={"remote": 4}, kinds={"Fetch": [CODES[error]]})
        if passes:
            with pytest.raises(OutcomeUnknown):
                await taking(target)
            assert "remote" in target.forgotten
        else:
            assert (await taking(target)).has_records

    asyncio.run(run())


@pytest.mark.parametrize(
    ("tokens", "believed"),
    [
        ([], True),
        (["older"], True),  # the first answer is not believed, the second one is
        (["older"] * 1000, False),
        ([f"{'9' * 32}/{n}" for n in range(1000)], False),
    ],
)
def test_only_a_token_of_ours_is_believed(tokens: list[str], believed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that was deposed tells what it remembers."""
    if not believed:
        monkeypatch.setattr(coordination, "PATIENCE", 0.2)

    async def run() -> None:
        target = Target(tokens=list(tokens), position=COMMITTED)
        if believed:
            assert (await taking(target)).position == AT
        else:
            with pytest.raises(PositionUnstable, match="the position of remote-0 comes from a stale group"):
                await taking(target)
        assert target.count("OffsetCommit") == target.count("OffsetFetch")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("tokens", "forgotten"),
    [
        (["a/1"], 0),
        (["a/1", "b/1", "a/2", "b/2"], 0),
        (["a/1", "a/1"], 1),
        (["a/1", "b/1", "b/1", "b/1", "a/2"], 2),
        (["", ""], 1),
    ],
)
def test_a_coordinator_is_forgotten_only_if_the_token_stands_still(tokens: list[str], forgotten: int) -> None:
    """The tasks of a flow write their tokens to one place, so a coordinator that is well may show another's."""

    async def run() -> None:
        target = Target(tokens=list(tokens), position=COMMITTED)
        assert (await taking(target)).position == AT
        assert target.forgotten == ["group"] * forgotten and target.count("OffsetFetch") == len(tokens) + 1

    asyncio.run(run())


def test_tasks_that_take_over_at_the_same_time_do_not_forget_the_coordinator() -> None:
    async def run() -> None:
        target = Target(position=COMMITTED)
        taken = await asyncio.gather(*(taking(target) for _ in range(5)))
        assert [each.position for each in taken] == [AT] * 5 and not target.forgotten
        assert target.count("OffsetFetch") > 5, "some have seen the token of another one"

    asyncio.run(run())


def test_another_remote_topic_than_the_plans_is_not_taken_over() -> None:
    """The plan will say what follows. If only what is known of the topic is old, the next try finds the plan's."""

    async def run() -> None:
        target, owner = Target(position=COMMITTED), Owner.of(flow(), replace(TOPIC, remote_id=ANOTHER_ID), 0)
        with pytest.raises(OutcomeUnknown, match="remote is another topic than the one that the plan names") as raised:
            await take_over(cast(Cluster, target), owner, Tokens())
        assert target.forgotten == ["remote"] and not target.count("OffsetCommit")
        assert (raised.value.away, raised.value.blocked) == (False, False)

    asyncio.run(run())


def test_a_token_of_before_is_not_believed() -> None:
    """A token that was made later is believed, of whichever partition of the task it is."""

    async def run() -> None:
        tokens = Tokens()
        old, target = tokens.make(), Target(position=COMMITTED)
        target.tokens = [old]
        assert (await taking(target, tokens)).position == AT and target.count("OffsetFetch") == 2

    asyncio.run(run())
    tokens = Tokens()
    before, token, began = tokens.begin(), tokens.make(), tokens.begin()
    assert tokens.is_since(before, token) and tokens.is_since(before, tokens.make())
    assert not tokens.is_since(began, token) and not Tokens().is_since(before, token)
    for text in (None, "", "/", token + "x", token.partition("/")[0], token.partition("/")[0] + "/" + "9" * 30):
        assert not tokens.is_since(before, text)


@pytest.mark.usefixtures("impatient")
def test_a_transaction_that_lasts() -> None:
    async def run() -> None:
        said = r"remote-0 is held by an open transaction of producer id 8 \(epoch 2, start offset 90\); should"
        with pytest.raises(PositionUnstable, match=said):
            await taking(Target(stable=[100] + [90] * 1000))
        refused = {"DescribeProducers": [CODES["TOPIC_AUTHORIZATION_FAILED"]]}
        with pytest.raises(PositionUnstable, match="remote-0 is held by an open transaction; should"):
            await taking(Target(stable=[100] + [90] * 1000, kinds=refused))
        with pytest.raises(PositionUnstable, match="held by an open transaction"):
            await taking(Target(held=1000))

    asyncio.run(run())


@pytest.mark.parametrize("level", [0, 1])
def test_transactions_of_version_2_are_needed(level: int) -> None:
    async def run() -> None:
        target = Target(level=level)
        with pytest.raises(Unsupported, match=f"transaction.version of the target is {level}, and has to be 2"):
            await taking(target)
        assert not target.requests, "nobody is fenced"

    asyncio.run(run())


def test_a_release_without_transactions_of_version_2() -> None:
    """Such a release may be so old that it has no features."""

    async def run() -> None:
        target = Target(unaware=True, versions={"EndTxn": 4})
        with pytest.raises(Unsupported, match="EndTxn needs version 5"):
            await taking(target)
        assert not target.requests, "nobody is fenced"

    asyncio.run(run())


def test_a_broker_that_has_just_started_is_asked_again() -> None:
    async def run() -> None:
        target = Target(unaware=True, position=COMMITTED)
        with pytest.raises(OutcomeUnknown, match="broker 1 does not know the cluster's features yet") as raised:
            await taking(target)
        assert raised.value.away and (await taking(target)).position == AT

    asyncio.run(run())


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("code", "away", "blocked"),
    [
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", False, True),
        ("TOPIC_AUTHORIZATION_FAILED", False, True),
        ("LEADER_NOT_AVAILABLE", True, False),
        ("UNKNOWN_SERVER_ERROR", False, False),
    ],
)
@pytest.mark.parametrize("asked", ["coordinator", "leader", "any"])
def test_what_a_refused_question_means(code: str, away: bool, blocked: bool, asked: str) -> None:
    """Who coordinates and who leads may be refused, too."""

    async def run() -> None:
        async def refused(*_: object) -> None:
            raise failure(CODES[code], "it")

        target = Target()
        setattr(target, asked, refused)
        with pytest.raises(OutcomeUnknown, match=f"it was answered with {code}") as raised:
            await taking(target)
        assert (raised.value.away, raised.value.blocked) == (away, blocked)

    asyncio.run(run())


def test_a_refused_login_is_like_a_cluster_that_does_not_answer() -> None:
    """Another password may come: as on the record path."""

    async def run() -> None:
        async def refused(*_: object) -> None:
            raise LoginRefused("bad password", CODES["SASL_AUTHENTICATION_FAILED"])

        target = Target()
        target.any = refused  # type: ignore[assignment]
        with pytest.raises(OutcomeUnknown, match="bad password") as raised:
            await taking(target)
        assert (raised.value.away, raised.value.blocked) == (True, False)

    asyncio.run(run())


def test_errors() -> None:
    async def run() -> None:
        with pytest.raises(ProducerFenced):
            await taking(Target(kinds={"InitProducerId": [CODES["PRODUCER_FENCED"]]}))
        target = Target(faults={1: Unanswered("gone")})
        with pytest.raises(OutcomeUnknown, match="gone") as raised:
            await taking(target)
        assert raised.value.away and "remote" in target.forgotten
        target = Target(kinds={"ListOffsets": [CODES["NOT_LEADER_OR_FOLLOWER"]]})
        with pytest.raises(OutcomeUnknown, match="ListOffsets was answered with NOT_LEADER_OR_FOLLOWER"):
            await taking(target)
        assert "remote" in target.forgotten
        with pytest.raises(OutcomeUnknown, match="GROUP_AUTHORIZATION_FAILED") as refused:
            await taking(Target(kinds={"OffsetCommit": [CODES["GROUP_AUTHORIZATION_FAILED"]]}))
        assert refused.value.blocked

    asyncio.run(run())
