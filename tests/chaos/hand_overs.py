"""A source whose records fit whole batches at times, and do not at others: partitions change their data path."""

from __future__ import annotations

import contextlib
import random
import threading
from types import TracebackType

from confluent_kafka import KafkaException

from tests.chaos.arena import Arena
from tests.harness import topics
from tests.harness.service import TAKES_BATCHES, TAKES_RECORDS
from tests.harness.waiting import TooLate

LASTS = (1.0, 8.0)  # seconds that the topic stays as it is


class HandOvers:
    """A context manager: meanwhile the source puts its own time into a topic's records, and does not, by turns.

    Such batches don't go by the batch path.
    """

    def __init__(self, arena: Arena, topic: str, rng: random.Random) -> None:
        self._arena, self._topic, self._rng = arena, topic, rng
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"hand-overs of {topic}")

    @property
    def seen(self) -> int:
        """How often a partition of the topic has changed its path."""
        return sum(len(self._arena.find(each, topic=self._topic)) for each in (TAKES_BATCHES, TAKES_RECORDS))

    def __enter__(self) -> HandOvers:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        kinds = ("LogAppendTime", "CreateTime")
        turn = 0
        while not self._stopping.wait(self._rng.uniform(*LASTS)):
            with contextlib.suppress(KafkaException, TooLate):  # a fault has taken the brokers, or the topic
                topics.configure(self._arena.pair.source, self._topic, message_timestamp_type=kinds[turn % 2])
                turn += 1
