"""Notices that a remote topic was deleted, and with it the copy, or that another topic has its name now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

from confluent_kafka import KafkaError

from mirror.errors import PartitionError, ProducerFenced
from mirror.kafka.clients import group_reader
from mirror.kafka.cluster import ClusterAdmin, Refusals
from mirror.kafka.transactional_ids import transactional_id
from mirror.logs import OnChange
from mirror.model import Topic
from mirror.settings import Flow
from mirror.target.fencing import fence

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemoteTopics:
    """The remote topics on the target, by name."""

    ids: Mapping[str, str]
    lost: frozenset[str]  # the topic is gone, or another one has its name: its partitions are blocked
    # The same, but nothing follows from that yet: it was seen only once, or the copiers can't be fenced.
    doubtful: frozenset[str]


class RemoteTopicsMonitor:
    """Compares the target's topics with those of the last plan, look by look."""

    def __init__(self, flow: Flow, target: ClusterAdmin) -> None:
        self._flow = flow
        self._target = target
        # By topic that had changed at the last look: the id that it had then; None if the target had no such topic.
        self._seen: dict[str, str | None] = {}
        self._fenced: set[str] = set()  # topics that are gone, and to which no session can write any more
        self._why_not = OnChange()

    def reconfigure(self, flow: Flow) -> None:
        """Follow other settings."""
        self._flow = flow

    def look(
        self,
        names: Iterable[str],
        known: Mapping[str, Topic],
        remade: Callable[[Topic], bool],
        on_progress: Callable[[], object],
    ) -> RemoteTopics:
        """Look at the remote topics `names` and those of `known`, which is by source topic.

        `remade` is True if somebody has decided that a topic may be another one now. A policy may have decided that,
        too. A change counts only when the next look sees it again: the broker that answered may have old metadata.
        Before a topic that is gone may be created again, its copiers are fenced; `on_progress` is called meanwhile.
        """
        before = {topic.remote: topic for topic in known.values() if topic.remote_id}
        skipping = {t.remote for name, t in known.items() if self._flow.of_topic(name).on_data_loss == "skip"}
        refused: Refusals = {}
        ids = self._target.topic_ids(sorted({*names, *before}), refused)
        gone = {name for name, error in refused.items() if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART}
        changed: dict[str, str | None] = {}
        for name, topic in before.items():
            found = ids.get(name)
            # Any other error proves nothing. If we may not describe the topic, writing to it gives the error.
            if found != topic.remote_id and (found is not None or name in gone):
                changed[name] = found
        sure = {name for name, found in changed.items() if name in self._seen and self._seen[name] == found}
        self._seen = changed
        lost = {name for name in sure if name not in skipping and not remade(before[name])}
        self._fenced &= changed.keys()
        unfenced = {name for name in sure - lost - self._fenced if changed[name] is None}
        self._fenced |= {name for name in unfenced if self._is_fenced(before[name], on_progress)}
        return RemoteTopics(ids, frozenset(lost), frozenset((changed.keys() - sure) | (unfenced - self._fenced)))

    def _is_fenced(self, topic: Topic, on_progress: Callable[[], object]) -> bool:
        """Fence all copiers of a topic that is gone. Returns False if that fails.

        An open session addresses its topic by name. It would go on in the new topic, and write map entries and
        positions that name the id of the old one. Nobody can take a partition over while there is no topic.
        """
        if not self._flow.exactly_once:
            return True
        try:
            with closing(group_reader(self._flow.target, self._flow.group, "read_committed")) as member:
                for number in range(topic.partitions):
                    with suppress(ProducerFenced):  # by a newer producer, which has fenced the session, too
                        fence(self._flow, transactional_id(self._flow, topic.remote, number), member)
                    on_progress()
        except PartitionError as error:
            if self._why_not.is_new(str(error), topic.remote):
                fields = {"flow": self._flow.name, "topic": topic.remote, "reason": str(error)}
                log.warning("topic is not created again yet: its copiers can't be fenced", extra=fields)
            return False
        return True
