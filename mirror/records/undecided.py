"""What a comparison of both sides says where it can't tell how far a partition was copied."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Undecided:
    """It can't be told where the copy ends, and so not what is to be copied next."""

    reason: str
