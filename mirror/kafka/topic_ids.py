"""The ids (KIP-516) of the topics that a consumer reads: a topic that was deleted and created again has a new id."""

from __future__ import annotations

import logging

from mirror.kafka.clients import LIBRDKAFKA
from mirror.kafka.librdkafka_log import changed_topic


class TopicIds(dict[str, str]):
    """A consumer's logger that keeps the current ids of the topics that it reads, and which have `changed`.

    When a topic is recreated, librdkafka continues in the new topic at the old offset. It only logs the change ("FIXME"
    in its source), before it fetches from the new topic.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[str] = set()

    def log(self, level: int, text: str, *args: object) -> None:
        """The method of logging.Logger that librdkafka calls, with facility, client and line in `args`."""
        if level >= logging.INFO:
            LIBRDKAFKA.debug(text, *args)
        elif (found := changed_topic(args)) is not None:
            topic, self[topic] = found
            self.changed.add(topic)


class KnownIds:
    """Detects recreated topics by the ids that brokers report."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._gone: set[str] = set()  # a broker that does not know the new topic yet may still report the old id

    def is_another(self, topic: str, topic_id: str) -> bool:
        """True if the topic has a new id since the last call. From now on that is the known one."""
        before = self._now.get(topic)
        if topic_id == before or topic_id in self._gone:
            return False
        self._now[topic] = topic_id
        if before is not None:
            self._gone.add(before)
        return before is not None
