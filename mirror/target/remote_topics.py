"""Are the remote topics still those that hold the copy? A topic that is deleted takes all that was copied with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError

from mirror.kafka.cluster import ClusterAdmin, Refusals
from mirror.model import Topic
from mirror.settings import Flow


@dataclass(frozen=True, slots=True)
class RemoteTopics:
    """What the target has, by name of the remote topic."""

    ids: Mapping[str, str]
    lost: frozenset[str]  # gone, or another one has the name: its partitions are blocked
    doubtful: frozenset[str]  # the same, seen only once: nothing is concluded from it yet


class RemoteTopicsMonitor:
    """Compares the target's topics with those of the last plan, look by look."""

    def __init__(self, flow: Flow, target: ClusterAdmin) -> None:
        self._flow = flow
        self._target = target
        # The id that was found at the last look in place of a known topic's; None: the target had none of this name.
        self._seen: dict[str, str | None] = {}

    def reconfigure(self, flow: Flow) -> None:
        """Follow other settings."""
        self._flow = flow

    def look(self, names: Iterable[str], known: Mapping[str, Topic], remade: Callable[[Topic], bool]) -> RemoteTopics:
        """Look at the remote topics `names` and those of `known`, which is by source topic.

        `remade` tells whether somebody has decided that a topic may be another one now; a policy may have, too. One
        broker that has not heard of a new topic yet proves nothing: a change counts when the next look sees it again.
        """
        before = {topic.remote: topic for topic in known.values() if topic.remote_id}
        skipping = {t.remote for name, t in known.items() if self._flow.of_topic(name).on_data_loss == "skip"}
        refused: Refusals = {}
        ids = self._target.topic_ids(sorted({*names, *before}), refused)
        gone = {name for name, error in refused.items() if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART}
        changed: dict[str, str | None] = {}
        for name, topic in before.items():
            found = ids.get(name)
            # Kafka hides a topic that we may not describe: that is told where it is written.
            if found != topic.remote_id and (found is not None or name in gone):
                changed[name] = found
        sure = {name for name, found in changed.items() if name in self._seen and self._seen[name] == found}
        self._seen = changed
        lost = {name for name in sure if name not in skipping and not remade(before[name])}
        return RemoteTopics(ids, frozenset(lost), frozenset(changed.keys() - sure))
