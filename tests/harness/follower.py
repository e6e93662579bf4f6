"""When records reach a read_committed consumer of the target."""

from __future__ import annotations

import threading
import time
import uuid
from itertools import pairwise
from types import TracebackType

from confluent_kafka import OFFSET_END, Consumer, TopicPartition


class Follower:
    """Follows one partition from its end on, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self.arrivals: list[float] = []  # monotonic, one for each bunch of records
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"follower-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_END)])
        self._thread = threading.Thread(target=self._run, daemon=True, name="follower")

    def largest_gap(self, since: float) -> float:
        """The longest time without a record between `since` and now."""
        moments = [since, *(moment for moment in list(self.arrivals) if moment > since), time.monotonic()]
        return max(after - before for before, after in pairwise(moments))

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.arrivals.append(time.monotonic())
        self._consumer.close()

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join(30)
