"""Asks coordinators of the target, which move and load, and says what a broker's refusal means for a partition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from mirror.backoff import Backoff
from mirror.errors import (
    OutcomeUnknown,
    PartitionError,
    PositionUnstable,
    ProducerFenced,
    RecordsRefused,
    Unanswered,
    Unavailable,
    WireError,
)
from mirror.target.loading import LOOK_INTERVAL, TIMEOUT, Tokens, doubtful, held
from mirror.target.position_metadata import terminated
from mirror.wire.cluster import Cluster
from mirror.wire.connection import Connection
from mirror.wire.error_codes import CODES, PASSING, name_of
from mirror.wire.metadata import GROUP
from mirror.wire.offsets import Offset, Offsets, Where, offset_commit, offset_fetch
from mirror.wire.requests import Request

T = TypeVar("T")

PURPOSE = "coordinator"
PATIENCE = TIMEOUT  # for a request that is sent again
UNKNOWN = CODES["UNKNOWN_SERVER_ERROR"]  # stands for the error code of what an answer does not have


def codes(*names: str) -> frozenset[int]:
    """The error codes with these names."""
    return frozenset(CODES[name] for name in names)


# The request may be sent again: a coordinator moves or loads, or the markers of the last transaction are still to be
# written. It had no effect, or like an EndTxn the same one as when it is sent again.
AGAIN = codes("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
# The same of a question, whose answer has to wait for a transaction that holds the position (KIP-447).
_UNSTABLE = codes("UNSTABLE_OFFSET_COMMIT")
STABLE = AGAIN | _UNSTABLE
# These say nothing against the coordinator.
_STAYS = _UNSTABLE | codes("CONCURRENT_TRANSACTIONS")
_FENCED = codes("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "TRANSACTION_COORDINATOR_FENCED")
_REFUSED = codes(
    "MESSAGE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_RECORD",
    "CORRUPT_MESSAGE",  # unreadable, though its checksum is right
    "POLICY_VIOLATION",
    "INVALID_TIMESTAMP",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
)
# Only a person can end these.
_LASTING = codes(
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "INVALID_TRANSACTION_TIMEOUT",
)


def refusal(what: str, code: int, message: str = "") -> PartitionError:
    """The error for an error code in an answer. It says whether the partition goes on by itself."""
    text = " ".join(filter(None, (f"{what} was answered with {name_of(code)}", message)))
    if code in _FENCED:
        return ProducerFenced(text)
    if code in _REFUSED:
        return RecordsRefused(text)
    if code in _UNSTABLE:
        return PositionUnstable(held(what))
    return OutcomeUnknown(text, away=code in PASSING, blocked=code in _LASTING)


def failed(error: WireError) -> OutcomeUnknown:
    """The error for a request that has failed without such an answer."""
    return OutcomeUnknown(str(error), error.away or isinstance(error, Unavailable), error.code in _LASTING)


async def ask(
    target: Cluster,
    kind: int,
    name: str,
    request: Request[T],
    errors: Callable[[T], Collection[int]],
    again: Collection[int] = AGAIN,
) -> T:
    """Ask the coordinator of a name until it answers without an error, which `errors` finds in the answer.

    The request is sent again while it can't have had an effect, or says that it had none. Raises PartitionError, and
    Unanswered if nobody knows whether it had one.
    """
    deadline, backoff = time.monotonic() + PATIENCE, Backoff(0.002, 0.2)
    while True:
        try:
            found = await (await _connection(target, kind, name)).ask(request)
        except Unanswered:
            target.forget_coordinator(kind, name)
            raise
        except Unavailable as error:  # it was not sent
            target.forget_coordinator(kind, name)
            if time.monotonic() > deadline:
                raise failed(error) from error
        else:
            bad = {each for each in errors(found) if each}
            if not bad:
                return found
            if not bad <= set(again) or time.monotonic() > deadline:
                raise refusal(request.api.name, min(bad - set(again) or bad))
            if not bad <= _STAYS:
                target.forget_coordinator(kind, name)
        await asyncio.sleep(backoff.next())


async def committed_offsets(
    target: Cluster,
    group: str,
    token_topic: str,
    tokens: Tokens,
    asked: Collection[Where],
    errors: Callable[[Offsets], Collection[int]],
    again: Collection[int] = AGAIN,
) -> Mapping[Where, tuple[int, Offset]]:
    """What the group has committed, by a coordinator that can still commit: Tokens says why that matters.

    An answer counts only if it has a token of ours since this call began. `errors` and `again` are those of `ask`.
    Raises the same errors as `ask`, and PositionUnstable if no answer counts.
    """
    deadline, backoff = time.monotonic() + PATIENCE, Backoff(LOOK_INTERVAL, 1.0)
    began, token_at = tokens.begin(), (token_topic, 0)
    wanted, before = [token_at, *asked], None
    while time.monotonic() < deadline:
        token = Offset(0, terminated(tokens.make()))
        commit = offset_commit(group, {token_at: token})
        await ask(target, GROUP, group, commit, lambda found: (found.get(token_at, UNKNOWN),))
        found = (await ask(target, GROUP, group, offset_fetch(group, wanted), errors, again)).found
        _, seen = found.get(token_at, (0, Offset(-1, "")))
        if tokens.is_since(began, seen.metadata):
            return found
        # Another task may have committed its token after ours. Only if the token stands still, although we commit ours,
        # the answers may come from a coordinator that was deposed.
        if seen.metadata == before:
            target.forget_coordinator(GROUP, group)
        before = seen.metadata
        await asyncio.sleep(backoff.next())
    topic, partition = wanted[-1]
    raise PositionUnstable(doubtful(f"{topic}-{partition}", token_topic))


async def _connection(target: Cluster, kind: int, name: str) -> Connection:
    """A connection to the coordinator of a name. Raises WireError, but never Unanswered.

    Who gets no answer to the question who that is has not sent anything to the coordinator yet.
    """
    try:
        return await target.connection(await target.coordinator(kind, name), PURPOSE)
    except Unanswered as error:
        raise Unavailable(str(error)) from error
