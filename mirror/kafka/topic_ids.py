"""The ids (KIP-516) of the topics that a consumer reads: a topic that was deleted and created again has a new id."""

from __future__ import annotations

import logging
from collections.abc import Mapping

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

    def differs(self, topic: str, topic_id: str) -> bool:
        """True if it is neither the known id nor a former one. Takes no note of it."""
        return topic_id != self._now.get(topic) and topic_id not in self._gone

    def now(self, topic: str) -> str | None:
        """The known id."""
        return self._now.get(topic)


class ConfirmedIds:
    """The ids of topics, look by look, as far as they can be believed.

    A broker that is cut off from the controller reports the topics that it knew. So another id than before counts only
    when the next look gives it again. An id that was replaced never counts again, however often it is reported: a topic
    that was deleted comes back only with a new id.
    """

    def __init__(self) -> None:
        self._known = KnownIds()
        self._seen: dict[str, str] = {}  # by topic that had another id at the last look: that id

    @property
    def doubtful(self) -> bool:
        """True if the last look has given an id that the next one has to confirm."""
        return bool(self._seen)

    def learn(self, ids: Mapping[str, str]) -> None:
        """Take note of ids that somebody has confirmed, by topic."""
        for topic, topic_id in ids.items():
            self._known.is_another(topic, topic_id)

    def look(self, found: Mapping[str, str]) -> dict[str, str]:
        """The ids that count after a look that has `found` these. A topic that was never seen before is believed."""
        others = {topic: found_id for topic, found_id in found.items() if self._known.differs(topic, found_id)}
        sure = {t: i for t, i in others.items() if self._known.now(t) is None or self._seen.get(t) == i}
        self.learn(sure)
        self._seen = {topic: others[topic] for topic in others.keys() - sure.keys()}
        return {topic: self._known.now(topic) or found_id for topic, found_id in found.items()}
