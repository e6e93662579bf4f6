"""Commits offsets of consumer groups that mirror is no member of, with the metadata that their members gave."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from confluent_kafka import KafkaError

from mirror.errors import (
    ClusterAway,
    Malformed,
    MirrorError,
    PartitionError,
    Unanswered,
    Unavailable,
    Unsupported,
    WireError,
)
from mirror.groups.commits_of_librdkafka import (
    ANSWER_TIMEOUT,
    FORGOTTEN_AFTER,
    POLL,
    CommitsOfLibrdkafka,
    not_committed,
)
from mirror.groups.group_coordinator import LATE, asked, find_group_coordinators
from mirror.groups.group_offsets import Committed
from mirror.groups.patience import LONG
from mirror.kafka.credentials import properties_of
from mirror.model import BATCH_BYTES
from mirror.settings import Cluster
from mirror.target.coordination import codes
from mirror.wire import cluster as wire
from mirror.wire.access import access
from mirror.wire.connection import Connection
from mirror.wire.error_codes import CODES, NONE, failure, name_of
from mirror.wire.offsets import OFFSET_COMMIT_KEPT, Offset, Where, offset_commit, offset_commit_kept
from mirror.wire.requests import Request

log = logging.getLogger(__name__)

Answer = Mapping[Where, int]  # an error code for each offset
Taken = tuple[dict[Where, Committed], dict[Where, str]]  # what was committed, and why the rest was not

# The coordinator moves or loads, or its replicas are slow. As Java's consumer does it, the same commit is sent again:
# if the first one has an effect after all, it is the same.
_AGAIN = codes("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "REQUEST_TIMED_OUT")
_NONE_KEPT: Mapping[str, float] = MappingProxyType({})
_HAS_MEMBERS = CODES["UNKNOWN_MEMBER_ID"]
_TOO_LONG = CODES["OFFSET_METADATA_TOO_LARGE"]  # the target's offset.metadata.max.bytes is smaller
PART_MAX = BATCH_BYTES // 4  # bytes of a part's records, about; a target may have a smaller max.message.bytes
# Somebody else may have committed a higher offset since then.
OLD = "it is too long since mirror has read the group's offsets there; the next group round reads them again"
_BESIDE = 64  # bytes of a record of __consumer_offsets, beside the names and the metadata


def in_parts(group: str, offsets: Mapping[Where, Committed]) -> Iterator[dict[Where, Committed]]:
    """The offsets in parts, each of which a broker takes in one commit. Pure.

    Kafka writes the offsets of a commit as one batch, and refuses all of them if that is larger than
    `max.message.bytes` of __consumer_offsets.
    """
    part: dict[Where, Committed] = {}
    size = 0
    for where, at in offsets.items():
        more = _BESIDE + sum(len(text.encode()) for text in (group, where[0], at.metadata))
        if part and size + more > PART_MAX:
            yield part
            part, size = {}, 0
        part[where] = at
        size += more
    if part:
        yield part


class TooLate(ClusterAway):
    """The commit was not sent, or not again, before the time after which it may not be. The cluster may well answer."""

    def __init__(self, cluster: str, reason: str) -> None:
        MirrorError.__init__(self, f"cluster {cluster}: {reason}")
        self.cluster = cluster


@dataclass(frozen=True, slots=True)
class _Sent:
    """A commit that was sent, and the client that waits for its answer."""

    client: wire.Cluster
    answer: asyncio.Future[Answer]
    at: float = field(default_factory=time.monotonic)

    @property
    def may_be_carried_out(self) -> bool:
        """True if it has no answer yet, or has lost its connection, and is not too old."""
        lost = self.answer.done() and isinstance(self.answer.exception(), Unanswered)
        return (lost or not self.answer.done()) and time.monotonic() - self.at <= FORGOTTEN_AFTER


class GroupCommits:
    """Commits to the groups of one cluster, until `close`. Only one thread uses it.

    It commits as an admin tool does, without a member. Kafka refuses that with UNKNOWN_MEMBER_ID if the group has some.

    It uses mirror's own client, because confluent-kafka adds a NUL to the metadata. Where only librdkafka can log in,
    or a broker is too old, librdkafka commits.

    A commit without an answer can't be taken back: it may be carried out later, and would then replace the offset of
    the next commit. So a group gets no other commit until this one has an answer, or is so old that a broker which runs
    has carried it out. If it was sent again, as after a lost connection, one answer is enough: should the first one
    be carried out late, the offset goes back until the next round.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._there = cluster
        self._runner = asyncio.Runner()  # its loop runs while we wait for an answer
        self._client: wire.Cluster | None = None
        self._groups: Collection[str] = ()  # of this round
        self._keep: Mapping[str, float] = {}  # in this round: for how many seconds a group's offsets have to be kept
        self._needs_librdkafka = False  # True for the rest of a round once our client can't be used
        self._of_librdkafka = CommitsOfLibrdkafka(cluster)
        self._sent: dict[str, _Sent] = {}  # by group: commits without an answer

    def close(self) -> None:
        """Close the connections, and drop what has no answer."""
        for group in list(self._sent):
            self._forget(group)
        self._disconnect()
        self._runner.close()
        self._of_librdkafka.close()

    @contextlib.contextmanager
    def round(self, groups: Collection[str], keep: Mapping[str, float] = _NONE_KEPT) -> Iterator[None]:
        """Commit to some of these groups within it. Connections are closed in the end.

        The offsets of groups in `keep` are to be kept for so many seconds. librdkafka, and a broker that knows no such
        request, can't be told so.

        The next round may begin so late that a firewall has dropped them, and has told nobody.
        """
        self._groups, self._keep, self._needs_librdkafka = groups, keep, False
        try:
            yield
        finally:
            self._disconnect()
            for group in [group for group, each in self._sent.items() if not each.may_be_carried_out]:
                self._forget(group)

    def commit(
        self, group: str, offsets: Mapping[Where, Committed], until: float = math.inf, timeout: float = LONG
    ) -> Taken | None:
        """Commit offsets of a group; without their metadata where it is too long. None if the group has members.

        Another error of a partition counts, though. So if the broker tells of members for the others only, these are
        neither committed nor refused in the answer.

        After `until` on the monotonic clock nothing is sent, nor sent again: somebody may have committed higher offsets
        since we have read those of the target. (What librdkafka sends again by itself is not bound by it.) Raises
        ClusterAway, with TooLate, or PartitionError.
        """
        answer = dict(self._answer(group, offsets, until, timeout))
        if bare := {where: Committed(offsets[where].offset, "") for where in offsets if answer[where] == _TOO_LONG}:
            answer |= self._answer(group, bare, until, timeout)
        if set(answer.values()) == {_HAS_MEMBERS}:
            return None
        errors = {where: answer[where] for where in offsets if answer[where] not in (NONE, _HAS_MEMBERS)}
        texts = {code: f"{name_of(code)} ({KafkaError(code).str()})" for code in errors.values()}
        taken = {where: bare.get(where, at) for where, at in offsets.items() if answer[where] == NONE}
        return taken, {where: not_committed(group, texts[code]) for where, code in errors.items()}

    def _answer(self, group: str, offsets: Mapping[Where, Committed], until: float, timeout: float) -> Answer:
        self._end_earlier(group)
        if not self._needs_librdkafka:
            try:
                return self._commit(group, offsets, until, timeout)
            except Unsupported as error:
                self._needs_librdkafka = True
                # Not more than debug: each group round says it again.
                said = {"cluster": self._there.alias, "reason": str(error)}
                log.debug("metadata of groups gets a NUL at its end", extra=said)
        self._check_time(group, until)
        return self._of_librdkafka.commit(group, offsets, timeout)

    def _connected(self) -> wire.Cluster:
        if self._client is None:
            self._client = wire.Cluster(access(properties_of(self._there)))
            self._runner.run(find_group_coordinators(self._client, self._groups))
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def _end_earlier(self, group: str) -> None:
        """Raise ClusterAway while an earlier commit of the group may still be carried out.

        Its result shows in the group's offsets, which are read in each round.
        """
        self._of_librdkafka.end_earlier(group)
        earlier = self._sent.get(group)
        if earlier is None:
            return
        self._runner.run(asyncio.wait((earlier.answer,), timeout=POLL))
        if earlier.may_be_carried_out:
            raise ClusterAway(self._there.alias, not_committed(group, LATE))
        self._forget(group)

    def _check_time(self, group: str, until: float) -> None:
        if time.monotonic() >= until:
            raise TooLate(self._there.alias, not_committed(group, OLD))

    def _forget(self, group: str) -> None:
        self._sent.pop(group).client.close()

    def _commit(self, group: str, offsets: Mapping[Where, Committed], until: float, timeout: float) -> Answer:
        try:
            client = self._connected()
            ask = partial(self._answered, client, group, offsets, until)
            return self._runner.run(asked(client, group, ask, min(timeout, ANSWER_TIMEOUT), until))
        except Unavailable as error:
            if time.monotonic() >= until and group not in self._sent:
                raise TooLate(self._there.alias, not_committed(group, f"{error}, and by now {OLD}")) from error
            raise ClusterAway(self._there.alias, not_committed(group, error)) from error
        except Unsupported:
            raise
        except WireError as error:
            raise PartitionError(not_committed(group, error)) from error
        finally:
            if group in self._sent:
                self._client = None  # a broker answers in order: no other commit has to wait for this one

    async def _answered(
        self,
        client: wire.Cluster,
        group: str,
        offsets: Mapping[Where, Committed],
        until: float,
        coordinator: Connection,
    ) -> Answer:
        """The coordinator's answer. Whoever gives up waiting does not cancel it: `_end_earlier` looks whether it came.

        Raises WireError; Unavailable if the coordinator is to be asked again; TooLate.
        """
        request = self._request(group, offsets, coordinator)
        self._check_time(group, until)
        sent = self._sent[group] = _Sent(client, coordinator.send(request))
        await asyncio.wait((sent.answer,))
        if not sent.may_be_carried_out:
            del self._sent[group]
        answer = sent.answer.result()
        passing = _AGAIN.intersection(answer.values())
        if passing:
            raise failure(min(passing), request.api.name)
        missing = offsets.keys() - answer.keys()
        if missing:
            topic, partition = min(missing)
            raise Malformed(f"the answer to {request.api.name} does not have {topic}-{partition}")
        return answer

    def _request(self, group: str, offsets: Mapping[Where, Committed], coordinator: Connection) -> Request[Answer]:
        places = {where: Offset(at.offset, at.metadata, at.epoch) for where, at in offsets.items()}
        if group in self._keep:
            with contextlib.suppress(Unsupported):
                coordinator.version(OFFSET_COMMIT_KEPT)
                return offset_commit_kept(group, places, self._keep[group])
        return offset_commit(group, places)
