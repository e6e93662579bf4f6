"""What is known of the control and status topics of other flows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from confluent_kafka import Message

from mirror.control.control_topics import INTENT_KEY, PLAN_KEY
from mirror.control.signs import Sign
from mirror.control.statement import Statement

LONG_AGO = -1e9  # a monotonic time that is before everything


@dataclass(slots=True)
class ControlTopic:
    """What has been read from one control topic."""

    reached: int = 0  # the offset to read from next
    # Monotonic. At the first reading: when the newest plan or intent was written, by its timestamp. From then on: when
    # the last one was read, or the last sign of life of a service whose plan or intent is in force.
    written: float = LONG_AGO
    successor_at: float = LONG_AGO  # monotonic: the last sign of life of a service that is to take such a one's place
    statements: dict[bytes, Statement] = field(default_factory=dict)  # by record key
    doubts: dict[bytes, str] = field(default_factory=dict)  # by record key: why the value cannot be decoded

    def effective(self) -> Iterator[tuple[Statement, bool]]:
        """The statements that are in force, each with True for a plan and False for an intent.

        An intent ends with the plan that follows it.
        """
        plan, intent = self.statements.get(PLAN_KEY), self.statements.get(INTENT_KEY)
        if plan and not plan.stop:
            yield plan, True
        if intent and (plan is None or intent.generation > plan.generation):
            yield intent, False

    def keep(self, key: bytes, message: Message, is_new: bool) -> None:
        """Take a plan or an intent in place of the one before it. `is_new`: it was written since the last reading."""
        self.statements.pop(key, None)
        self.doubts.pop(key, None)
        value = message.value()
        if value is None:  # withdrawn
            return
        self.written = max(self.written, time.monotonic() - (0.0 if is_new else age(message)))
        try:
            self.statements[key] = Statement.decode(value)
        except ValueError as error:
            self.doubts[key] = str(error)[:200]

    def pass_over(self, key: bytes, reason: str) -> None:
        """Note that a plan or an intent, which has replaced the one before it, is not decoded."""
        self.statements.pop(key, None)
        self.doubts[key] = reason

    def hear(self, sign: bytes) -> None:
        """Take a sign of life that was written since the last reading.

        A service that was killed leaves a plan that does not say stop. One that is started in its place gives signs,
        too, before it has a plan or an intent of its own. While another flow is in its way, they say that it waits, and
        then they are no life of the old plan; nor are those that came before. A sign that can't be decoded counts: a
        newer mirror may have written it.
        """
        try:
            found = Sign.decode(sign)
        except ValueError:
            found = None
        if found is None or any(found.service_id == each.service_id for each, _ in self.effective()):
            self.written = time.monotonic()
        else:
            self.successor_at = LONG_AGO if found.waits else time.monotonic()


@dataclass(slots=True)
class StatusTopic:
    """What is known about one status topic."""

    end: int  # its end offset at the last look
    alive_at: float  # monotonic: when its flow last showed a sign of life


def age(message: Message) -> float:
    """Seconds since the record's timestamp; 0 if that is in the future."""
    timestamp: int = message.timestamp()[1]
    return max(0.0, time.time() - timestamp / 1000)


class Budget:
    """Counts the bytes of the plans and intents that are held, of all topics together. Decoded, they take more.

    Whoever may create topics could otherwise fill the memory with them.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._sizes: dict[str, dict[bytes, int]] = {}  # by topic and record key

    def takes(self, topic: str, key: bytes, size: int) -> bool:
        """True if a value of this size may replace the one of the same topic and key."""
        sizes = self._sizes.setdefault(topic, {})
        self._left += sizes.pop(key, 0)
        if size > self._left:
            return False
        sizes[key] = size
        self._left -= size
        return True

    def forget(self, topic: str) -> None:
        """The values of this topic are not held any more."""
        self._left += sum(self._sizes.pop(topic, {}).values())
