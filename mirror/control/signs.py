"""Signs of life: which service runs a flow at this moment, on the control topic. A standby listens for them. Pure.

A plan does not say it: plans are written only when something changes. Reports do not say it either: tasks go on for a
while without their service, and a flow without partitions has no reports.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from mirror import decode

SIGN_KEY = b"alive"
VALUE_MAX = 2**12  # bytes
HOST_MAX = 100  # characters


@dataclass(frozen=True, slots=True)
class Sign:
    """What a service of the flow writes every SIGN_INTERVAL, and a standby to claim it. Each replaces the last one."""

    service_id: str  # of the service, whether it leads the flow yet or not
    host: str  # where it runs, for people; in Kubernetes the pod's name

    def encode(self) -> bytes:
        """The record value, JSON."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(value: bytes) -> Sign:
        """Decode a value that `encode` made. Raises DecodeError."""
        return Sign(**decode.fields(decode.parsed(value, VALUE_MAX), {"service_id": decode.name, "host": decode.name}))
