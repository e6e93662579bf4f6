"""How a session becomes the owner of a partition: it fences the last owner, and then loads the position."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass

from mirror.backoff import Backoff
from mirror.errors import OutcomeUnknown, PositionUnstable, WireError
from mirror.target.coordination import AGAIN, PATIENCE, ask, refusal
from mirror.wire.cluster import Cluster
from mirror.wire.error_codes import CODES
from mirror.wire.metadata import GROUP, TRANSACTION
from mirror.wire.offsets import Offset, Where, list_offsets, offset_commit, offset_fetch
from mirror.wire.transactional import Identity, init_producer_id

LOOK_INTERVAL = 0.02  # seconds
HELD = "is held by an open transaction; should that last, see docs/runbooks/MirrorPartitionRetrying.md"

_STILL = AGAIN | {CODES["UNSTABLE_OFFSET_COMMIT"]}


@dataclass(frozen=True, slots=True)
class Owner:
    """Who copies to where: a transactional id, a group, a remote partition, and a topic for tokens."""

    name: str
    group: str
    remote: str
    partition: int
    barrier: str
    timeout: float  # seconds of a transaction

    @property
    def where(self) -> Where:
        """Under what the position is committed."""
        return self.remote, self.partition


async def take_over(target: Cluster, owner: Owner) -> tuple[Identity, Offset | None]:
    """Fence whoever owns the partition, and load the position; None if none was ever committed.

    In between, each transaction has to end that is open on the remote partition. A fenced producer has none, unless the
    target has lost its markers; then the next one would commit it, too. Raises PartitionError.
    """
    try:
        request = init_producer_id(owner.name, owner.timeout)
        entered = await ask(target, TRANSACTION, owner.name, request, lambda found: (found.error,))
        await _settled(target, owner)
        return Identity(owner.name, entered.producer, entered.epoch), await _loaded(target, owner)
    except WireError as error:
        raise OutcomeUnknown(str(error), away=True) from error


async def _settled(target: Cluster, owner: Owner) -> None:
    deadline = time.monotonic() + PATIENCE
    high = await _end(target, owner, stable=False)
    while await _end(target, owner, stable=True) < high:
        if time.monotonic() > deadline:
            raise PositionUnstable(f"{owner.remote}-{owner.partition} {HELD}")
        await asyncio.sleep(LOOK_INTERVAL)


async def _end(target: Cluster, owner: Owner, stable: bool) -> int:
    leader = await target.leader(*owner.where)
    connection = await target.connection(leader.node)
    error, offset = await connection.ask(list_offsets(*owner.where, leader.epoch, stable))
    if error:
        target.forget_leader(*owner.where)
        raise refusal("ListOffsets", error)
    return offset


async def _loaded(target: Cluster, owner: Owner) -> Offset | None:
    """The position, told by a coordinator that can still commit: PositionReader.load says why that matters."""
    deadline, backoff = time.monotonic() + PATIENCE, Backoff(LOOK_INTERVAL, 1.0)
    barrier = owner.barrier, 0
    while time.monotonic() < deadline:
        token = uuid.uuid4().hex
        commit = offset_commit(owner.group, {barrier: Offset(0, token)})
        await ask(target, GROUP, owner.group, commit, lambda found: found.values())
        connection = await target.connection(await target.coordinator(GROUP, owner.group), "coordinator")
        answer = await connection.ask(offset_fetch(owner.group, [barrier, owner.where]))
        failed, position = answer.found.get(owner.where, (answer.error, None))
        failed = answer.error or failed
        told = answer.found.get(barrier)
        if not failed and position is not None and told is not None and told[1].metadata == token:
            return None if position.offset < 0 else position
        if failed and failed not in _STILL:
            raise refusal("OffsetFetch", failed)
        if failed in AGAIN:
            target.forget_coordinator(GROUP, owner.group)
        await asyncio.sleep(backoff.next())  # another task's token may have been in between
    raise PositionUnstable(f"the position of {owner.remote}-{owner.partition} {HELD}")
