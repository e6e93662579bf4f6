"""The ids (KIP-516) of the topics that a consumer reads: a topic that was deleted and made again has another one."""

from __future__ import annotations

import logging

from mirror.kafka.clients import LIBRDKAFKA
from mirror.kafka.librdkafka_log import changed_topic


class TopicIds(dict[str, str]):
    """A consumer's logger: the ids of the topics that it reads, which need not be those that it read before.

    When a topic is created again it goes on in the new one at the old offset. librdkafka only logs the change ("FIXME"
    in its source), before it fetches from the new topic.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[str] = set()

    def log(self, level: int, text: str, *args: object) -> None:
        """As logging.Logger.log: librdkafka gives facility, client and line."""
        if level >= logging.INFO:
            LIBRDKAFKA.debug(text, *args)
        elif (found := changed_topic(args)) is not None:
            topic, self[topic] = found
            self.changed.add(topic)


class KnownIds:
    """Tells topics that were made anew, by their ids as brokers tell them."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._gone: set[str] = set()  # a broker that has not heard of the new topic may tell the old one's

    def is_another(self, topic: str, topic_id: str) -> bool:
        """Has the topic another id than when it was last asked for? Then from now on that is the known one."""
        before = self._now.get(topic)
        if topic_id == before or topic_id in self._gone:
            return False
        self._now[topic] = topic_id
        if before is not None:
            self._gone.add(before)
        return before is not None
