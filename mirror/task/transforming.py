"""Applies a topic's transform to the batches of one partition, before their transactions begin."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message

from mirror.clock import Clock
from mirror.errors import RecordsRefused, TransformFailed, TransformUnusable
from mirror.kafka.consumed_batch import ConsumedBatch
from mirror.kafka.record_headers import weight
from mirror.model import Partition
from mirror.transform import Record, Transform, load

TIME_MAX = 1.0  # seconds for transforming one batch; the records that are left come in the next one
HANGS_AFTER = 30.0  # seconds for one record, or for the import of the transform
EARLY_MAX = 20.0  # seconds; less than SILENCE, because a task reports nothing while it waits for its transforms
SLOW_AFTER = 0.1  # seconds; if a batch took longer, the partition's steps must leave threads to others


def import_early(paths: Sequence[str], patience: float = EARLY_MAX) -> None:
    """Import transforms before records wait for them. Wait for that, but not longer than `patience` seconds.

    The import goes on in another thread. An error is not raised: it blocks the transform's topics once they have
    records.
    """

    def work() -> None:
        for path in paths:
            with contextlib.suppress(TransformUnusable):
                load(path)

    if paths:
        thread = threading.Thread(target=work, daemon=True, name="import transforms")
        thread.start()
        thread.join(patience)


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
        self._imports = False  # the transform is being imported
        self._record: int | None = None  # upstream offset of the record that is being transformed
        self._path = path
        self._partition = partition
        self._clock = clock

    def hangs(self, seconds: float) -> str:
        """For people: what the transform does without end, if `seconds` are too long; else ""."""
        offset = self._record
        if seconds < HANGS_AFTER or (offset is None and not self._imports):
            return ""
        if offset is None:
            return f"to import the transform {self._path} has taken more than {HANGS_AFTER:g} s"
        said = f"the transform {self._path} does not return for the record at offset {offset}"
        return f"{said}; correct it and start the service again"

    def apply(self, batch: ConsumedBatch, max_bytes: int, progressed: Callable[[], None]) -> Transformed:
        """Transform the first records of a batch, until the result has more than `max_bytes`.

        `progressed` is called before and after that, and once the transform is imported. Raises TransformUnusable, also
        at a later call.
        """
        progressed()
        begun, transform = self._clock.monotonic(), self._loaded(progressed)
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

    def _loaded(self, progressed: Callable[[], None]) -> Transform:
        """The transform. Raises TransformUnusable, also if its import takes more than a minute."""
        self._imports = True
        try:
            return load(self._path)
        finally:
            progressed()  # before the flag changes, for the same reason as in `apply`
            self._imports = False

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
