"""The result of the last `mirror verify` of a whole flow, on the control topic: the service shows it. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from mirror import decode

VERIFY_KEY = b"verify"
VALUE_MAX = 2**16  # bytes


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found when all topics of a flow were compared."""

    at: float  # when the comparison ended, in seconds since the Unix epoch
    equal: bool  # as the command's exit code says it without --strict
    compared: int  # records that are the same on both sides
    differences: int  # records that are lost, duplicated, reordered, altered or extra
    not_comparable: int  # records that only one of the logs still has

    def encode(self) -> bytes:
        """The record value, JSON."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(value: bytes) -> Verification:
        """Decode a value that `encode` made. Raises DecodeError."""
        return Verification(**decode.fields(decode.parsed(value, VALUE_MAX), _FIELDS))


_FIELDS = {
    "at": decode.moment(),
    "equal": decode.flag,
    "compared": decode.integer(),
    "differences": decode.integer(),
    "not_comparable": decode.integer(),
}
