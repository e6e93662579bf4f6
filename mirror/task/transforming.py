"""Applies a topic's transform to the batches of one partition, before their transactions begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from mirror.clock import Clock
from mirror.errors import RecordsRefused, TransformFailed
from mirror.kafka.consumed_batch import ConsumedBatch
from mirror.kafka.record_headers import weight
from mirror.model import Partition
from mirror.transform import Record, Transform, load

TIME_MAX = 1.0  # seconds for transforming one batch; the records that are left come in the next one
HANGS_AFTER = 30.0  # seconds for one record
SLOW_AFTER = 0.1  # seconds; if a batch took longer, the partition's steps must leave threads to others


@dataclass(frozen=True, slots=True)
class Transformed:
    """What a transform has made of the first records of a batch: as many as it did in time, at least one.

    If it fails for a record, the records before that one come first, without it. If it fails for the first record,
    `consumed` has only that one, and `failure` says why.
    """

    consumed: ConsumedBatch
    copied: ConsumedBatch | None = None  # what the transform returned for them; None: it dropped every record
    failure: str = ""


class Transforming:
    """Applies the transform of one partition."""

    def __init__(self, path: str, partition: Partition, clock: Clock) -> None:
        self.is_slow = False  # the last batch took long; any thread may read it
        self._record: int | None = None  # upstream offset of the record that is being transformed
        self._path = path
        self._partition = partition
        self._clock = clock

    def hangs(self, seconds: float) -> str:
        """For people: the record for which the transform does not return, if `seconds` are too long; else ""."""
        offset = self._record
        if offset is None or seconds < HANGS_AFTER:
            return ""
        said = f"the transform {self._path} does not return for the record at offset {offset}"
        return f"{said}; correct it and start the service again"

    def apply(self, batch: ConsumedBatch, max_bytes: int, progressed: Callable[[], None]) -> Transformed:
        """Transform the first records of a batch, until the result has more than `max_bytes`.

        `progressed` is called before and after that. Raises TransformUnusable, also at a later call.
        """
        progressed()
        begun, transform = self._clock.monotonic(), load(self._path)
        made, count, failure = _Made(), 0, ""
        try:
            for count, message in enumerate(batch.messages):
                if count and (made.weight > max_bytes or self._clock.monotonic() - begun > TIME_MAX):
                    break
                self._record = batch.offsets[count]
                made.add(message, self._transformed(transform, batch, count))
            else:
                count = len(batch.messages)
        except (RecordsRefused, TransformFailed) as error:
            failure = str(error)
        finally:
            progressed()  # first: others must not see a step that has taken long, without the record that explains it
            self._record = None
        self.is_slow = self._clock.monotonic() - begun > SLOW_AFTER
        if failure and not count:
            return Transformed(batch.first(1), failure=failure)
        return Transformed(batch.first(count), made.batch())

    def _transformed(self, transform: Transform, batch: ConsumedBatch, index: int) -> Record | None:
        """One record of the batch. Raises RecordsRefused if its headers can't be read, or TransformFailed."""
        key, headers, timestamp = batch.keys[index], batch.headers[index], batch.timestamps[index]
        headers = tuple(headers) if headers else ()  # testing unreadable ones for truth raises
        value = batch.messages[index].value()
        return transform(Record(*self._partition, batch.offsets[index], timestamp, key, value, headers))


class _Made:
    """The records that a transform has returned."""

    def __init__(self) -> None:
        self.weight = 0
        self._messages: list[Message] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[Any] = []
        self._offsets: list[int] = []
        self._timestamps: list[int] = []

    def add(self, message: Message, record: Record | None) -> None:
        if record is None:
            return
        headers = list(record.headers) or None
        self.weight += weight(record.key, record.value, headers)
        self._messages.append(message)
        self._keys.append(record.key)
        self._values.append(record.value)
        self._headers.append(headers)
        self._offsets.append(record.offset)
        self._timestamps.append(record.timestamp)

    def batch(self) -> ConsumedBatch | None:
        if not self._messages:
            return None
        columns = (self._messages, self._keys, self._headers, self._offsets, self._timestamps)
        return ConsumedBatch(*columns, self.weight, self._values)
