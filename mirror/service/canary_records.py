"""The records of a flow's canary, and which of them have arrived. It makes no request, and is given both clocks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass

from mirror import decode

VALUE_MAX = 1_000  # bytes
WAITING_MAX = 1_000  # most records that are waited for; older ones are forgotten


@dataclass(frozen=True, slots=True)
class CanaryRecord:
    """The value of a record. It has no time, because the flow leader remembers when it has written it."""

    run: str  # a unique value of the flow leader that has written it
    number: int

    def encode(self) -> bytes:
        """The record value, JSON."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(value: bytes) -> CanaryRecord:
        """Decode a value that anybody may have written. Raises DecodeError."""
        return CanaryRecord(**decode.fields(decode.parsed(value, VALUE_MAX), _FIELDS))


_FIELDS = {"run": decode.name, "number": decode.integer()}


@dataclass(frozen=True, slots=True)
class Arrival:
    """The newest record that has arrived."""

    at: float  # when it was written, in seconds since the Unix epoch
    seconds: float  # from writing it until it was read


class CanaryFlights:
    """The records that one flow leader has written. Others do not count.

    The flow leader's own clock gives both times, of writing and of arriving. So no two clocks are compared.
    """

    def __init__(self, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        """`clock` gives seconds since the Unix epoch."""
        self._clock = clock
        self._monotonic = monotonic
        self._run = uuid.uuid4().hex
        self._number = 0
        self._waiting: dict[int, tuple[float, float]] = {}  # by number: when it was written, by both clocks

    @property
    def waits(self) -> float:
        """Seconds since the oldest record was written that has not arrived; 0 if all have."""
        return self._monotonic() - next(iter(self._waiting.values()))[1] if self._waiting else 0.0

    def next(self) -> bytes:
        """The value of the next record."""
        self._number += 1
        self._waiting[self._number] = self._clock(), self._monotonic()
        if len(self._waiting) > WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
        return CanaryRecord(self._run, self._number).encode()

    def arrived(self, value: bytes) -> Arrival | None:
        """Take note of a record that was read. None if it is not ours, or if a newer one has arrived before.

        Records before it are not waited for any longer: compaction may have removed them. Raises DecodeError.
        """
        record = CanaryRecord.decode(value)
        if record.run != self._run or record.number not in self._waiting:
            return None
        at, began = self._waiting[record.number]
        self._waiting = {number: times for number, times in self._waiting.items() if number > record.number}
        return Arrival(at, self._monotonic() - began)
