"""Transactions on a target whose answers are well formed and wrong: only what they say of the request counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from mirror.errors import OutcomeUnknown, PartitionError
from mirror.target.batch_take_over import Owner, take_over
from mirror.target.loading import Tokens
from mirror.wire.cluster import Cluster
from mirror.wire.offsets import Offset
from mirror.wire.produce import ProduceAnswer, Produced
from tests.harness.batch_requests import BARRIER, ID, MAP, SYNCS, Sent
from tests.harness.batch_target import Target, made
from tests.unit.target.test_batch_session import after, session

OWNER = Owner("group/remote/0", "group", "remote", 0, BARRIER, 60.0)
Lie = Callable[[Any], Any]  # what is answered in place of the answer


@dataclass
class Liar(Target):
    """It does what it is asked to do, and answers what `lies` make of it, by kind of request."""

    lies: Mapping[str, Lie] = field(default_factory=dict)

    def do(self, kind: str, body: bytes, sent: Sent, data: Mapping[str, memoryview]) -> Any:
        found = super().do(kind, body, sent, data)
        return self.lies[kind](found) if kind in self.lies else found


def instead(topic: str, other: bytes | None = None, partition: int = 0) -> Lie:
    """Answer for another partition in place of this topic's. `other` is its id; None: the remote topic's."""

    def lie(found: ProduceAnswer) -> ProduceAnswer:
        wrong = other or ID["remote"]
        changed = [
            (wrong, replace(each, partition=partition)) if named == ID[topic] else (named, each)
            for named, each in found.partitions
        ]
        return replace(found, partitions=changed)

    return lie


def based(base: int) -> Lie:
    """Answer that every batch is at this offset."""
    return lambda found: replace(
        found, partitions=[(named, replace(each, base=base)) for named, each in found.partitions]
    )


@pytest.mark.parametrize(
    "lie",
    [
        instead(SYNCS),
        instead(MAP),
        instead(SYNCS, b"?" * 16),
        instead(MAP, ID[MAP], partition=7),
        instead("remote", ID["remote"], partition=1),
        lambda found: replace(found, partitions=[*found.partitions, (b"?" * 16, Produced(0, 0, 5, "", None))]),
        lambda found: replace(found, partitions=[*found.partitions, *found.partitions]),
        lambda found: replace(found, partitions=()),
        based(2**63 - 1),
        based(2**63 - 2),
        based(-(2**63)),
        based(-1),
        based(0),
    ],
)
@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("node", [1, 6])
def test_what_was_not_said_of_each_partition_is_not_committed(lie: Lie, careful: bool, node: int) -> None:
    async def run() -> None:
        target = Liar(lies={"Produce": lie}, nodes={SYNCS: node, MAP: node})
        batches = made(3, 2)
        with pytest.raises(PartitionError):
            await session(target, careful=careful).copy(batches, after(batches))
        assert not target.commits

    asyncio.run(run())


@pytest.mark.parametrize("found", [{}, {("remote", 1): 0}, {("other", 0): 0}])
def test_a_position_counts_only_if_it_is_in_the_answer(found: Mapping[tuple[str, int], int]) -> None:
    async def run() -> None:
        target = Liar(lies={"TxnOffsetCommit": lambda _: found})
        batches = made(3)
        with pytest.raises(PartitionError):
            await session(target).copy(batches, after(batches))
        assert not target.commits

    asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "lie"),
    [
        ("OffsetCommit", lambda _: {}),
        ("OffsetCommit", lambda _: {("other", 0): 0}),
        ("ListOffsets", lambda _: (0, -1)),
        ("ListOffsets", lambda _: (0, -(2**63))),
    ],
)
def test_nothing_is_taken_over_by_an_answer_to_something_else(kind: str, lie: Lie) -> None:
    """An end below 0 would say that the remote partition is empty, and that all is to be copied again."""

    async def run() -> None:
        with pytest.raises(OutcomeUnknown):
            await take_over(cast(Cluster, Liar(lies={kind: lie}, position=Offset(5, "{}"))), OWNER, Tokens())

    asyncio.run(run())


def test_only_partitions_that_were_asked_for_are_remembered() -> None:
    """A broker can make up as many names as it likes."""

    def refused(found: ProduceAnswer) -> ProduceAnswer:
        return replace(found, partitions=[(b"?" * 16, replace(each, error=6)) for _, each in found.partitions])

    async def run() -> None:
        target = Liar(lies={"Produce": refused})
        batches = made(3)
        with pytest.raises(OutcomeUnknown):
            await session(target).copy(batches, after(batches))
        assert set(target.forgotten) <= set(ID)

    asyncio.run(run())
