"""Signs of life: which service runs a flow at this moment, on the control topic. A standby listens for them. Pure.

A plan does not say it: plans are written only when something changes. Reports do not say it either: tasks go on for a
while without their service, and a flow without partitions has no reports.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from mirror import decode

SIGN_KEY = b"alive"
GOODBYE_KEY = b"goodbye"
VALUE_MAX = 2**12  # bytes
HOST_MAX = 100  # characters


@dataclass(frozen=True, slots=True)
class Sign:
    """What a service of the flow writes every SIGN_INTERVAL, and a standby to claim it. Each replaces the last one.

    A goodbye has the same value: the service has stopped in order, and what is started in its place is a standby.
    """

    service_id: str  # of the service, whether it leads the flow yet or not
    host: str  # where it runs, for people; in Kubernetes the pod's name
    waits: bool = False  # another flow is in the way of this one, which copies nothing

    def encode(self) -> bytes:
        """The record value, JSON."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(value: bytes) -> Sign:
        """Decode a value that `encode` made. Raises DecodeError."""
        required = {"service_id": decode.name, "host": decode.name}
        return Sign(**decode.fields(decode.parsed(value, VALUE_MAX), required, {"waits": decode.flag}))


@dataclass(slots=True)
class Signs:
    """What a reader of the control topic has heard so far, in the topic's order."""

    last: Sign | None = None  # of those that could be decoded
    count: int = 0
    first: bytes | None = None  # the first one since the user of the reader has set None
    has_left: bool = False  # the service that gave the last sign has said goodbye since, and nobody has planned since

    def read(self, key: bytes, value: bytes) -> None:
        """A sign or a goodbye was read. Raises DecodeError.

        A sign overtakes every goodbye. The goodbye of a service that another one has followed says nothing.
        """
        if key == GOODBYE_KEY:
            self.has_left = self.last is not None and Sign.decode(value).service_id == self.last.service_id
            return
        self.count += 1  # also if it can't be decoded: a newer mirror lives, too
        self.has_left = False
        self.first = value if self.first is None else self.first
        self.last = Sign.decode(value)

    def overtake(self) -> None:
        """A plan was read: a service that has said goodbye writes none."""
        self.has_left = False
