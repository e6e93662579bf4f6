"""Commits offsets of consumer groups with librdkafka, on clusters that mirror's own client can't use."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from confluent_kafka import KafkaError, TopicPartition

from mirror.errors import ClusterAway
from mirror.groups.group_coordinator import LATE
from mirror.groups.group_offsets import Committed
from mirror.kafka.client_errors import is_away
from mirror.kafka.clients import group_committer
from mirror.kafka.renewed import end_later
from mirror.settings import Cluster
from mirror.wire.error_codes import NONE
from mirror.wire.offsets import Where

ANSWER_TIMEOUT = 10.0  # seconds
POLL = 0.01  # seconds; a consumer's poll does not return after a callback
FORGOTTEN_AFTER = 60.0  # seconds; librdkafka itself gives up sooner, see `group_committer`, if it ever does


def not_committed(group: str, reason: object) -> str:
    """What an error says about a group whose offsets were not, or perhaps not, committed."""
    return f"the offsets of group {group} can't be committed: {reason}"


class _Attempt:
    """A commit that is under way, or was answered."""

    def __init__(self, cluster: Cluster, group: str, offsets: list[TopicPartition]) -> None:
        self.began = time.monotonic()
        # The client refers to the list, and not to this object. With a reference cycle, the garbage collector would end
        # the client, in any thread, and that may take a minute.
        self._answers: list[list[KafkaError]] = []
        self.client = group_committer(cluster, group, partial(_take, self._answers))
        self.client.commit(offsets=offsets, asynchronous=True)

    def wait(self, timeout: float) -> bool:
        """Wait for an answer, at most so many seconds. True if there is one."""
        deadline = time.monotonic() + timeout
        while not self._answers and time.monotonic() < deadline:
            self.client.poll(POLL)
        return bool(self._answers)

    @property
    def error(self) -> KafkaError | None:
        """The answer's first error; None if it has none."""
        return next(iter(self._answers[0]), None)


def _take(answers: list[list[KafkaError]], error: KafkaError | None, offsets: list[TopicPartition]) -> None:
    failed = [each.error for each in offsets if each.error is not None]
    answers.append(failed if error is None or failed else [error])


class CommitsOfLibrdkafka:
    """Commits to the groups of one cluster. Only one thread uses it.

    confluent-kafka ends the metadata with a NUL, and takes none within it.

    A `Consumer.commit` that waits for its answer has no time-out. So commits are sent without waiting. A commit without
    an answer can't be taken back: it may be carried out later, and would then replace the offset of the next commit. So
    a group gets no other commit until this one has an answer, or is so old that it can't be carried out any more.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._attempts: dict[str, _Attempt] = {}  # by group: those without an answer

    def close(self) -> None:
        """Drop what has no answer."""
        for group in list(self._attempts):
            end_later(self._attempts.pop(group).client)

    def commit(self, group: str, offsets: Mapping[Where, Committed], timeout: float) -> Mapping[Where, int]:
        """Commit offsets of a group, after `end_earlier`. An error code for each. Raises ClusterAway.

        If the broker refuses those of some partitions only, librdkafka (2.16) gives all the same error.
        """
        places = [TopicPartition(*where, at.offset, at.text) for where, at in offsets.items()]
        attempt = self._attempts[group] = _Attempt(self._cluster, group, places)
        if not attempt.wait(min(timeout, ANSWER_TIMEOUT)):
            raise self._late(group)
        del self._attempts[group]
        attempt.client.close()
        error = attempt.error
        if error is not None and is_away(error):
            raise ClusterAway(self._cluster.alias, not_committed(group, error.str()))
        return dict.fromkeys(offsets, NONE if error is None else error.code())

    def end_earlier(self, group: str) -> None:
        """End an earlier commit of the group. Its result shows in the group's offsets, which are read in each round.

        Raises ClusterAway while it may still be carried out.
        """
        earlier = self._attempts.get(group)
        if earlier is None:
            return
        if earlier.wait(POLL):
            earlier.client.close()
        elif time.monotonic() - earlier.began > FORGOTTEN_AFTER:
            end_later(earlier.client)
        else:
            raise self._late(group)
        del self._attempts[group]

    def _late(self, group: str) -> ClusterAway:
        return ClusterAway(self._cluster.alias, not_committed(group, LATE))
