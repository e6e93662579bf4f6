"""Reads the offsets of consumer groups that mirror is no member of, with the metadata that their members gave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from mirror.errors import ClusterAway, PartitionError, Unavailable, Unsupported, WireError
from mirror.groups.group_coordinator import asked, find_group_coordinators
from mirror.groups.offsets_of_librdkafka import positions_of
from mirror.groups.other_groups import other_groups
from mirror.groups.patience import LONG
from mirror.kafka.credentials import properties_of
from mirror.model import Partition
from mirror.settings import Cluster
from mirror.target.loading import held
from mirror.target.position_metadata import without_end
from mirror.wire import cluster as wire
from mirror.wire.access import access
from mirror.wire.connection import Connection
from mirror.wire.error_codes import CODES, failure, name_of
from mirror.wire.offsets import Offsets, offset_fetch
from mirror.wire.requests import Request

log = logging.getLogger(__name__)

BLANKS = " \t\n\v\f\r"  # what librdkafka drops at the beginning of a property
GROUP_MAX = 255  # characters of a group's id: Kafka allows 32 kB, and metrics, status and log have thousands of ids
UNUSABLE = f"the id is empty, begins with a blank, has a NUL or more than {GROUP_MAX} characters"
_CUT = 60  # characters that are shown of an id that is too long
_UNSTABLE = CODES["UNSTABLE_OFFSET_COMMIT"]


def is_usable_group(group: str) -> bool:
    """False for a group id that librdkafka does not take as it is, and for a very long one.

    librdkafka drops blanks at the beginning, and reads up to a NUL. With an id that is empty then, the making of a
    consumer ends the process by an assertion. Brokers accept such ids from any client.
    """
    return 0 < len(group) <= GROUP_MAX and group[0] not in BLANKS and "\0" not in group


def shown_group(group: str) -> str:
    """The id for people and for metrics, cut if it is too long."""
    return group if len(group) <= GROUP_MAX else f"{group[:_CUT]}... ({len(group):,} characters)"


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset, with the metadata that a consumer gave it, as it stands on the cluster.

    What confluent-kafka commits ends with a NUL, and it reads up to one. So the NUL is kept, and none is added.
    """

    offset: int
    metadata: str
    epoch: int = field(default=-1, compare=False)  # the leader's of the record before it (KIP-320); -1: not known

    @property
    def text(self) -> str:
        """The metadata up to a NUL, as confluent-kafka gives it to a program."""
        return without_end(self.metadata)


Found = tuple[dict[Partition, Committed], dict[Partition, str]]


class GroupOffsets:
    """Reads on one cluster, until `close`.

    It uses mirror's own client. Other clients write no NUL after their metadata, and confluent-kafka reads on to the
    next one: what it gives may end with bytes of something else. Where only librdkafka can log in, or a broker is too
    old, librdkafka reads the offsets, and no metadata is given but that of mirror's own positions.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._there = cluster
        self._runner = asyncio.Runner()  # its loop runs while we wait for an answer
        self._client: wire.Cluster | None = None
        try:
            self._client = wire.Cluster(access({**properties_of(cluster), **cluster.consumer}))
        except Unsupported as error:
            self._leave_out_metadata(error)

    @property
    def gives_metadata(self) -> bool:
        """True if it has given the metadata of offsets so far."""
        return self._client is not None

    def find_coordinators(self, groups: Iterable[str]) -> None:
        """Look for the coordinators of many groups at once, so that `of` need not do it one by one."""
        if self._client is not None:
            self._runner.run(find_group_coordinators(self._client, filter(is_usable_group, groups)))

    def others(self) -> tuple[dict[str, str], bool]:
        """The groups that are no consumer groups, each with the reason why it is not synced; and whether these are all.

        If our client can't log in, there are none.
        """
        return ({}, True) if self._client is None else self._runner.run(other_groups(self._client))

    def of(
        self, group: str, names: Mapping[Partition, tuple[str, int]], timeout: float = LONG, stable: bool = False
    ) -> Found:
        """The committed offsets of a group, and why those of some partitions are not known.

        `names` has the topic partitions of this cluster by source partition. An offset in a transaction that has not
        ended is not waited for, because the transaction may hang: the one before it counts, or if `stable` that
        partition's offset is not known. It waits for `timeout` seconds, also while the group's coordinator moves or
        loads. Raises ClusterAway or PartitionError.
        """
        return self._found(group, names, timeout, offset_fetch(group, list(names.values()), stable), stable)

    def all_of(self, group: str, names: Mapping[Partition, tuple[str, int]], timeout: float = LONG) -> Found:
        """The same for who asks for many groups, and for each of a cluster's partitions.

        Few groups have offsets in more than a few of them. So the request names none, and the answer has those that
        there are. (librdkafka has to name them.)
        """
        return self._found(group, names, timeout, offset_fetch(group, None, stable=False), stable=False)

    def _found(
        self,
        group: str,
        names: Mapping[Partition, tuple[str, int]],
        timeout: float,
        request: Request[Offsets],
        stable: bool,
    ) -> Found:
        if not names:
            return {}, {}
        if not is_usable_group(group):
            raise PartitionError(f"no offsets of group {group!r:.100}: {UNUSABLE}")
        if self._client is not None:
            try:
                return self._read(self._client, group, names, timeout, request)
            except Unsupported as error:
                self._leave_out_metadata(error)
        found, failed = positions_of(self._there, group, names, timeout, stable)
        return {partition: Committed(*at) for partition, at in found.items()}, failed

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
        self._runner.close()

    def _leave_out_metadata(self, error: Unsupported) -> None:
        # Not more than debug: each group round has another reader, and says it again.
        log.debug("offsets of groups have no metadata", extra={"cluster": self._there.alias, "reason": str(error)})
        if self._client is not None:
            self._client.close()
        self._client = None

    def _read(
        self,
        client: wire.Cluster,
        group: str,
        names: Mapping[Partition, tuple[str, int]],
        timeout: float,
        request: Request[Offsets],
    ) -> Found:
        try:
            answer = self._runner.run(asked(client, group, partial(_fetched, request), timeout))
        except Unavailable as error:
            raise ClusterAway(self._there.alias, f"no offsets of group {group}: {error}") from error
        except Unsupported:
            raise
        except WireError as error:
            raise PartitionError(f"no offsets of group {group}: {error}") from error
        known = {partition: answer.found[name] for partition, name in names.items() if name in answer.found}
        failed = {p: _refused(group, error) for p, (error, _) in known.items() if error}
        good = {p: at for p, (error, at) in known.items() if not error and at.offset >= 0}
        return {p: Committed(at.offset, at.metadata, at.epoch) for p, at in good.items()}, failed


def _refused(group: str, error: int) -> str:
    why = f"no offset of group {group}: {name_of(error)}"
    return held(f"an offset of group {group}") if error == _UNSTABLE else why


async def _fetched(request: Request[Offsets], coordinator: Connection) -> Offsets:
    answer = await coordinator.ask(request)
    if answer.error:
        raise failure(answer.error, request.api.name)
    return answer


def offsets_of(cluster: Cluster, group: str, names: Mapping[Partition, tuple[str, int]]) -> Found:
    """What GroupOffsets.of gives, for who asks once."""
    with closing(GroupOffsets(cluster)) as reader:
        return reader.of(group, names)
