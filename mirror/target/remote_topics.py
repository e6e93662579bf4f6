"""Notices that a remote topic was deleted, and with it the copy, or that another topic has its name now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError

from mirror.kafka.cluster import ClusterAdmin, Refusals
from mirror.model import Topic
from mirror.settings import Flow


@dataclass(frozen=True, slots=True)
class RemoteTopics:
    """The remote topics on the target, by name."""

    ids: Mapping[str, str]  # as the plan has them, until a change is sure
    lost: frozenset[str]  # the topic is gone, or another one has its name: its partitions are blocked
    doubtful: frozenset[str]  # the same, but seen only once: nothing follows from that yet


class RemoteTopicsMonitor:
    """Compares the target's topics with those of the last plan, look by look."""

    def __init__(self, flow: Flow, target: ClusterAdmin) -> None:
        self._flow = flow
        self._target = target
        # By topic that had changed at the last look: its id in the plan, and on the target (None: it was not there).
        self._seen: dict[str, tuple[str, str | None]] = {}

    def reconfigure(self, flow: Flow) -> None:
        """Follow other settings."""
        self._flow = flow

    def look(
        self,
        names: Iterable[str],
        known: Mapping[str, Topic],
        retired: Iterable[Topic],
        remade: Callable[[Topic], bool],
    ) -> RemoteTopics:
        """Look at the remote topics `names`, those of `known`, which is by source topic, and those of `retired` ones.

        The last are never lost: nobody copies them. `remade` is True if somebody has decided that a topic may be
        another one now. A policy may have decided that, too. A change counts only when the next look sees it again: the
        broker that answered may have old metadata.
        """
        before = {topic.remote: topic for topic in (*retired, *known.values()) if topic.remote_id}
        skipping = {t.remote for name, t in known.items() if self._flow.of_topic(name).on_data_loss == "skip"}
        refused: Refusals = {}
        ids = self._target.topic_ids(sorted({*names, *before}), refused)
        gone = {name for name, error in refused.items() if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART}
        changed: dict[str, tuple[str, str | None]] = {}
        for name, topic in before.items():
            found = ids.get(name)
            # Any other error proves nothing. If we may not describe the topic, writing to it gives the error.
            if found != topic.remote_id and (found is not None or name in gone):
                changed[name] = topic.remote_id, found
        sure = {name for name, found in changed.items() if self._seen.get(name) == found}
        self._seen = changed
        copied = {topic.remote for topic in known.values()}
        lost = {name for name in sure & copied if name not in skipping and not remade(before[name])}
        believed = {name: topic.remote_id for name, topic in before.items() if name not in sure}
        return RemoteTopics(ids | believed, frozenset(lost), frozenset(changed.keys() - sure))
